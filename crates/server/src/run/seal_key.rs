//! The key that sensitive answers are sealed with: a private file, made once and never replaced by itself.

use super::StartError;
use crate::app::mask::Sensitive;
use crate::catalog::Descriptions;
use crate::config::Config;
use crate::{files, secrets};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margrave_core::time::Timestamp;
use margrave_store::{SEAL_KEY_BYTES, Seal, Store, StoreError};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The line in the file begins like this, so that scanners and people recognise one.
pub const SEAL_KEY_PREFIX: &str = "mgvk_";

#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    #[error("cannot {attempt} the key file `{}` for sensitive answers", path.display())]
    File {
        attempt: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "there is no key in `{}`, which should hold one line that begins with `{SEAL_KEY_PREFIX}`: restore the file from a backup",
        path.display()
    )]
    Unusable { path: PathBuf },
    #[error(
        "the key file `{}` is missing, and sensitive answers in the database are sealed with it (key `{key}`): restore it from a \
         backup, copy it from another server of this database, or say where it is with `store.seal_key_file`",
        path.display()
    )]
    Missing { path: PathBuf, key: String },
    #[error(
        "`{}` holds key `{held}`, but this database is sealed with key `{noted}`: put the file with that key in its place, or say \
         where it is with `store.seal_key_file`",
        path.display()
    )]
    Other { path: PathBuf, held: String, noted: String },
}

/// The store, ready to seal. The file is written before the key is noted in the database: a crash in between leaves a key the
/// next start takes up, never sealed values nobody has the key of.
pub(super) async fn take_up(store: Store, config: &Config, now: Timestamp) -> Result<Store, StartError> {
    let path = config.seal_key_file();
    let held = read(&path)?;
    let mut noted = store.seal_key().await?;
    if noted.is_some() && held.as_ref().map(Seal::id) != noted.as_deref() && store.seal_key_forget().await? {
        // Nothing was sealed with it.
        noted = None;
    }
    let seal = match (held, noted) {
        (Some(seal), _) => seal,
        (None, Some(key)) => return Err(SealKeyError::Missing { path, key }.into()),
        (None, None) if store.has_sealed().await? => {
            return Err(SealKeyError::Missing { path, key: "unknown".to_owned() }.into());
        }
        (None, None) => make(&path)?,
    };
    store.sealing_with(seal, now).await.map_err(|error| match error {
        StoreError::OtherKey { noted, held } => SealKeyError::Other { path, held, noted }.into(),
        other => other.into(),
    })
}

fn read(path: &Path) -> Result<Option<Seal>, SealKeyError> {
    let unusable = || SealKeyError::Unusable { path: path.to_owned() };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(unusable()),
        Err(source) => return Err(SealKeyError::File { attempt: "read", path: path.to_owned(), source }),
    };
    parse(&text).map(Some).ok_or_else(unusable)
}

fn parse(text: &str) -> Option<Seal> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim().strip_prefix(SEAL_KEY_PREFIX)?).ok()?;
    let key: [u8; SEAL_KEY_BYTES] = bytes.try_into().ok()?;
    Some(Seal::new(&key))
}

fn make(path: &Path) -> Result<Seal, SealKeyError> {
    let secret = secrets::generate(SEAL_KEY_PREFIX);
    files::write_atomically(path, format!("{secret}\n").as_bytes(), files::PRIVATE_FILE)
        .map_err(|source| SealKeyError::File { attempt: "write", path: path.to_owned(), source })?;
    tracing::info!(path = %path.display(), "made the key for sensitive answers; keep a copy of it with every backup");
    parse(&secret).ok_or_else(|| SealKeyError::Unusable { path: path.to_owned() })
}

/// Seals sensitive values of before, once. Nothing is served meanwhile; a stop in between is made up for by the next start.
pub(super) async fn seal_older(store: &Store, descriptions: &Descriptions, now: Timestamp) -> Result<(), StartError> {
    if store.older_is_sealed().await? {
        return Ok(());
    }
    let mut sensitive = BTreeSet::new();
    for (application, version) in store.versions_answered().await? {
        let description = match store.version_get(&application, &version).await? {
            Some(version) => match descriptions.get(store, &version).await {
                Ok(description) => Some(description),
                // Nobody can tell what was sensitive in it.
                Err(StoreError::Inconsistent { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        if !Sensitive::of(description.as_deref()).is_empty() {
            sensitive.insert(application);
        }
    }
    if !sensitive.is_empty() {
        let values = store.seal_older(&sensitive).await?;
        tracing::info!(values, "sealed the sensitive answers that were written before there was a key");
        // Nothing is lost without it, so the server starts all the same.
        let traces =
            "traces of older sensitive answers may be left in the files of the database; the next start tries again";
        match store.scrub().await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!("somebody else reads the database: {traces}");
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot rewrite the database: {traces}");
                return Ok(());
            }
        }
    }
    Ok(store.older_sealed(now).await?)
}

#[cfg(test)]
mod tests {
    use super::{make, parse, read};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_that_was_made_is_read_again_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        assert!(read(&path).unwrap().is_none());
        let made = make(&path).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().id(), made.id());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_key_is_not_taken_for_one() {
        for text in ["", "mgvk_", "mgvk_AAAA", "AAAA", "mgvk_not base64", &"A".repeat(48)] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
