//! The `[[registry]]` settings: mirrors, certificate authorities and credentials. Secrets are read at every use.

use super::ArtifactError;
use crate::config::RegistryConfig;
use margrave_oci::{Connection, Credentials, Kind, OciError, Reference, Registry, mirror};
use std::path::Path;
use url::Url;

/// For all registries without a block of their own.
const ANY: &str = "*";
/// Username for a token when none is configured.
const TOKEN_USER: &str = "token";

#[derive(Debug, Clone, Default)]
pub struct Registries {
    configs: Vec<RegistryConfig>,
}

/// A login as engines take it.
#[derive(Debug, Clone)]
pub struct Login {
    pub username: String,
    pub password: secrecy::SecretString,
}

impl Registries {
    pub fn new(configs: Vec<RegistryConfig>) -> Self {
        Self { configs }
    }

    fn config(&self, host: &str) -> Option<&RegistryConfig> {
        self.configs.iter().find(|config| config.host.eq_ignore_ascii_case(host))
    }

    /// All blocks that name a host and a certificate authority.
    pub fn authorities(&self) -> impl Iterator<Item = (&str, &Path)> {
        let named = self.configs.iter().filter(|config| config.host != ANY);
        named.filter_map(|config| Some((config.host.as_str(), config.ca_file.as_deref()?)))
    }

    /// The places of an artifact in the order of use: its mirror, then the registry it names.
    pub fn places(&self, reference: &Reference) -> Vec<Reference> {
        let config = self.config(&reference.host).or_else(|| self.config(ANY));
        let mirrored =
            config.and_then(|config| config.mirror.as_deref()).and_then(|mirror| mirrored(mirror, reference));
        mirrored.into_iter().chain([reference.clone()]).collect()
    }

    pub fn connect(&self, host: &str) -> Result<Registry, ArtifactError> {
        let connection = Connection {
            plain_http: self.config(host).is_some_and(|config| config.plain_http),
            ca: self.ca(host)?,
            credentials: self.credentials(host)?,
        };
        Ok(Registry::new(host, &connection)?)
    }

    fn ca(&self, host: &str) -> Result<Option<String>, ArtifactError> {
        let file = self.config(host).and_then(|config| config.ca_file.as_deref());
        Ok(file.map(|file| read(file, host, "certificate authorities")).transpose()?)
    }

    /// For URLs other than registries: the block with the same host and port.
    pub(super) fn ca_of_url(&self, url: &Url) -> Result<Option<String>, ArtifactError> {
        let host = url.host_str().unwrap_or_default();
        let with_port = url.port().map(|port| format!("{host}:{port}"));
        self.ca(with_port.as_deref().unwrap_or(host))
    }

    fn credentials(&self, host: &str) -> Result<Option<Credentials>, ArtifactError> {
        use secrecy::ExposeSecret as _;
        let Some(login) = self.login(host)? else { return Ok(None) };
        Credentials::new(Some(login.username), Some(login.password.expose_secret().to_owned()))
            .map_err(|(field, reason)| ArtifactError::Unusable(format!("registry `{host}`: `{field}` {reason}")))
    }

    /// The login, read from its file at every call, so that a rotated secret applies at once.
    pub fn login(&self, host: &str) -> Result<Option<Login>, ArtifactError> {
        let Some(config) = self.config(host) else { return Ok(None) };
        let (file, what) = match (&config.password_file, &config.token_file) {
            (Some(file), _) => (file, "password"),
            (None, Some(file)) => (file, "token"),
            (None, None) => return Ok(None),
        };
        let secret = read(file, host, what)?;
        let username = config.username.clone().unwrap_or_else(|| TOKEN_USER.to_owned());
        Ok(Some(Login { username, password: secret.trim_end_matches(['\r', '\n']).to_owned().into() }))
    }
}

fn read(file: &Path, host: &str, what: &str) -> Result<String, OciError> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = format!("the {what} for registry `{host}` cannot be read from `{}`: {error}", file.display());
        OciError::new(Kind::Setup, message)
    })
}

/// `host` alone: the naming of the embedded registry; with a path: the same name below it.
fn mirrored(place: &str, reference: &Reference) -> Option<Reference> {
    let (host, repository) = match place.trim_end_matches('/').split_once('/') {
        Some((host, path)) => (host, format!("{path}/{}", reference.repository)),
        None => (place, mirror::repository(&reference.host, &reference.repository)?),
    };
    Some(Reference { host: host.to_owned(), repository, tag: reference.tag.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_mirror_before_the_registry() {
        let config = |host: &str, mirror: &str| RegistryConfig {
            host: host.to_owned(),
            mirror: Some(mirror.to_owned()),
            ..RegistryConfig::default()
        };
        let registries =
            Registries::new(vec![config("*", "wfm.example:8443"), config("a.example", "b.example/copies")]);
        let places = |image: &str| -> Vec<String> {
            let reference = Reference::parse_image(image).unwrap();
            registries.places(&reference).iter().map(Reference::image).collect()
        };
        assert_eq!(places("a.example/x:1"), ["b.example/copies/x:1", "a.example/x:1"]);
        assert_eq!(
            places("registry.example:5000/line/press:1"),
            ["wfm.example:8443/mirror/registry.example__5000/line/press:1", "registry.example:5000/line/press:1"]
        );
    }

    #[test]
    fn reads_a_secret_at_every_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "one\n").unwrap();
        let config = RegistryConfig {
            host: "a.example".to_owned(),
            token_file: Some(file.clone()),
            ..RegistryConfig::default()
        };
        let registries = Registries::new(vec![config]);
        let secret = || {
            use secrecy::ExposeSecret as _;
            registries.login("a.example").unwrap().unwrap().password.expose_secret().to_owned()
        };
        assert_eq!(secret(), "one");
        std::fs::write(&file, "two").unwrap();
        assert_eq!(secret(), "two");
        assert!(registries.login("b.example").unwrap().is_none());
        std::fs::remove_file(&file).unwrap();
        let error = registries.login("a.example").unwrap_err().to_string();
        assert!(error.contains("the token for registry `a.example` cannot be read"), "{error}");
    }
}
