//! External registries: stored with their credentials, checked, and used for every fetch.

use super::access::Caller;
use super::error::{AppError, AppResult, Code};
use super::paging::whole;
use crate::catalog::registry::{failed, with_saved};
use crate::state::ServerState;
use margrave_api::page::Page;
use margrave_api::problem::FieldProblem;
use margrave_api::registries as wire;
use margrave_core::registries::{CheckOutcome, RegistryCheck, SavedRegistry};
use margrave_oci::client::RegistryAccessResult;
use margrave_oci::reference::{canonical_host, is_loopback_host, parse_host};
use margrave_oci::{Connection, Credentials, Kind, OciError, Registry};
use margrave_store::{LoginWrite, REGISTRIES_MAX, RegistryAccess, RegistryWrite, StoreError};
use std::time::Duration;

/// A request waits for the answer; a slower registry is useless for imports as well.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
const USERNAME_CHARS_MAX: usize = 200;
/// Long tokens of cloud registries have a few thousand characters.
const PASSWORD_CHARS_MAX: usize = 16 << 10;
/// Dozens of certificates.
const CA_BYTES_MAX: usize = 256 << 10;

/// In order of name.
pub async fn list(state: &ServerState) -> AppResult<Page<wire::SavedRegistry>> {
    Ok(whole(state.store.registries().await?.into_iter().map(to_wire).collect()))
}

pub async fn get(state: &ServerState, host: &str) -> AppResult<wire::SavedRegistry> {
    find(state, host).await?.map(to_wire).ok_or_else(|| missing(host))
}

/// The registry with this name, if stored.
pub async fn find(state: &ServerState, host: &str) -> AppResult<Option<SavedRegistry>> {
    Ok(state.store.registry_get(&canonical_host(host)).await?)
}

/// Adds (`expected` none) or updates (`expected` some) a registry.
pub async fn put(
    state: &ServerState,
    caller: &Caller,
    host: &str,
    body: wire::PutRegistry,
    expected: Option<i64>,
) -> AppResult<wire::SavedRegistry> {
    let host = parse_host(host).map_err(|problem| AppError::invalid("host", problem))?;
    let before = match expected {
        None => None,
        Some(_) => Some(find(state, &host).await?.ok_or_else(|| missing(&host))?),
    };
    let (write, reason) = read(&host, body, before.as_ref())?;
    let (actor, now) = (caller.actor(reason), state.now());
    let store = match expected {
        None => caller.store(state, &to_wire(added(&write, actor.name.clone(), now))),
        // The previous state is known only after reading; repeating the same update is harmless.
        Some(_) => state.store.clone(),
    };
    match store.registry_put(&actor, &write, expected, now).await {
        Err(StoreError::Exists { what }) => Err(AppError::refused(
            Code::Exists,
            format!("{what} already exists; send its revision as `If-Match` to change it"),
        )),
        Err(StoreError::TooMany { .. }) => {
            let detail =
                format!("this server supports at most {REGISTRIES_MAX} registries; remove one that is not needed");
            Err(AppError::refused(Code::Invalid, detail))
        }
        other => Ok(to_wire(other?)),
    }
}

fn added(write: &RegistryWrite, added_by: String, now: margrave_core::time::Timestamp) -> SavedRegistry {
    let username = match &write.login {
        LoginWrite::As { username, .. } => Some(username.clone()),
        LoginWrite::Anonymous | LoginWrite::Kept => None,
    };
    let (host, ca, plain_http) = (write.host.clone(), write.ca.clone(), write.plain_http);
    SavedRegistry { host, username, ca, plain_http, added_by, added_at: now, revision: 1, last_check: None }
}

/// All problems that can be found without a request.
fn read(
    host: &str,
    body: wire::PutRegistry,
    before: Option<&SavedRegistry>,
) -> AppResult<(RegistryWrite, Option<String>)> {
    let wire::PutRegistry { username, password, ca, plain_http, comment: reason } = body;
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let username = given(username).map(|text| text.trim().to_owned());
    let (password, ca) = (password.filter(|text| !text.is_empty()), given(ca));
    let mut errors = Vec::new();
    let mut wrong = |field: &str, message: String| {
        errors.push(FieldProblem::new(field, message));
    };
    let long = |text: Option<&str>, max: usize| text.is_some_and(|text| text.chars().count() > max);
    if long(username.as_deref(), USERNAME_CHARS_MAX)
        || username.as_ref().is_some_and(|text| text.contains(char::is_control))
    {
        wrong("username", format!("write at most {USERNAME_CHARS_MAX} characters, without line breaks"));
    }
    if long(password.as_deref(), PASSWORD_CHARS_MAX) {
        wrong("password", format!("write at most {PASSWORD_CHARS_MAX} characters"));
    }
    if plain_http && !is_loopback_host(host) {
        wrong("plainHttp", PLAIN_HTTP.to_owned());
    }
    let stays = username.is_some() && password.is_none();
    let login = match before.filter(|_| stays) {
        Some(before) if before.username == username => Some(LoginWrite::Kept),
        Some(before) if before.username.is_some() => {
            wrong("password", "give the password of the new user; the stored one belongs to another user".to_owned());
            None
        }
        _ => match Credentials::new(username.clone(), password.clone()) {
            Ok(None) => Some(LoginWrite::Anonymous),
            Ok(Some(_)) => {
                Some(LoginWrite::As { username: username.unwrap_or_default(), password: password.unwrap_or_default() })
            }
            Err((field, message)) => {
                wrong(field, message.to_owned());
                None
            }
        },
    };
    if ca.as_ref().is_some_and(|pem| pem.len() > CA_BYTES_MAX) {
        wrong("ca", format!("write at most {CA_BYTES_MAX} bytes of certificates"));
    } else if ca.is_some() {
        let connection = Connection { ca: ca.clone(), ..Connection::default() };
        if let Err(error) = Registry::new(host, &connection) {
            wrong("ca", format!("{}; paste the whole of it, from `-----BEGIN CERTIFICATE-----`", error.message));
        }
    }
    match login {
        Some(login) if errors.is_empty() => {
            Ok((RegistryWrite { host: host.to_owned(), login, ca, plain_http }, reason))
        }
        _ => {
            let list: Vec<String> =
                errors.iter().map(|error| format!("`{}`: {}", error.field, error.message)).collect();
            Err(AppError::with_fields(Code::Invalid, list.join("; "), errors))
        }
    }
}

/// Stores a registry given with another request, once it has answered: adds it, or updates the given settings.
pub async fn keep(
    state: &ServerState,
    caller: &Caller,
    host: &str,
    mut body: wire::PutRegistry,
) -> AppResult<wire::SavedRegistry> {
    let host = parse_host(host).map_err(|problem| AppError::invalid("source", problem))?;
    let credentials = Credentials::new(body.username.clone(), body.password.clone())
        .map_err(|(field, message)| AppError::invalid(field, message))?;
    let given = Connection { plain_http: body.plain_http, ca: body.ca.clone(), credentials };
    let (connection, used) = with_saved(state, &host, given).await?;
    (body.plain_http, body.ca) = (connection.plain_http, connection.ca.clone());
    if used.saved_login {
        body.username.clone_from(&used.username);
    }
    let before = find(state, &host).await?;
    read(&host, body.clone(), before.as_ref())?;
    let welcome = probe(&host, &connection).await.map_err(|error| failed(error, &used))?;
    let (caller, reason) = (caller.again(), body.comment.clone());
    let saved = put(state, &caller, &host, body, before.map(|before| before.revision)).await?;
    let check = answered(state, welcome);
    state.store.registry_checked(&caller.actor(reason), &host, saved.revision, &check).await?;
    Ok(wire::SavedRegistry { last_check: Some(check_to_wire(check)), ..saved })
}

pub(crate) const PLAIN_HTTP: &str =
    "plain HTTP is accepted for loopback addresses only; use HTTPS, with `ca` for a CA of your own";

pub async fn delete(
    state: &ServerState,
    caller: &Caller,
    host: &str,
    reason: Option<String>,
    expected: Option<i64>,
) -> AppResult<()> {
    let known = canonical_host(host);
    if state.store.registry_delete(&caller.actor(reason), &known, expected, state.now()).await? {
        Ok(())
    } else {
        Err(missing(host))
    }
}

/// Number of versions in the catalog imported from it.
pub async fn versions_from(state: &ServerState, host: &str) -> AppResult<u64> {
    Ok(state.store.versions_from(&canonical_host(host)).await?)
}

/// Checks the registry as imports would use it, and stores the result.
pub async fn check(
    state: &ServerState,
    caller: &Caller,
    host: &str,
    reason: Option<String>,
) -> AppResult<wire::RegistryCheck> {
    let access = access(state, host).await?.ok_or_else(|| missing(host))?;
    let (host, revision) = (access.registry.host.clone(), access.registry.revision);
    let probed = probe(&host, &connection(access)?).await;
    let check = match probed {
        Ok(welcome) => answered(state, welcome),
        Err(error) => RegistryCheck { at: state.now(), outcome: outcome(error.kind), message: error.message },
    };
    // It may have been updated in the meantime; then this result is about the old settings.
    state.store.registry_checked(&caller.actor(reason), &host, revision, &check).await?;
    Ok(check_to_wire(check))
}

fn answered(state: &ServerState, welcome: RegistryAccessResult) -> RegistryCheck {
    let message = match welcome {
        RegistryAccessResult::SignedIn => "reachable; the user and password were accepted",
        RegistryAccessResult::Open => "reachable; no password required",
    };
    RegistryCheck { at: state.now(), outcome: CheckOutcome::Reachable, message: message.to_owned() }
}

/// Checks a registry, within the time of a request.
pub(crate) async fn probe(host: &str, connection: &Connection) -> Result<RegistryAccessResult, OciError> {
    let probed = async { Registry::new(host, connection)?.check_access().await };
    tokio::time::timeout(CHECK_TIMEOUT, probed).await.unwrap_or_else(|_| {
        let message = format!("registry `{host}` did not respond within {} seconds", CHECK_TIMEOUT.as_secs());
        Err(OciError::new(Kind::Unreachable, message))
    })
}

/// The stored registry of a host, with its password.
pub(crate) async fn access(state: &ServerState, host: &str) -> AppResult<Option<RegistryAccess>> {
    Ok(state.store.registry_access(&canonical_host(host)).await?)
}

pub(crate) fn connection(access: RegistryAccess) -> AppResult<Connection> {
    let RegistryAccess { registry, password } = access;
    let SavedRegistry { host, username, ca, plain_http, .. } = registry;
    let credentials = Credentials::new(username, password).map_err(|(field, message)| {
        AppError::Store(StoreError::Inconsistent {
            table: "registries",
            problem: format!("`{host}` {field}: {message}"),
        })
    })?;
    Ok(Connection { plain_http, ca, credentials })
}

fn outcome(kind: Kind) -> CheckOutcome {
    match kind {
        Kind::NameUnknown => CheckOutcome::NameUnknown,
        Kind::Untrusted | Kind::Ca => CheckOutcome::Untrusted,
        Kind::Denied => CheckOutcome::Denied,
        Kind::NoRegistry | Kind::NotFound | Kind::Refused | Kind::Damaged | Kind::TooLarge => CheckOutcome::NoRegistry,
        Kind::Unreachable | Kind::Busy | Kind::Setup => CheckOutcome::Unreachable,
    }
}

fn missing(host: &str) -> AppError {
    AppError::refused(Code::NotFound, format!("registry `{host}` is not configured; add it first"))
}

fn to_wire(registry: SavedRegistry) -> wire::SavedRegistry {
    let SavedRegistry { host, username, ca, plain_http, added_by, added_at, revision, last_check } = registry;
    wire::SavedRegistry {
        host,
        username,
        ca,
        plain_http,
        added_by,
        added_at: added_at.to_string(),
        revision,
        last_check: last_check.map(check_to_wire),
    }
}

fn check_to_wire(check: RegistryCheck) -> wire::RegistryCheck {
    let RegistryCheck { at, outcome, message } = check;
    let outcome = match outcome {
        CheckOutcome::Reachable => wire::CheckOutcome::Reachable,
        CheckOutcome::NameUnknown => wire::CheckOutcome::NameUnknown,
        CheckOutcome::Unreachable => wire::CheckOutcome::Unreachable,
        CheckOutcome::Untrusted => wire::CheckOutcome::Untrusted,
        CheckOutcome::Denied => wire::CheckOutcome::Denied,
        CheckOutcome::NoRegistry => wire::CheckOutcome::NoRegistry,
    };
    wire::RegistryCheck { at: at.to_string(), outcome, message }
}
