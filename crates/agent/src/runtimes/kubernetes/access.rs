//! Cluster access: a kubeconfig, or the service account of the agent's pod.
//!
//! Programs in a kubeconfig (`exec`, `auth-provider`) are not run, and TLS verification cannot be disabled.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margo::node::Limits;
use rustls::RootCertStore;
use rustls::client::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use url::Url;

/// Where a pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A kubeconfig with its certificates is a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whether the agent runs in a pod with access to its cluster.
pub fn in_a_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
        && Path::new(ACCOUNT).join("token").exists()
}

/// The source of the access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File { path: PathBuf, context: Option<String> },
    Pod,
}

/// The token for the cluster, instead of a certificate.
#[derive(Debug, Clone)]
enum Token {
    None,
    Fixed(SecretString),
    /// Read at every request: tokens of service accounts are replaced every hour.
    File(PathBuf),
}

/// Access to the API.
#[derive(Debug)]
pub struct Access {
    pub server: Url,
    authorities: Vec<CertificateDer<'static>>,
    certificate: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    token: Token,
}

impl Source {
    pub fn read(&self) -> Result<Access, String> {
        match self {
            Self::File { path, context } => {
                let text = read(path)?;
                let folder = path.parent().unwrap_or(Path::new("."));
                kubeconfig(&text, context.as_deref(), folder)
                    .map_err(|reason| format!("the kubeconfig `{}`: {reason}", path.display()))
            }
            Self::Pod => {
                let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
                let (Some(host), Some(port)) =
                    (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
                else {
                    return Err("the agent does not run in a pod; set `kubernetes.kubeconfig`".to_owned());
                };
                pod(&host, &port, Path::new(ACCOUNT))
            }
        }
    }

    /// Changes when the access may have changed.
    pub fn mark(&self) -> Option<(std::time::SystemTime, u64)> {
        let path = match self {
            Self::File { path, .. } => path.clone(),
            Self::Pod => Path::new(ACCOUNT).join("ca.crt"),
        };
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

fn pod(host: &str, port: &str, folder: &Path) -> Result<Access, String> {
    // An IPv6 address is written in brackets.
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let server = Url::parse(&format!("https://{host}:{port}")).map_err(|error| format!("the pod's API: {error}"))?;
    let authorities = certificates(&read(&folder.join("ca.crt"))?, "the service account's ca.crt")?;
    Ok(Access { server, authorities, certificate: None, token: Token::File(folder.join("token")) })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let odd = |error: std::io::Error| format!("`{}` cannot be read: {error}", path.display());
    if std::fs::metadata(path).map_err(odd)?.len() > FILE_BYTES_MAX {
        return Err(format!("`{}` is larger than {FILE_BYTES_MAX} bytes", path.display()));
    }
    std::fs::read(path).map_err(odd)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = crate::identity::pem_certificates(pem).map_err(|error| format!("{what}: {error}"))?;
    if found.is_empty() { Err(format!("{what} holds no certificate")) } else { Ok(found) }
}

/// Reads a kubeconfig; files in it are relative to `folder`.
fn kubeconfig(text: &[u8], context: Option<&str>, folder: &Path) -> Result<Access, String> {
    let node = margo::yaml::parse(text, Limits::DOCUMENT).map_err(|findings| findings.to_string())?;
    let config = node.to_value().map_err(|line| format!("line {line} cannot be read"))?;
    let context = context.or_else(|| config["current-context"].as_str()).filter(|name| !name.is_empty());
    let context = context.ok_or("it has no `current-context`; set `kubernetes.context`")?;
    let chosen = named(&config["contexts"], context).ok_or_else(|| format!("it has no context `{context}`"))?;
    let chosen = &chosen["context"];
    let cluster_name = chosen["cluster"].as_str().unwrap_or_default();
    let cluster =
        named(&config["clusters"], cluster_name).ok_or_else(|| format!("it has no cluster `{cluster_name}`"))?;
    let cluster = &cluster["cluster"];
    let user_name = chosen["user"].as_str().unwrap_or_default();
    let no_user = Value::Null;
    let user = named(&config["users"], user_name).map_or(&no_user, |user| &user["user"]);
    for (part, key) in
        [(cluster, "tls-server-name"), (cluster, "proxy-url"), (user, "exec"), (user, "auth-provider"), (user, "as")]
    {
        if !part[key].is_null() {
            return Err(format!("`{key}` is not supported; use a certificate or a token of a service account"));
        }
    }
    if cluster["insecure-skip-tls-verify"] == true {
        return Err("`insecure-skip-tls-verify` is not supported; give `certificate-authority`".to_owned());
    }
    let server = cluster["server"].as_str().unwrap_or_default();
    let server = Url::parse(server).map_err(|error| format!("its server `{server}`: {error}"))?;
    if server.scheme() != "https" {
        return Err(format!("its server `{server}` is not encrypted; use an https address"));
    }
    let authority = content(cluster, "certificate-authority", folder)?;
    let authority = authority.ok_or_else(|| format!("cluster `{cluster_name}` has no `certificate-authority`"))?;
    let certificate = content(user, "client-certificate", folder)?;
    let key = content(user, "client-key", folder)?;
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("`client-key`: {error}"))?;
            Some((certificates(&certificate, "`client-certificate`")?, key))
        }
        (None, None) => None,
        _ => return Err("`client-certificate` and `client-key` must be set together".to_owned()),
    };
    let token = match (user["tokenFile"].as_str(), user["token"].as_str()) {
        (Some(file), _) => Token::File(folder.join(file)),
        (None, Some(token)) if !token.is_empty() => Token::Fixed(token.to_owned().into()),
        _ => Token::None,
    };
    if certificate.is_none() && matches!(token, Token::None) {
        return Err(format!("user `{user_name}` has neither a certificate nor a token"));
    }
    let authorities = certificates(&authority, "`certificate-authority`")?;
    Ok(Access { server, authorities, certificate, token })
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item["name"] == name)
}

/// `KEY-data` in base64, or `KEY` as a file.
fn content(part: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    if let Some(data) = part[format!("{key}-data")].as_str().filter(|data| !data.is_empty()) {
        let decoded = STANDARD.decode(data.trim()).map_err(|_| format!("`{key}-data` is not base64"))?;
        return Ok(Some(decoded));
    }
    let file = part[key].as_str().filter(|file| !file.is_empty());
    file.map(|file| read(&folder.join(file)).map_err(|reason| format!("`{key}`: {reason}"))).transpose()
}

impl Access {
    pub fn tls(&self) -> Result<ClientConfig, String> {
        let odd = |error: rustls::Error| format!("set up TLS: {error}");
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots.add(authority.clone()).map_err(odd)?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(odd)?;
        let builder = builder.with_root_certificates(roots);
        match &self.certificate {
            Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(odd),
            None => Ok(builder.with_no_client_auth()),
        }
    }

    /// `Authorization`, if there is a token.
    pub fn authorization(&self) -> Result<Option<SecretString>, String> {
        let token = match &self.token {
            Token::None => return Ok(None),
            Token::Fixed(token) => token.expose_secret().to_owned(),
            Token::File(path) => String::from_utf8_lossy(&read(path)?).trim().to_owned(),
        };
        Ok(Some(format!("Bearer {token}").into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["10.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             contexts:\n- name: here\n  context: {{cluster: c, user: u}}\n- name: other\n  context: {{cluster: x, user: u}}\n\
             clusters:\n- name: c\n  cluster: {{server: 'https://10.0.0.1:6443', {cluster}}}\n\
             users:\n- name: u\n  user: {{{user}}}\n"
        )
    }

    #[test]
    fn certificates_and_keys_come_inline_or_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = authority();
        std::fs::write(folder.path().join("ca.pem"), &certificate).unwrap();
        let (data, key_data) = (STANDARD.encode(&certificate), STANDARD.encode(&key));
        let text = config(
            "certificate-authority: ca.pem",
            &format!("client-certificate-data: {data}, client-key-data: {key_data}"),
        );
        let access = kubeconfig(text.as_bytes(), None, folder.path()).unwrap();
        assert_eq!(access.server.as_str(), "https://10.0.0.1:6443/");
        assert!(access.certificate.is_some() && access.authorization().unwrap().is_none());
        access.tls().unwrap();
    }

    #[test]
    fn a_token_is_read_again_at_every_use() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = authority();
        std::fs::write(folder.path().join("ca.crt"), certificate).unwrap();
        std::fs::write(folder.path().join("token"), "one\n").unwrap();
        let access = pod("fd00::1", "443", folder.path()).unwrap();
        assert_eq!(access.server.as_str(), "https://[fd00::1]/");
        let header = || access.authorization().unwrap().unwrap().expose_secret().to_owned();
        assert_eq!(header(), "Bearer one");
        std::fs::write(folder.path().join("token"), "two").unwrap();
        assert_eq!(header(), "Bearer two");
    }

    #[test]
    fn rejects_unsafe_kubeconfigs_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = authority();
        let ca = format!("certificate-authority-data: {}", STANDARD.encode(certificate));
        let skip = format!("insecure-skip-tls-verify: true, {ca}");
        for (cluster, user, reason) in [
            (ca.as_str(), "exec: {command: aws}", "`exec` is not supported"),
            (ca.as_str(), "client-certificate: x.pem", "`client-certificate`: "),
            (ca.as_str(), "", "neither a certificate nor a token"),
            (skip.as_str(), "token: x", "`insecure-skip-tls-verify`"),
            ("x: y", "token: x", "no `certificate-authority`"),
            ("certificate-authority-data: '?'", "token: x", "not base64"),
        ] {
            let error = kubeconfig(config(cluster, user).as_bytes(), None, folder.path()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let good = config(&ca, "token: x");
        assert!(kubeconfig(good.as_bytes(), Some("here"), folder.path()).is_ok());
        assert!(kubeconfig(good.as_bytes(), Some("none"), folder.path()).unwrap_err().contains("no context `none`"));
        assert!(kubeconfig(good.as_bytes(), Some("other"), folder.path()).unwrap_err().contains("no cluster `x`"));
        let plain = good.replace("https://", "http://");
        assert!(kubeconfig(plain.as_bytes(), None, folder.path()).unwrap_err().contains("not encrypted"));
    }
}
