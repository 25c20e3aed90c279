//! nginx with client certificates and one static file, as a reference.

use super::process::Process;
use crate::chaos::wait;
use anyhow::Context as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Session tickets of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tickets {
    On,
    Off,
}

pub struct Nginx {
    pub process: Process,
    pub address: SocketAddr,
}

/// Name and version of nginx and its OpenSSL.
pub fn versions() -> anyhow::Result<(String, String)> {
    let output = Command::new("nginx").arg("-V").output().context(
        "nginx is not installed: run `make setup` as root on Debian, or install nginx from your system's packages",
    )?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let server = text.lines().find_map(|line| line.strip_prefix("nginx version: ")).unwrap_or("nginx").to_owned();
    Ok((server, openssl(&text).unwrap_or_else(|| "an unknown TLS library".to_owned())))
}

/// `running with` differs from `built with` if the library was updated.
fn openssl(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("built with "))?;
    let library = line.split_once("(running with ").map_or(&line["built with ".len()..], |(_, running)| running);
    Some(library.split_whitespace().take(2).collect::<Vec<_>>().join(" ").trim_end_matches(')').to_owned())
}

/// Accepts clients with certificates from `bundle`.
pub async fn start(folder: &Path, bundle: &Path, tickets: Tickets, core: Option<usize>) -> anyhow::Result<Nginx> {
    std::fs::create_dir_all(folder)?;
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).context("create a certificate")?;
    std::fs::write(folder.join("server.pem"), own.cert.pem())?;
    std::fs::write(folder.join("server-key.pem"), own.signing_key.serialize_pem())?;
    std::fs::copy(bundle, folder.join("bundle.pem"))?;
    // The size of a manifest with one deployment.
    std::fs::write(folder.join("manifest.json"), "x".repeat(512))?;
    // Released before nginx binds it.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let path = folder.join("nginx.conf");
    std::fs::write(&path, configuration(folder, address, tickets))?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&path).arg("-p").arg(folder).arg("-e").arg(folder.join("error.log"));
    let mut process = Process::start("nginx", &command, core, &folder.join("nginx.log"))?;
    wait::until("nginx listening", Duration::from_secs(30), async || {
        process.must_run().with_context(|| std::fs::read_to_string(folder.join("error.log")).unwrap_or_default())?;
        Ok(std::net::TcpStream::connect(address).map(drop).map_err(|error| error.to_string()))
    })
    .await?;
    Ok(Nginx { process, address })
}

/// No access log, one worker, otherwise defaults.
fn configuration(folder: &Path, address: SocketAddr, tickets: Tickets) -> String {
    let tickets = if tickets == Tickets::On { "on" } else { "off" };
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes 1;
user root;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  default_type application/json;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen {address} ssl;
    ssl_certificate {folder}/server.pem;
    ssl_certificate_key {folder}/server-key.pem;
    ssl_client_certificate {folder}/bundle.pem;
    ssl_verify_client on;
    ssl_verify_depth 3;
    ssl_protocols TLSv1.3;
    ssl_session_tickets {tickets};
    location = /api/v1/deployments {{ alias {folder}/manifest.json; }}
  }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::{Tickets, configuration, openssl};
    use std::path::Path;

    #[test]
    fn names_the_library_it_runs_with() {
        let text =
            "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.20 7 Apr (running with OpenSSL 3.0.19 27 Jan)\n";
        assert_eq!(openssl(text).as_deref(), Some("OpenSSL 3.0.19"));
        assert_eq!(openssl("built with OpenSSL 3.5.1 1 Jul 2025\n").as_deref(), Some("OpenSSL 3.5.1"));
        assert_eq!(openssl(""), None);
    }

    #[test]
    fn demands_certificates_over_tls_1_3() {
        let address = "127.0.0.1:9".parse().expect("an address");
        let text = configuration(Path::new("/f"), address, Tickets::Off);
        for line in ["ssl_verify_client on;", "ssl_protocols TLSv1.3;", "ssl_session_tickets off;"] {
            assert!(text.contains(line), "{line}");
        }
    }
}
