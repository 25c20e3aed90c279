//! The program inside the sample applications: a small web server that shows what it was configured with.
//!
//! It needs nothing but the standard library, so that a static build of it alone is a container image.
//! What it is told, and what it can be told to do wrong, is in [`settings`]; what it answers is in [`answers`].

// Suggested reading order.
mod settings;
mod counter;
mod answers;

use answers::Sample;
use settings::Settings;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Whoever asks is in the same plant; who is silent for longer has gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
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
        Some(other) => Err(format!("`{other}` is not known; without arguments it serves, --healthcheck asks it")),
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
        eprintln!("told to fail with {code} (SAMPLE_FAIL)");
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
                            eprintln!("a request broke off: {error}");
                        }
                    });
                }
                Err(error) => eprintln!("accept: {error}"),
            }
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// One request, one answer, and the connection is closed.
fn answer(sample: &Sample, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
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

/// Asks the program that runs beside this call; images FROM scratch have no other program that could.
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

/// The status line of an answer.
fn get(address: &std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(address, HEALTH_TIMEOUT)?;
    stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(stream.take(HEAD_BYTES_MAX)).read_line(&mut status)?;
    Ok(status.trim_end().to_owned())
}
