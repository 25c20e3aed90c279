//! Pulls a package from an OCI registry (REG-01, REG-09).

use super::layout::{tag_warning, version_warning};
use super::{ValidPackage, texts};
use crate::app::error::{AppError, AppResult, Code};
use crate::app::registries;
use crate::state::ServerState;
use margo::package::{
    self, DESCRIPTION_BYTES_MAX, DESCRIPTION_MEDIA_TYPE, FILES_MAX, Layer, OciManifest, RESOURCE_BYTES_MAX,
};
use margrave_api::applications::ImportApplication;
use margrave_api::problem::FieldProblem;
use margrave_api::registries::RegistryUse;
use margrave_oci::{Connection, Credentials, Kind, OciError, Reference, Registry, Tag};

/// A registry and the requested package.
pub(crate) struct Source {
    pub(crate) reference: Reference,
    pub(crate) connection: Connection,
    /// Which parts of the connection come from stored settings, for error messages.
    pub(crate) used: RegistryUse,
}

impl Source {
    /// Stored settings of the registry fill in what is not given.
    pub(crate) async fn of(state: &ServerState, body: &ImportApplication) -> AppResult<Self> {
        let reference = Reference::parse(&body.source).map_err(|problem| AppError::invalid("source", problem))?;
        if body.plain_http && !reference.is_loopback() {
            return Err(AppError::invalid("plainHttp", registries::PLAIN_HTTP));
        }
        let credentials = Credentials::new(body.username.clone(), body.password.clone())
            .map_err(|(field, message)| AppError::invalid(field, message))?;
        let given = Connection { plain_http: body.plain_http, ca: body.ca.clone(), credentials };
        let (connection, used) = with_saved(state, &reference.host, given).await?;
        Ok(Self { reference, connection, used })
    }

    pub(crate) fn registry(&self) -> AppResult<Registry> {
        Registry::new(&self.reference.host, &self.connection).map_err(|error| failed(error, &self.used))
    }
}

/// A connection completed by the stored settings of the host: given parts take precedence.
pub(crate) async fn with_saved(
    state: &ServerState,
    host: &str,
    given: Connection,
) -> AppResult<(Connection, RegistryUse)> {
    let saved = registries::access(state, host).await?.map(registries::connection).transpose()?.unwrap_or_default();
    let saved_login = given.credentials.is_none() && saved.credentials.is_some();
    let saved_ca = given.ca.is_none() && saved.ca.is_some();
    // A CA implies HTTPS.
    let saved_http = saved.plain_http && given.ca.is_none() && !given.plain_http;
    let connection = Connection {
        plain_http: given.plain_http || saved_http,
        ca: given.ca.or(saved.ca),
        credentials: given.credentials.or(saved.credentials),
    };
    let username = connection.credentials.as_ref().map(|credentials| credentials.username().to_owned());
    let saved_connection = saved_ca || saved_http;
    Ok((connection, RegistryUse { host: host.to_owned(), username, saved_login, saved_connection }))
}

/// Pulls the package; the returned reference never contains credentials.
pub(super) async fn pull(state: &ServerState, body: ImportApplication) -> AppResult<(Source, ValidPackage)> {
    let source = Source::of(state, &body).await?;
    let mut registry = source.registry()?;
    let found = package(&mut registry, &source.reference, &source.used).await?;
    Ok((source, found))
}

pub(crate) async fn package(
    registry: &mut Registry,
    reference: &Reference,
    used: &RegistryUse,
) -> AppResult<ValidPackage> {
    let fetched = registry.manifest(reference).await.map_err(|error| failed(error, used))?;
    let manifest = OciManifest::read(&fetched.bytes).map_err(|findings| AppError::broken_package(&findings))?;
    if manifest.document.layers.len() > FILES_MAX {
        return Err(AppError::refused(Code::BrokenPackage, format!("the package has more than {FILES_MAX} layers")));
    }
    let mut layers: Vec<(Layer, Vec<u8>)> = Vec::with_capacity(manifest.document.layers.len());
    for layer in manifest.document.layers {
        let max = if layer.media_type == DESCRIPTION_MEDIA_TYPE { DESCRIPTION_BYTES_MAX } else { RESOURCE_BYTES_MAX };
        if layer.size > max as u64 {
            let detail = format!("layer {} is larger than {max} bytes", layer.digest);
            return Err(AppError::refused(Code::BrokenPackage, detail));
        }
        let blob = registry.blob(&reference.repository, &layer.digest, max).await;
        let bytes = blob.map_err(|error| failed(error, used))?;
        layers.push((layer, bytes));
    }
    let read = package::read_layers(&layers).map_err(|findings| AppError::broken_package(&findings))?;
    let mut warnings: Vec<String> = texts(&manifest.warnings).chain(texts(&read.warnings)).collect();
    let tag = match &reference.tag {
        Tag::Name(tag) => Some(tag.as_str()),
        Tag::Digest(_) => None,
    };
    let version = &read.document.description.metadata.version;
    warnings.extend(tag_warning(tag, version));
    warnings.extend(version_warning(version));
    Ok(ValidPackage { package: read.document, digest: fetched.digest, warnings })
}

/// The error of the registry, and the field that would fix it.
pub(crate) fn failed(error: OciError, used: &RegistryUse) -> AppError {
    let host = &used.host;
    let (field, fix) = match error.kind {
        Kind::Ca => return AppError::invalid("ca", error.message),
        Kind::Denied if used.saved_login => {
            ("password", format!("the user and password stored for `{host}` were rejected; change them under Settings"))
        }
        Kind::Denied if used.username.is_some() => {
            ("password", format!("check user and password of `{host}`, and that the user has read access"))
        }
        Kind::Denied => ("password", format!("give a user and password for `{host}`, or store them under Settings")),
        Kind::Untrusted => ("ca", format!("give the CA of `{host}`, or store it under Settings")),
        _ => return AppError::refused(Code::Registry, error.message),
    };
    let errors = vec![FieldProblem::new(field, fix)];
    AppError::with_fields(Code::Registry, error.message, errors)
}
