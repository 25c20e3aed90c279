//! Argon2id, with bounded concurrency, outside the threads that answer requests.

use crate::app::error::{AppError, AppResult, Code};
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// 19 MiB, two passes, one lane: the recommended minimum for Argon2id today. It takes some tens of milliseconds:
/// unnoticeable for a person, expensive for an attacker. A stored hash carries its own parameters, so these may grow.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// One at a time: however many sign-ins, they cost one core and 19 MiB, and polls have the rest.
const AT_ONCE: usize = 1;
/// Sign-ins that may queue, about a second; further ones are asked to retry.
const WAITING_MAX: usize = 24;
/// For unknown names: the same work, and no password matches. Salt and hash are made up.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The one place where passwords are hashed.
#[derive(Debug)]
pub struct Hashing {
    places: Arc<Semaphore>,
    permits: Arc<Semaphore>,
}

impl Default for Hashing {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE + WAITING_MAX)), permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Hashing {
    /// The stored hash of a password.
    pub async fn hash(&self, password: SecretString) -> AppResult<String> {
        let made = self.run(move || {
            let hash = argon2().hash_password(password.expose_secret().as_bytes());
            hash.map(|hash| hash.to_string()).map_err(|error| error.to_string())
        });
        made.await?.map_err(|error| {
            tracing::error!(error, "a password cannot be hashed");
            AppError::refused(Code::Internal, "the password cannot be hashed; see the log of the server")
        })
    }

    /// Whether the password matches `hash`; without one it never does, after the same work.
    pub async fn verify(&self, password: SecretString, hash: Option<String>) -> AppResult<bool> {
        self.run(move || {
            let known = hash.is_some();
            let hash = hash.unwrap_or_else(|| DUMMY_HASH.to_owned());
            let Ok(parsed) = PasswordHash::new(&hash) else {
                tracing::error!("a stored password hash cannot be read; set the password again");
                return false;
            };
            argon2().verify_password(password.expose_secret().as_bytes(), &parsed).is_ok() && known
        })
        .await
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> AppResult<T> {
        let busy = || AppError::refused(Code::Busy, "too many sign-ins at the moment; try again in a few seconds");
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| busy())?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| busy())?;
        let held = (place, permit);
        let task = tokio::task::spawn_blocking(move || {
            // Kept until the work is done, even if the request was cancelled.
            let _held: (OwnedSemaphorePermit, OwnedSemaphorePermit) = held;
            work()
        });
        task.await.map_err(AppError::Task)
    }
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("the figures above are within bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[tokio::test]
    async fn verifies_only_the_same_password_and_salts_hashes() {
        let hashing = Hashing::default();
        let hash = hashing.hash(secret("three small words")).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(!hash.contains("words"));
        assert_ne!(hash, hashing.hash(secret("three small words")).await.unwrap());
        assert!(hashing.verify(secret("three small words"), Some(hash.clone())).await.unwrap());
        assert!(!hashing.verify(secret("three small word"), Some(hash)).await.unwrap());
        assert!(!hashing.verify(secret("x"), Some("not a hash".to_owned())).await.unwrap());
    }

    #[tokio::test]
    async fn the_hash_for_unknown_names_has_the_same_cost() {
        let hash = Hashing::default().hash(secret("x")).await.unwrap();
        let figures = |text: &str| text.rsplitn(3, '$').last().map(str::to_owned);
        assert_eq!(figures(&hash), figures(DUMMY_HASH));
        assert!(PasswordHash::new(DUMMY_HASH).is_ok());
        assert!(!Hashing::default().verify(secret(""), None).await.unwrap());
    }

    #[tokio::test]
    async fn rejects_sign_ins_beyond_the_queue() {
        let hashing = Hashing::default();
        let attempts = (0..AT_ONCE + WAITING_MAX + 5).map(|_| hashing.verify(secret("x"), None));
        let results = futures_util::future::join_all(attempts).await;
        let turned_away = results.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(turned_away, 5, "{results:?}");
        assert!(!hashing.verify(secret("x"), None).await.unwrap(), "the queue is empty again");
    }
}
