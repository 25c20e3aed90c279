//! Clients: which identities may fetch desired state.

use super::access::Caller;
use super::error::{AppError, AppResult, Code};
use super::lookup;
use super::paging::{Listing, Paging, page, whole};
use super::sorting::{self, Order};
use crate::manifest_cache::run_to_completion;
use crate::secrets;
use crate::state::ServerState;
use margo::ids::ClientId;
use margrave_api::clients as wire;
use margrave_api::lookup::LookupKind;
use margrave_api::page::Page;
use margrave_core::model::{Client, ClientState};
use margrave_core::sort::{ClientColumn, SortValue};
use margrave_core::time::Timestamp;
use margrave_store::{ClientSearch, Head, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// An enrollment token is used within minutes by a person, or within days by an installer who travels to a plant.
const ENROLLMENT_VALID_DEFAULT: Duration = Duration::from_hours(1);
const ENROLLMENT_VALID_MAX: Duration = Duration::from_hours(24 * 30);
/// DS-01: the manifest of a client without assignments.
const FIRST_VERSION: u64 = 1;
/// Enrollment tokens shown.
const ENROLLMENT_TOKENS_MAX: u32 = 200;
/// Longest note stored with a client.
const NOTE_CHARS_MAX: usize = 500;
/// Longest search text for an id.
const TEXT_CHARS_MAX: usize = 200;

pub fn client_id(text: &str) -> AppResult<ClientId> {
    text.parse().map_err(|error: margo::IdError| AppError::invalid("client", error.to_string()))
}

pub async fn list(state: &ServerState, paging: &Paging) -> AppResult<Page<wire::Client>> {
    let limit = paging.limit()?;
    let after: Option<ClientId> = paging.after()?;
    let rows = state.store.clients_page(after.as_ref(), limit + 1).await?;
    Ok(page(rows, limit, |client| client.id.to_string(), |client| to_wire(state, client)))
}

/// Clients in one state, or all.
pub async fn list_in(
    state: &ServerState,
    requested: Option<wire::ClientState>,
    paging: &Paging,
) -> AppResult<Page<wire::Client>> {
    search(state, requested, None, paging).await
}

/// Clients in one state whose id contains the text; absent filters match everything.
pub async fn search(
    state: &ServerState,
    requested: Option<wire::ClientState>,
    text: Option<String>,
    paging: &Paging,
) -> AppResult<Page<wire::Client>> {
    let requested = requested.map(stored_state);
    let limit = paging.limit()?;
    let after: Option<ClientId> = paging.after()?;
    let rows = match (requested, sought(text)?) {
        // An index finds the few pending clients among many.
        (Some(requested), None) => state.store.clients_in(requested, after.as_ref(), limit + 1).await?,
        (state_wanted, text) => {
            let search = ClientSearch { state: state_wanted, text };
            state.store.clients_search(&search, after.as_ref(), limit + 1).await?
        }
    };
    Ok(page(rows, limit, |client| client.id.to_string(), |client| to_wire(state, client)))
}

fn stored_state(state: wire::ClientState) -> ClientState {
    match state {
        wire::ClientState::Pending => ClientState::Pending,
        wire::ClientState::Accepted => ClientState::Accepted,
        wire::ClientState::Rejected => ClientState::Rejected,
        wire::ClientState::Decommissioned => ClientState::Decommissioned,
    }
}

/// The same in the order of a column, or of the id.
pub async fn search_in_order(
    state: &ServerState,
    requested: Option<wire::ClientState>,
    text: Option<String>,
    order: Order<ClientColumn>,
    paging: &Paging,
) -> AppResult<Listing<wire::Client>> {
    let Some(sort) = order.sort else { return Ok(search(state, requested, text, paging).await?.into()) };
    let search = ClientSearch { state: requested.map(stored_state), text: sought(text)? };
    let what = format!("clients {search:?}");
    let store = state.store.clone();
    let read = move |after: Option<(SortValue, ClientId)>, limit| async move {
        store.clients_sorted(&search, sort, after.as_ref(), limit).await
    };
    let Listing { items, next, in_progress } = sorting::keys(state, (order, sort), &what, paging, read).await?;
    let rows = state.store.clients_by_ids(&items).await?;
    Ok(Listing { items: rows.into_iter().map(|client| to_wire(state, client)).collect(), next, in_progress })
}

/// Number of clients whose id contains the text, by state.
pub async fn counted(state: &ServerState, text: Option<String>) -> AppResult<BTreeMap<&'static str, u64>> {
    Ok(state.store.clients_counted(sought(text)?.as_deref()).await?)
}

fn sought(text: Option<String>) -> AppResult<Option<String>> {
    if text.as_ref().is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
        return Err(AppError::invalid("text", format!("write at most {TEXT_CHARS_MAX} characters")));
    }
    Ok(text)
}

/// One device for each of these clients that has any, by client.
pub async fn first_devices(state: &ServerState, clients: &[wire::Client]) -> AppResult<BTreeMap<String, String>> {
    let ids: Vec<ClientId> = clients.iter().filter_map(|client| client.id.parse().ok()).collect();
    Ok(state.store.devices_first(&ids).await?)
}

/// An enrollment token as shown: never the token itself.
#[derive(Debug, Clone)]
pub struct EnrollmentToken {
    pub client: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
    pub state: wire::EnrollmentTokenState,
}

impl EnrollmentToken {
    /// Whether a device can still enroll with it.
    pub fn is_open(&self) -> bool {
        self.state == wire::EnrollmentTokenState::Active
    }
}

/// Enrollment tokens, up to the limit shown.
#[derive(Debug, Clone)]
pub struct EnrollmentTokens {
    pub items: Vec<EnrollmentToken>,
    /// Whether there are more.
    pub more: bool,
}

/// Active enrollment tokens, then used and expired ones while they are kept; newest first in each group.
pub async fn enrollment_tokens(state: &ServerState) -> AppResult<EnrollmentTokens> {
    let now = state.now();
    let stored = state.store.enrollments(now, ENROLLMENT_TOKENS_MAX + 1).await?;
    let more = stored.len() > ENROLLMENT_TOKENS_MAX as usize;
    let items = stored
        .into_iter()
        .take(ENROLLMENT_TOKENS_MAX as usize)
        .map(|one| EnrollmentToken {
            client: one.client.to_string(),
            created_at: one.created_at,
            expires_at: one.expires_at,
            used_at: one.used_at,
            state: match one.used_at {
                Some(_) => wire::EnrollmentTokenState::Used,
                None if one.expires_at <= now => wire::EnrollmentTokenState::Expired,
                None => wire::EnrollmentTokenState::Active,
            },
        })
        .collect();
    Ok(EnrollmentTokens { items, more })
}

/// The same for the API.
pub async fn listed_enrollment_tokens(state: &ServerState) -> AppResult<Page<wire::EnrollmentToken>> {
    let shown = |one: EnrollmentToken| wire::EnrollmentToken {
        client: one.client,
        state: one.state,
        created_at: one.created_at.to_string(),
        expires_at: one.expires_at.to_string(),
        used_at: one.used_at.map(|at| at.to_string()),
    };
    Ok(whole(enrollment_tokens(state).await?.items.into_iter().map(shown).collect()))
}

/// Number of unused enrollment tokens of a client.
pub async fn unused_enrollment_tokens(state: &ServerState, id: &str) -> AppResult<u64> {
    Ok(state.store.enrollments_unused(&client_id(id)?).await?)
}

/// Revokes the unused enrollment tokens of a client; returns their number.
pub async fn revoke_enrollment_tokens(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    reason: Option<String>,
) -> AppResult<u64> {
    Ok(state.store.enrollments_revoke(&caller.actor(reason), &client_id(id)?, state.now()).await?)
}

pub async fn get(state: &ServerState, id: &str) -> AppResult<wire::Client> {
    Ok(to_wire(state, existing(state, &client_id(id)?).await?))
}

pub async fn create(state: &ServerState, caller: &Caller, body: wire::CreateClient) -> AppResult<wire::Client> {
    let wire::CreateClient { id, state: requested, note, comment: reason } = body;
    let id: ClientId = id.parse().map_err(|error: margo::IdError| AppError::invalid("id", error.to_string()))?;
    if note.as_ref().is_some_and(|note| note.chars().count() > NOTE_CHARS_MAX) {
        return Err(AppError::invalid("note", format!("write at most {NOTE_CHARS_MAX} characters")));
    }
    let requested = match requested.unwrap_or(wire::ClientState::Accepted) {
        wire::ClientState::Accepted => ClientState::Accepted,
        wire::ClientState::Pending => ClientState::Pending,
        wire::ClientState::Rejected | wire::ClientState::Decommissioned => {
            return Err(AppError::invalid("state", "a new client is `accepted` or `pending`"));
        }
    };
    let actor = caller.actor(reason);
    let now = state.now();
    // As the store creates it: nothing assigned yet, never seen (DS-01).
    let new = Client {
        id: id.clone(),
        state: requested,
        note: note.clone(),
        created_at: now,
        last_seen_at: None,
        manifest_version: FIRST_VERSION,
        revision: 1,
    };
    let waiting = find(state, &id).await?.filter(|known| known.state == ClientState::Pending);
    let made = match waiting {
        // The client connected before it was accepted; this accepts it.
        Some(known) if requested == ClientState::Accepted => {
            Client { state: requested, note: note.clone().or(known.note), revision: known.revision + 1, ..known }
        }
        _ => new,
    };
    let store = caller.store(state, &to_wire(state, made));
    let written = async move { store.client_create(&actor, &id, requested, note.as_deref(), now).await };
    Ok(to_wire(state, with_head(state, written).await?))
}

pub async fn update(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: wire::UpdateClient,
    expected: Option<i64>,
) -> AppResult<wire::Client> {
    let id = client_id(id)?;
    let requested = stored_state(body.state);
    let expected = match requested {
        ClientState::Pending => {
            let message = "write `accepted` to accept the client, `rejected` to reject a pending one, `decommissioned` \
                           to block an accepted one";
            return Err(AppError::invalid("state", message));
        }
        ClientState::Rejected => {
            let current = existing(state, &id).await?;
            if current.state.excluded() != requested {
                let message = format!("client `{id}` was accepted; write `decommissioned` to block it");
                return Err(AppError::invalid("state", message));
            }
            // The decision depends on the state, so the client must not change in between.
            expected.or(Some(current.revision))
        }
        ClientState::Accepted | ClientState::Decommissioned => expected,
    };
    let actor = caller.actor(body.comment);
    let (store, now) = (state.store.clone(), state.now());
    let written = async move { store.client_set_state(&actor, &id, requested, expected, now).await };
    Ok(to_wire(state, with_head(state, written).await?))
}

/// Applies the head that comes with a write, even if the caller stops waiting.
async fn with_head(
    state: &ServerState,
    written: impl Future<Output = Result<(Client, Head), StoreError>> + Send + 'static,
) -> AppResult<Client> {
    let heads = Arc::clone(&state.heads);
    let work = async move {
        let (client, head) = written.await?;
        heads.put(head);
        Ok(client)
    };
    run_to_completion(work).await.map_err(AppError::Task)?
}

/// Issues an X.509-SVID for a key that the caller holds.
pub async fn issue_svid(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: wire::IssueSvid,
) -> AppResult<wire::IssuedSvid> {
    let id = client_id(id)?;
    refuse_excluded(&existing(state, &id).await?)?;
    let issued = state.identity.issue(&id, &body.csr, body.valid_for_seconds.map(Duration::from_secs))?;
    let record = serde_json::json!({ "spiffeId": issued.spiffe_id, "expiresAt": issued.expires_at.to_string() });
    let subject = format!("client/{id}");
    let made = wire::IssuedSvid {
        spiffe_id: issued.spiffe_id,
        certificate: issued.certificate_pem,
        trust_bundle: state.identity.bundle_pem(),
        wfm_url: super::trust::wfm_url(state),
        expires_at: issued.expires_at.to_string(),
    };
    let store = caller.store(state, &made);
    store.audit_append(&caller.actor(None), "client.svid", &subject, Some(record), state.now()).await?;
    Ok(made)
}

/// A client id that a device has already used.
#[derive(Debug, Clone)]
pub struct InUse {
    /// A device of the client, if it has reported one.
    pub device: Option<String>,
    /// It has an identity and is not accepted yet.
    pub waiting: bool,
    pub last_seen_at: Option<String>,
}

impl InUse {
    fn words(&self, id: &ClientId) -> String {
        let seen = self.last_seen_at.as_ref().map(|at| format!(", last seen {at}")).unwrap_or_default();
        let waiting = if self.waiting {
            "; it has an identity and is pending approval, so accept it instead if this is the device you mean"
        } else {
            ""
        };
        format!(
            "client `{id}` already exists{seen}{waiting}; a device enrolled with another token replaces `{id}` and \
             gets all of its deployments, while the current identity stays valid until it expires: enroll again only if the same \
             device was reinstalled or is being replaced"
        )
    }
}

/// Whether a device has used this client id: enrolling again would give the id to another key. A client that was only
/// pre-approved may enroll, and a decommissioned one may not.
pub async fn in_use(state: &ServerState, id: &str) -> AppResult<Option<InUse>> {
    let Some(known) = find(state, &client_id(id)?).await? else { return Ok(None) };
    let (waiting, excluded) = (known.state == ClientState::Pending, known.state.is_excluded());
    let device = state.store.devices_first(std::slice::from_ref(&known.id)).await?.remove(id);
    let last_seen_at = to_wire(state, known).last_seen_at;
    if excluded || (device.is_none() && last_seen_at.is_none() && !waiting) {
        return Ok(None);
    }
    Ok(Some(InUse { device, waiting, last_seen_at }))
}

/// A one-time token with which a device fetches its first identity. The client need not exist yet.
pub async fn create_enrollment_token(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: wire::CreateEnrollmentToken,
) -> AppResult<wire::IssuedEnrollmentToken> {
    let id = client_id(id)?;
    if let Some(client) = state.store.client_get(&id).await? {
        refuse_excluded(&client)?;
        if let Some(in_use) = in_use(state, id.as_str()).await?.filter(|_| !body.again) {
            return Err(AppError::refused(Code::InUse, in_use.words(&id)));
        }
    }
    let valid_for = body.valid_for_seconds.map_or(ENROLLMENT_VALID_DEFAULT, Duration::from_secs);
    if valid_for.is_zero() || valid_for > ENROLLMENT_VALID_MAX {
        let max = ENROLLMENT_VALID_MAX.as_secs();
        return Err(AppError::invalid("validForSeconds", format!("write a number from 1 to {max}")));
    }
    let token = secrets::generate(secrets::ENROLLMENT_TOKEN_PREFIX);
    let (now, actor) = (state.now(), caller.actor(body.comment));
    let expires_at = now.plus(valid_for);
    let hash = secrets::hash(&token);
    let made = wire::IssuedEnrollmentToken {
        token,
        client: id.to_string(),
        expires_at: expires_at.to_string(),
        trust_url: super::trust::trust_url(state),
        pin: state.identity.pin(),
    };
    caller.store(state, &made).enrollment_create(&actor, &hash, &id, expires_at, now).await?;
    Ok(made)
}

/// As stored.
pub(crate) async fn find(state: &ServerState, id: &ClientId) -> AppResult<Option<Client>> {
    Ok(state.store.client_get(id).await?)
}

async fn existing(state: &ServerState, id: &ClientId) -> AppResult<Client> {
    match state.store.client_get(id).await? {
        Some(client) => Ok(client),
        None => Err(lookup::unknown(state, LookupKind::Client, id.as_str()).await),
    }
}

fn refuse_excluded(client: &Client) -> AppResult<()> {
    if client.state.is_excluded() {
        let state = client.state.as_str();
        let detail = format!("client `{}` is {state}; accept it before issuing an identity", client.id);
        return Err(AppError::refused(Code::Invalid, detail));
    }
    Ok(())
}

fn to_wire(state: &ServerState, client: Client) -> wire::Client {
    let last_seen_at = state.heads.last_seen(&client.id).max(client.last_seen_at);
    let last_rejected_at =
        state.heads.last_requested(&client.id).filter(|requested_at| Some(*requested_at) > last_seen_at);
    wire::Client {
        spiffe_id: state.identity.wfm().client(client.id.clone()).to_string(),
        id: client.id.to_string(),
        state: match client.state {
            ClientState::Pending => wire::ClientState::Pending,
            ClientState::Accepted => wire::ClientState::Accepted,
            ClientState::Rejected => wire::ClientState::Rejected,
            ClientState::Decommissioned => wire::ClientState::Decommissioned,
        },
        note: client.note,
        created_at: client.created_at.to_string(),
        last_seen_at: last_seen_at.map(|seen| seen.to_string()),
        rejected_version: state.heads.rejected_version(&client.id),
        last_rejected_at: last_rejected_at.map(|requested_at| requested_at.to_string()),
        manifest_version: client.manifest_version,
        revision: client.revision,
    }
}
