//! The program inside the sample applications: a small web server that shows what it was configured with.
//!
//! It needs nothing but the standard library, so that a static build of it alone is a container image.
//! Its settings, including faults to simulate, are in [`settings`]; its responses are in [`responses`].

// Suggested reading order.
mod settings;
mod counter;
mod responses;

use responses::Sample;
use settings::Settings;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Clients are in the same plant; an idle connection is closed after this time.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A health check that takes longer than this is a failed one.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of a request before its body; browsers send less than a quarter of it.
const HEAD_BYTES_MAX: u64 = 16 << 10;

fn main() -> ExitCode {
    let settings = match Settings::from(&|name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(problem) => return failed(&problem),
    };
    let outcome = match std::env::args().nth(1).as_deref() {
        None => serve(settings),
        Some("--healthcheck") => healthcheck(&settings),
        Some(other) => {
            Err(format!("unknown argument `{other}`; without arguments the program serves, --healthcheck checks it"))
        }
    };
    match outcome {
        Ok(code) => code,
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &str) -> ExitCode {
    eprintln!("margrave-sample-program: {problem}");
    ExitCode::FAILURE
}

fn serve(settings: Settings) -> Result<ExitCode, String> {
    eprintln!("starting {} {}", settings.name, settings.version);
    std::thread::sleep(settings.slow);
    if let Some(code) = settings.fail {
        eprintln!("failing with {code} by configuration (SAMPLE_FAIL)");
        return Ok(ExitCode::from(code));
    }
    let listener =
        TcpListener::bind(settings.listen).map_err(|error| format!("listen on {}: {error}", settings.listen))?;
    let sample = Sample::start(settings)?;
    eprintln!("listening on {}", listener.local_addr().map_err(|error| error.to_string())?);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    let sample = &sample;
                    scope.spawn(move || {
                        if let Err(error) = answer(sample, stream) {
                            eprintln!("a request failed: {error}");
                        }
                    });
                }
                Err(error) => eprintln!("accept: {error}"),
            }
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// One request, one response, and the connection is closed.
fn answer(sample: &Sample, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(READ_TIMEOUT))?;
    let mut head = BufReader::new(stream.try_clone()?.take(HEAD_BYTES_MAX));
    let mut first = String::new();
    head.read_line(&mut first)?;
    let mut line = String::new();
    while head.read_line(&mut line)? > 0 && !line.trim_end().is_empty() {
        line.clear();
    }
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let answer = sample.answer(method, path.split('?').next().unwrap_or_default());
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.media_type,
        answer.body.len(),
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(answer.body.as_bytes())?;
    }
    stream.flush()
}

/// Checks the running program; images FROM scratch have no other program for this.
fn healthcheck(settings: &Settings) -> Result<ExitCode, String> {
    let address = (std::net::Ipv4Addr::LOCALHOST, settings.listen.port()).into();
    let status = get(&address, "/healthz").map_err(|error| format!("ask {address}: {error}"))?;
    println_status(&status);
    Ok(if status.split_whitespace().nth(1) == Some("200") { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Health checks keep what is written to standard output.
fn println_status(status: &str) {
    let _ = writeln!(std::io::stdout(), "{status}");
}

/// The status line of a response.
fn get(address: &std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(address, HEALTH_TIMEOUT)?;
    stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(stream.take(HEAD_BYTES_MAX)).read_line(&mut status)?;
    Ok(status.trim_end().to_owned())
}
