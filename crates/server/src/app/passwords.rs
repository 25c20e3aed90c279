//! Passwords: sign-in of the local admin, and password changes.
//!
//! Guessing reveals nothing: an unknown name costs the same work as a known one and gets the same error. Attempts are
//! limited per name and per address, and their total cost is bounded.

mod hashing;
mod rate_limit;

pub use hashing::Hashing;
pub use rate_limit::PasswordRateLimit;

use super::access::Caller;
use super::error::{AppError, AppResult, Code};
use super::paging::whole;
use super::sessions::{self, Origin, Visitor};
use crate::state::ServerState;
use margrave_api::access as wire;
use margrave_api::page::Page;
use margrave_core::model::Actor;
use margrave_store::{Operator, SessionOwner};
use secrecy::{ExposeSecret as _, SecretString};
use std::time::Duration;

/// The operator that every server has.
pub const ADMIN: &str = "admin";
/// Long enough to resist guessing at the allowed rate; a few words are as good as special characters.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// Enough for a sentence; longer input is not a password.
pub const PASSWORD_CHARS_MAX: usize = 200;

/// The outcome of an attempt.
#[derive(Debug)]
pub enum Attempt<T> {
    Granted(T),
    /// The name or the password is wrong; the answer does not say which.
    Wrong,
    /// Too many failures; the next attempt is allowed after this time.
    Later(Duration),
}

/// Opens a session if the password is correct; returns the cookie value.
pub async fn sign_in(
    state: &ServerState,
    name: &str,
    password: SecretString,
    origin: &Origin,
) -> AppResult<Attempt<String>> {
    match check(state, name, password, origin).await? {
        Attempt::Granted(operator) => {
            let owner = SessionOwner::Operator(operator.id);
            let end = state.now().plus(sessions::SESSION_LIFETIME);
            let secret = sessions::open(state, owner, format!("operator:{}", operator.name), end, origin).await?;
            Ok(Attempt::Granted(secret))
        }
        Attempt::Wrong => Ok(Attempt::Wrong),
        Attempt::Later(wait) => Ok(Attempt::Later(wait)),
    }
}

/// Changes the password of the signed-in operator and ends their other sessions. Returns the number of ended sessions.
pub async fn change_own(
    state: &ServerState,
    visitor: &Visitor,
    old: SecretString,
    new: SecretString,
    origin: &Origin,
) -> AppResult<Attempt<u64>> {
    let Some(name) = visitor.operator() else {
        let detail =
            "you are signed in with a token, which has no password; sign in with a name to change its password";
        return Err(AppError::refused(Code::Invalid, detail));
    };
    good(name, &new)?;
    if old.expose_secret() == new.expose_secret() {
        return Err(AppError::invalid("password", "use a password other than the current one"));
    }
    match check(state, name, old, origin).await? {
        Attempt::Granted(_) => {}
        Attempt::Wrong => return Ok(Attempt::Wrong),
        Attempt::Later(wait) => return Ok(Attempt::Later(wait)),
    }
    let set = write(state, &visitor.caller.actor(None), name, new, Some(visitor.session)).await?;
    Ok(Attempt::Granted(set.sessions_ended))
}

/// Sets the password of an operator, for a caller with a token; ends all sessions of that operator.
pub async fn set(
    state: &ServerState,
    caller: &Caller,
    name: &str,
    body: wire::SetPassword,
) -> AppResult<wire::PasswordSet> {
    let new = SecretString::from(body.password);
    good(name, &new)?;
    write(state, &caller.actor(body.comment), name, new, None).await
}

pub async fn operators(state: &ServerState) -> AppResult<Page<wire::Operator>> {
    let shown = |operator: Operator| wire::Operator {
        name: operator.name,
        created_at: operator.created_at.to_string(),
        password_set_at: operator.password_at.to_string(),
    };
    Ok(whole(state.store.operators().await?.into_iter().map(shown).collect()))
}

/// Checks a new password; no rules beyond its length, because rules make passwords alike.
pub fn good(name: &str, password: &SecretString) -> AppResult<()> {
    let text = password.expose_secret();
    let length = text.chars().count();
    if !(PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&length) {
        let message = format!("write {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters; a few words are enough");
        return Err(AppError::invalid("password", message));
    }
    if text.chars().any(char::is_control) {
        return Err(AppError::invalid("password", "remove line breaks and other invisible characters"));
    }
    let alike = text.chars().collect::<std::collections::BTreeSet<_>>().len() < 4;
    if alike || (!name.is_empty() && text.to_lowercase().replace(&name.to_lowercase(), "").chars().count() < 4) {
        return Err(AppError::invalid("password", "this password is too easy to guess; use a few words"));
    }
    Ok(())
}

async fn write(
    state: &ServerState,
    actor: &Actor,
    name: &str,
    new: SecretString,
    keep: Option<uuid::Uuid>,
) -> AppResult<wire::PasswordSet> {
    let name = key(name);
    let missing = || AppError::not_found(format_args!("operator `{name}`"));
    state.store.operator_find(&name).await?.ok_or_else(missing)?;
    let hash = state.hashing.hash(new).await?;
    let ended = state.store.operator_password(actor, &name, &hash, keep, state.now()).await?.ok_or_else(missing)?;
    // Someone guessing the old password may have used up the attempts.
    state.password_rate_limit.forgive(&name);
    delete_initial_password_file(state, &name);
    tracing::info!(operator = %name, sessions = ended, "password set");
    Ok(wire::PasswordSet { name, sessions_ended: ended })
}

/// Whether the initial password still applies: its file exists until the password is changed.
pub async fn is_first(state: &ServerState) -> bool {
    let path = state.config.data_dir.join(crate::run::ADMIN_PASSWORD_FILE);
    tokio::fs::try_exists(path).await.unwrap_or_default()
}

/// Deletes the file with the initial password, which is no longer valid.
fn delete_initial_password_file(state: &ServerState, name: &str) {
    if name != ADMIN {
        return;
    }
    let path = state.config.data_dir.join(crate::run::ADMIN_PASSWORD_FILE);
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, path = %path.display(), "cannot delete the old initial password file");
        }
    }
}

/// Compares, within the rate limit.
async fn check(
    state: &ServerState,
    name: &str,
    password: SecretString,
    origin: &Origin,
) -> AppResult<Attempt<Operator>> {
    let name = key(name);
    if let Some(wait) = state.password_rate_limit.take(&name, &origin.address, state.now()) {
        return Ok(Attempt::Later(wait));
    }
    let known = state.store.operator_find(&name).await?;
    let hash = known.as_ref().map(|known| known.password_hash.clone());
    // No password is this long, and hashing long input is expensive.
    let is_short_enough = password.expose_secret().len() <= PASSWORD_CHARS_MAX * 4;
    let password = if is_short_enough { password } else { SecretString::from("") };
    let right = state.hashing.verify(password, hash).await? && is_short_enough;
    match known.filter(|_| right) {
        Some(known) => {
            state.password_rate_limit.give_back(&name, &origin.address);
            Ok(Attempt::Granted(known.operator))
        }
        None => {
            record(state, &name, origin).await?;
            Ok(Attempt::Wrong)
        }
    }
}

/// Records the failure, within limits. An unknown name is not recorded: it may be a password in the wrong field.
async fn record(state: &ServerState, name: &str, origin: &Origin) -> AppResult<()> {
    let Some(unrecorded) = state.password_rate_limit.record(state.now()) else { return Ok(()) };
    let known = state.store.operators().await?.iter().any(|operator| operator.name == name);
    let subject = if known { format!("operator/{name}") } else { "operator".to_owned() };
    let actor = Actor { name: "anonymous".to_owned(), comment: None, request_id: origin.request_id.clone() };
    let mut after = serde_json::json!({ "address": origin.address });
    if unrecorded > 0 {
        after["unrecorded"] = unrecorded.into();
    }
    state.store.audit_append(&actor, "session.reject", &subject, Some(after), state.now()).await?;
    tracing::warn!(address = %origin.address, known, "sign-in refused");
    Ok(())
}

/// Names are case-insensitive, because phones capitalize them.
fn key(name: &str) -> String {
    name.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_long_passwords_that_are_hard_to_guess() {
        for (password, is_short_enough) in [
            ("three small words", true),
            ("Grüße aus Graz", true),
            ("elevenchars", false),
            ("aaaaaaaaaaaaaaaa", false),
            ("adminadminadmin", false),
            ("Admin-admin-1", false),
            ("two lines\nof text", false),
        ] {
            assert_eq!(good("admin", &SecretString::from(password)).is_ok(), is_short_enough, "{password:?}");
        }
        assert!(good("admin", &SecretString::from("long enough ".repeat(20))).is_err());
    }
}
