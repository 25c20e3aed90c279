//! The device API without sockets: the same store calls and the same codes as the real handlers (requirements §5 to §7).

use super::unexpected;
use crate::simulation::violation::Violation;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::ids::ClientId;
use margo::problem::{Problem, ProblemType};
use margo::status::DeploymentStatus;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_agent::machine::io::{Request, Response};
use margrave_core::model::{Actor, ClientState, DeviceKey};
use margrave_core::time::Timestamp;
use margrave_server::app::publisher::Parts;
use margrave_store::{DevicePut, StatusOutcome, StatusWrite};

type Handled = Result<Response, Violation>;

pub(super) async fn handle(parts: &Parts, client: &ClientId, request: &Request, now: Timestamp) -> Handled {
    let head = parts.heads.get(client).filter(|head| head.state == ClientState::Accepted);
    let Some(head) = head else { return Ok(problem(ProblemType::NotAuthorized, 403)) };
    parts.heads.seen(client, now);
    match request {
        // The 304 comes from memory (invariant 3).
        Request::Poll { if_none_match: Some(etag) } if *etag == head.digest.etag() => Ok(status(304)),
        Request::Poll { .. } => manifest(parts, client).await,
        Request::FetchBundle { path } => bundle(parts, client, path).await,
        Request::FetchYaml { path } => yaml(parts, client, path).await,
        Request::PutCapabilities { device, json } => put_device(parts, client, device, json, now).await,
        Request::DeleteDevice { device } => delete_device(parts, client, device, now).await,
        Request::PostStatus { json, .. } => post_status(parts, client, json, now).await,
    }
}

async fn manifest(parts: &Parts, client: &ClientId) -> Handled {
    let found = parts.store.manifest(client).await.map_err(unexpected)?;
    let (_, digest, body) = found.expect("a client has a manifest from its first day");
    Ok(Response { status: 200, etag: Some(digest.etag()), retry_after: None, body })
}

async fn bundle(parts: &Parts, client: &ClientId, path: &str) -> Handled {
    let digest = path.rsplit('/').next().and_then(|digest| digest.parse::<Digest>().ok());
    let Some(digest) = digest else { return Ok(problem(ProblemType::InvalidBundle, 404)) };
    match parts.store.bundle(client, &digest).await.map_err(unexpected)? {
        Some(body) => Ok(Response { status: 200, etag: Some(digest.etag()), retry_after: None, body }),
        None => Ok(problem(ProblemType::InvalidBundle, 404)),
    }
}

async fn yaml(parts: &Parts, client: &ClientId, path: &str) -> Handled {
    let mut segments = path.rsplit('/');
    let digest = segments.next().and_then(|digest| digest.parse::<Digest>().ok());
    let id = segments.next().and_then(|id| id.parse::<DeploymentId>().ok());
    let (Some(digest), Some(id)) = (digest, id) else { return Ok(problem(ProblemType::DeploymentNotFound, 404)) };
    match parts.store.deployment_yaml(client, id, &digest).await.map_err(unexpected)? {
        Some(body) => Ok(Response { status: 200, etag: Some(digest.etag()), retry_after: None, body }),
        None => Ok(problem(ProblemType::DeploymentNotFound, 404)),
    }
}

async fn put_device(parts: &Parts, client: &ClientId, device: &DeviceId, json: &[u8], now: Timestamp) -> Handled {
    let Ok(read) = DeviceCapabilities::read(json, UnknownTypes::Refuse) else {
        return Ok(problem(ProblemType::SemanticError, 422));
    };
    let key = DeviceKey { client: client.clone(), device: device.clone() };
    Ok(match parts.store.device_put(&key, &read.document, json, now).await.map_err(unexpected)? {
        DevicePut::Created => status(201),
        DevicePut::Updated => status(200),
        DevicePut::GatewayNotFound => problem(ProblemType::GatewayNotFound, 404),
    })
}

async fn delete_device(parts: &Parts, client: &ClientId, device: &DeviceId, now: Timestamp) -> Handled {
    let key = DeviceKey { client: client.clone(), device: device.clone() };
    let who = Actor { name: format!("client:{client}"), reason: None, request_id: None };
    let gone = parts.store.device_delete(&who, &key, now).await.map_err(unexpected)?;
    Ok(if gone { status(204) } else { problem(ProblemType::DeviceNotFound, 404) })
}

async fn post_status(parts: &Parts, client: &ClientId, json: &[u8], now: Timestamp) -> Handled {
    let Ok(read) = DeploymentStatus::read(json) else { return Ok(problem(ProblemType::InvalidRequest, 400)) };
    let write =
        StatusWrite { client: client.clone(), status: read.document, body: json.to_vec(), received_at: now };
    let outcomes = parts.store.statuses_put(&[write]).await.map_err(unexpected)?;
    Ok(match outcomes[..] {
        [StatusOutcome::Kept] => status(200),
        _ => problem(ProblemType::DeploymentNotFound, 404),
    })
}

fn status(status: u16) -> Response {
    Response { status, ..Response::default() }
}

fn problem(kind: ProblemType, status: u16) -> Response {
    Response { status, body: Problem::new(kind, status, "simulated").to_json(), ..Response::default() }
}
