//! Pulling a package from an OCI registry (REG-01, REG-09).

use super::layout::tag_warning;
use super::{Found, texts};
use crate::app::error::{AppError, AppResult, Code};
use margo::package::{
    self, DESCRIPTION_BYTES_MAX, DESCRIPTION_MEDIA_TYPE, FILES_MAX, Layer, OciManifest, RESOURCE_BYTES_MAX,
};
use margrave_api::applications::ImportApplication;
use margrave_oci::{Connection, Credentials, Kind, OciError, Reference, Registry, Tag};

/// A registry and what is wanted of it, as an operator asked.
pub(crate) struct Source {
    pub(crate) reference: Reference,
    pub(crate) connection: Connection,
}

impl Source {
    pub(crate) fn of(body: &ImportApplication) -> AppResult<Self> {
        let reference = Reference::parse(&body.source).map_err(|problem| AppError::invalid("source", problem))?;
        if body.plain_http && !reference.is_loopback() {
            let message =
                "plain HTTP is accepted for loopback addresses only; use HTTPS, with `ca` for a CA of your own";
            return Err(AppError::invalid("plainHttp", message));
        }
        let credentials = Credentials::new(body.username.clone(), body.password.clone())
            .map_err(|(field, message)| AppError::invalid(field, message))?;
        let connection = Connection { plain_http: body.plain_http, ca: body.ca.clone(), credentials };
        Ok(Self { reference, connection })
    }

    pub(crate) fn registry(&self) -> AppResult<Registry> {
        Registry::new(&self.reference.host, &self.connection).map_err(failed)
    }
}

/// Pulls the package; returns the reference as it will be shown, which never holds credentials.
pub(super) async fn pull(body: ImportApplication) -> AppResult<(String, Found)> {
    let source = Source::of(&body)?;
    let mut registry = source.registry()?;
    let found = package(&mut registry, &source.reference).await?;
    Ok((source.reference.to_string(), found))
}

pub(crate) async fn package(registry: &mut Registry, reference: &Reference) -> AppResult<Found> {
    let fetched = registry.manifest(reference).await.map_err(failed)?;
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
        let bytes = registry.blob(&reference.repository, &layer.digest, max).await.map_err(failed)?;
        layers.push((layer, bytes));
    }
    let read = package::read_layers(&layers).map_err(|findings| AppError::broken_package(&findings))?;
    let mut warnings: Vec<String> = texts(&manifest.warnings).chain(texts(&read.warnings)).collect();
    let tag = match &reference.tag {
        Tag::Name(tag) => Some(tag.as_str()),
        Tag::Digest(_) => None,
    };
    warnings.extend(tag_warning(tag, &read.document.description.metadata.version));
    Ok(Found { package: read.document, digest: fetched.digest, warnings })
}

pub(crate) fn failed(error: OciError) -> AppError {
    match error.kind {
        Kind::Ca => AppError::invalid("ca", error.message),
        _ => AppError::refused(Code::Registry, error.message),
    }
}
