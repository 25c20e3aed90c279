//! A real registry on a free port, and common registry clients.

use crate::support::until;
use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) const USER: &str = "fleet";
pub(crate) const PASSWORD: &str = "registry-pass-1";

/// Debian's `docker-registry`; stopped with the test.
pub(crate) struct Origin {
    process: Child,
    pub(crate) folder: TempDir,
    port: u16,
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Origin {
    /// Starts it with a password, and with HTTPS and its own CA if `tls` is set.
    pub(crate) fn start(tls: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            path("data")
        );
        if tls {
            let (ca, certificate, key) = certificates();
            for (name, content) in [("ca.crt", ca), ("tls.crt", certificate), ("tls.key", key)] {
                std::fs::write(path(name), content).unwrap();
            }
            write!(config, "  tls:\n    certificate: {}\n    key: {}\n", path("tls.crt"), path("tls.key")).unwrap();
        }
        let output = Command::new("htpasswd").args(["-Bbn", USER, PASSWORD]).output().unwrap();
        std::fs::write(path("htpasswd"), output.stdout).unwrap();
        write!(config, "auth:\n  htpasswd:\n    realm: test\n    path: {}\n", path("htpasswd")).unwrap();
        std::fs::write(path("config.yml"), config).unwrap();
        let process = Command::new("docker-registry")
            .args(["serve", &path("config.yml")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("docker-registry is installed by `make setup`");
        let origin = Self { process, folder, port };
        until("registry", || TcpStream::connect(origin.host()).ok());
        origin
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn ca(&self) -> String {
        self.folder.path().join("ca.crt").display().to_string()
    }
}

/// CA, certificate for 127.0.0.1, key: all PEM.
fn certificates() -> (String, String, String) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (ca_pem, leaf.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

/// Finds a program in PATH or in the cache.
fn tool(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cached = cache.map(|cache| cache.join("margrave/tools/bin").join(name));
    let path = std::env::var_os("PATH");
    let on_path = path.iter().flat_map(std::env::split_paths).map(|folder| folder.join(name));
    let found = cached.into_iter().chain(on_path).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("`{name}` is missing: run scripts/tools.sh"))
}

/// Runs a client in its own home folder and expects success.
pub(crate) fn client(home: &Path, name: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool(name))
        .args(arguments)
        .current_dir(home)
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("DOCKER_CONFIG", home.join("docker"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_DATA_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{name}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
