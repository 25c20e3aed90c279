//! Desired state for a device that has not connected to this server yet, signed so that the device can verify it.

use super::access::Caller;
use super::clients::{self, client_id};
use super::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margo::Digest;
use margo::manifest::StateManifest;
use margrave_api::preload as wire;
use margrave_core::model::ClientState;
use margrave_core::preload::{Artifact, Image, KIND, Statement, signed_bytes};

/// Entries per list of one file; a device runs far fewer components.
const LISTED_MAX: usize = 2_000;

pub async fn create(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: wire::CreatePreload,
) -> AppResult<wire::Preload> {
    let wire::CreatePreload { manifest: expected, artifacts, images, comment: reason } = body;
    let id = client_id(id)?;
    let client = clients::find(state, &id).await?;
    let client = client.ok_or_else(|| AppError::not_found(format_args!("client `{id}`")))?;
    if client.state != ClientState::Accepted {
        let detail = format!("client `{id}` is not accepted; accept it before preparing its device");
        return Err(AppError::refused(Code::Invalid, detail));
    }
    let (artifacts, images) = (read_artifacts(artifacts)?, read_images(images)?);
    let stored = state.store.manifest(&id).await?;
    let (version, digest, bytes) = stored.ok_or_else(|| AppError::not_found(format_args!("manifest of `{id}`")))?;
    if expected.is_some_and(|expected| expected != digest.as_str()) {
        let detail = format!("the desired state of `{id}` has changed in the meantime; collect its contents again");
        return Err(AppError::refused(Code::Conflict, detail));
    }
    let unreadable = || AppError::refused(Code::Invalid, format!("the manifest of `{id}` cannot be read"));
    let document = StateManifest::read(&bytes).map_err(|_| unreadable())?.document;
    let manifest = String::from_utf8(bytes).map_err(|_| unreadable())?;
    let mut deployments = Vec::new();
    for listed in &document.deployments {
        let yaml = state.store.deployment_yaml(&id, listed.deployment_id, &listed.digest).await?;
        let yaml = yaml.and_then(|yaml| String::from_utf8(yaml).ok()).ok_or_else(unreadable)?;
        let (id, digest) = (listed.deployment_id.to_string(), listed.digest.to_string());
        deployments.push(wire::PreloadDeployment { id, digest, yaml });
    }
    let now = state.now();
    let statement = Statement {
        kind: KIND.to_owned(),
        client: state.identity.wfm().client(id.clone()).to_string(),
        issued_at: now.to_string(),
        etag: digest.etag(),
        manifest: digest.clone(),
        artifacts,
        images,
    };
    let record = serde_json::json!({
        "manifestVersion": version, "manifest": digest,
        "artifacts": statement.artifacts.len(), "images": statement.images.len(),
    });
    let statement =
        serde_json::to_string(&statement).map_err(|error| AppError::invalid("images", error.to_string()))?;
    let signed = state.identity.sign(&signed_bytes(&statement))?;
    let made = wire::Preload {
        statement,
        scheme: signed.scheme,
        signature: STANDARD.encode(signed.signature),
        certificates: signed.certificates.iter().map(|der| STANDARD.encode(der)).collect(),
        manifest_version: version,
        manifest_digest: digest.to_string(),
        manifest,
        deployments,
    };
    let store = caller.store(state, &made);
    store.audit_append(&caller.actor(reason), "client.preload", &format!("client/{id}"), Some(record), now).await?;
    Ok(made)
}

fn digest(field: &str, text: &str) -> AppResult<Digest> {
    text.parse().map_err(|error: margo::digest::DigestError| AppError::invalid(field, error.to_string()))
}

fn check_count(field: &str, count: usize) -> AppResult<()> {
    if count > LISTED_MAX {
        return Err(AppError::invalid(field, format!("name at most {LISTED_MAX}")));
    }
    Ok(())
}

fn read_artifacts(artifacts: Vec<wire::PreloadArtifact>) -> AppResult<Vec<Artifact>> {
    check_count("artifacts", artifacts.len())?;
    let one = |artifact: wire::PreloadArtifact| {
        Ok(Artifact { layer: digest("artifacts.layer", &artifact.layer)?, reference: artifact.reference })
    };
    artifacts.into_iter().map(one).collect()
}

fn read_images(images: Vec<wire::PreloadImage>) -> AppResult<Vec<Image>> {
    check_count("images", images.len())?;
    let one = |image: wire::PreloadImage| {
        check_count("images.layers", image.layers.len())?;
        let layers: AppResult<Vec<Digest>> = image.layers.iter().map(|layer| digest("images.layers", layer)).collect();
        Ok(Image { config: digest("images.config", &image.config)?, layers: layers?, name: image.name })
    };
    images.into_iter().map(one).collect()
}
