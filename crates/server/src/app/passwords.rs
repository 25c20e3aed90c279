//! Names and passwords: how the local admin signs in, and how a password comes to be another.
//!
//! What is learnt by trying is nothing: a name nobody has costs the same work as one somebody has, and is refused in the same
//! words. How often can be tried is bounded per name and per place, and what trying costs is bounded in all.

mod hashing;
mod pace;

pub use hashing::Hashing;
pub use pace::Pace;

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

/// The operator every server has.
pub const ADMIN: &str = "admin";
/// Long enough that nobody gets there by trying at the pace that is allowed; a few words are as good as signs.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// A sentence fits; what is longer is some other file.
pub const PASSWORD_CHARS_MAX: usize = 200;

/// What became of an attempt.
#[derive(Debug)]
pub enum Attempt<T> {
    Granted(T),
    /// The name or the password; nobody is told which.
    Wrong,
    /// Too many were wrong; the next may come after this.
    Later(Duration),
}

/// Opens a session for whoever knows the password; gives what the cookie shall hold.
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

/// Changes the password of whoever is signed in; their other sessions end. Gives how many.
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
        return Err(AppError::invalid("password", "choose another password than the present one"));
    }
    match check(state, name, old, origin).await? {
        Attempt::Granted(_) => {}
        Attempt::Wrong => return Ok(Attempt::Wrong),
        Attempt::Later(wait) => return Ok(Attempt::Later(wait)),
    }
    let set = write(state, &visitor.caller.actor(None), name, new, Some(visitor.session)).await?;
    Ok(Attempt::Granted(set.sessions_ended))
}

/// Sets the password of an operator, for one who holds a token; all sessions of that operator end.
pub async fn set(
    state: &ServerState,
    caller: &Caller,
    name: &str,
    body: wire::SetPassword,
) -> AppResult<wire::PasswordSet> {
    let new = SecretString::from(body.password);
    good(name, &new)?;
    write(state, &caller.actor(body.reason), name, new, None).await
}

pub async fn operators(state: &ServerState) -> AppResult<Page<wire::Operator>> {
    let shown = |operator: Operator| wire::Operator {
        name: operator.name,
        created_at: operator.created_at.to_string(),
        password_set_at: operator.password_at.to_string(),
    };
    Ok(whole(state.store.operators().await?.into_iter().map(shown).collect()))
}

/// Whether it will do as a password; no rules beyond its length, since rules make passwords alike.
pub fn good(name: &str, password: &SecretString) -> AppResult<()> {
    let text = password.expose_secret();
    let length = text.chars().count();
    if !(PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&length) {
        let message = format!("write {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters; a few words will do");
        return Err(AppError::invalid("password", message));
    }
    if text.chars().any(char::is_control) {
        return Err(AppError::invalid("password", "leave out line breaks and other signs that cannot be seen"));
    }
    let alike = text.chars().collect::<std::collections::BTreeSet<_>>().len() < 4;
    if alike || (!name.is_empty() && text.to_lowercase().replace(&name.to_lowercase(), "").chars().count() < 4) {
        return Err(AppError::invalid("password", "this one is guessed at once; a few words will do"));
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
    // Whoever guessed at the old one may have used up the attempts.
    state.pace.forgive(&name);
    forget_first(state, &name);
    tracing::info!(operator = %name, sessions = ended, "a password was set");
    Ok(wire::PasswordSet { name, sessions_ended: ended })
}

/// Whether the first password is still the one in the file: it is there for as long as nobody has changed it.
pub async fn is_first(state: &ServerState) -> bool {
    let path = state.config.data_dir.join(crate::run::ADMIN_PASSWORD_FILE);
    tokio::fs::try_exists(path).await.unwrap_or_default()
}

/// The file with the first password is of no use any more.
fn forget_first(state: &ServerState, name: &str) {
    if name != ADMIN {
        return;
    }
    let path = state.config.data_dir.join(crate::run::ADMIN_PASSWORD_FILE);
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, path = %path.display(), "the file with the first password, no longer valid, stays");
        }
    }
}

/// Compares, at the pace that is allowed.
async fn check(
    state: &ServerState,
    name: &str,
    password: SecretString,
    origin: &Origin,
) -> AppResult<Attempt<Operator>> {
    let name = key(name);
    if let Some(wait) = state.pace.take(&name, &origin.address, state.now()) {
        return Ok(Attempt::Later(wait));
    }
    let known = state.store.operator_find(&name).await?;
    let hash = known.as_ref().map(|known| known.password_hash.clone());
    // Nobody's password is this long, and hashing a whole book is work.
    let fits = password.expose_secret().len() <= PASSWORD_CHARS_MAX * 4;
    let password = if fits { password } else { SecretString::from("") };
    let right = state.hashing.verify(password, hash).await? && fits;
    match known.filter(|_| right) {
        Some(known) => {
            state.pace.give_back(&name, &origin.address);
            Ok(Attempt::Granted(known.operator))
        }
        None => {
            record(state, &name, origin).await?;
            Ok(Attempt::Wrong)
        }
    }
}

/// Keeps what went wrong, within bounds. A name nobody has is not written down: it may be a password in the wrong field.
async fn record(state: &ServerState, name: &str, origin: &Origin) -> AppResult<()> {
    let Some(unrecorded) = state.pace.record(state.now()) else { return Ok(()) };
    let known = state.store.operators().await?.iter().any(|operator| operator.name == name);
    let subject = if known { format!("operator/{name}") } else { "operator".to_owned() };
    let actor = Actor { name: "anonymous".to_owned(), reason: None, request_id: origin.request_id.clone() };
    let mut after = serde_json::json!({ "address": origin.address });
    if unrecorded > 0 {
        after["unrecorded"] = unrecorded.into();
    }
    state.store.audit_append(&actor, "session.refuse", &subject, Some(after), state.now()).await?;
    tracing::warn!(address = %origin.address, known, "a sign-in was refused");
    Ok(())
}

/// Names are the same in small letters and in capitals, as telephones write them.
fn key(name: &str) -> String {
    name.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_and_not_guessed_at_once() {
        for (password, fits) in [
            ("three small words", true),
            ("Grüße aus Graz", true),
            ("elevenchars", false),
            ("aaaaaaaaaaaaaaaa", false),
            ("adminadminadmin", false),
            ("Admin-admin-1", false),
            ("two lines\nof text", false),
        ] {
            assert_eq!(good("admin", &SecretString::from(password)).is_ok(), fits, "{password:?}");
        }
        assert!(good("admin", &SecretString::from("long enough ".repeat(20))).is_err());
    }
}
