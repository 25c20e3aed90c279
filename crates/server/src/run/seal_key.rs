//! The key that seals sensitive values: a private file, created once and never replaced automatically.

use super::StartError;
use crate::config::Config;
use crate::{files, secrets};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margrave_core::time::Timestamp;
use margrave_store::{SEAL_KEY_BYTES, Seal, Store, StoreError};
use std::io;
use std::path::{Path, PathBuf};

/// Prefix of the line in the file, so that scanners and people recognize it.
pub const SEAL_KEY_PREFIX: &str = "mgvk_";

#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    #[error("cannot {attempt} the key file `{}` for sensitive values", path.display())]
    File {
        attempt: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "`{}` contains no key; it should have one line that starts with `{SEAL_KEY_PREFIX}`: restore the file from a backup",
        path.display()
    )]
    Unusable { path: PathBuf },
    #[error(
        "the key file `{}` is missing, and sensitive values in the database are sealed with it (key `{key}`): restore it from a \
         backup, copy it from another server of this database, or set its path in `store.seal_key_file`",
        path.display()
    )]
    Missing { path: PathBuf, key: String },
    #[error(
        "`{}` contains key `{held}`, but this database is sealed with key `{noted}`: restore the file with that key, or set \
         its path in `store.seal_key_file`",
        path.display()
    )]
    Other { path: PathBuf, held: String, noted: String },
}

/// The store, ready to seal. The file is written before the key is recorded in the database: a crash in between leaves
/// a key that the next start uses, never sealed values without a key.
pub(super) async fn load_key(store: Store, config: &Config, now: Timestamp) -> Result<Store, StartError> {
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
    tracing::info!(path = %path.display(), "created the key for sensitive values; keep a copy of it with every backup");
    parse(&secret).ok_or_else(|| SealKeyError::Unusable { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{make, parse, read};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn reads_a_created_key_again_and_keeps_it_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        assert!(read(&path).unwrap().is_none());
        let made = make(&path).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().id(), made.id());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn rejects_invalid_keys() {
        for text in ["", "mgvk_", "mgvk_AAAA", "AAAA", "mgvk_not base64", &"A".repeat(48)] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
