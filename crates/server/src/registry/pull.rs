//! Pull credentials of devices, derived instead of stored.
//!
//! The password of client `c` is HMAC-SHA256 over its id and a generation, keyed with a secret of this server. Nothing
//! per device is stored but raised generations: every request checks the accepted-client policy, so decommissioning a
//! client ends its access at once, and replacing the secret file ends the access of all clients.

use crate::files::{PRIVATE_FILE, private_folder, write_atomically};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margrave_core::time::Timestamp;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The length of the hash: longer keys add nothing.
const SECRET_BYTES: usize = 32;
/// Prefix of device pull passwords, so that scanners and people recognize them.
pub const PULL_PREFIX: &str = "mgvp_";
const SECRET_FILE: &str = "pull-secret";
const GENERATIONS_FILE: &str = "pull-generations.json";
const FIRST_GENERATION: u64 = 1;
/// Separates these hashes from any other use of the same secret.
const PURPOSE: &str = "margrave registry pull v1";

/// The key from which every device's password is derived.
pub struct PullSecret {
    key: hmac::Key,
}

impl PullSecret {
    /// Reads the secret, or creates one that only the owner can read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) if bytes.len() == SECRET_BYTES => bytes,
            Ok(_) => {
                let message =
                    format!("the pull secret must have {SECRET_BYTES} bytes; remove the file to get a new one");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut bytes = vec![0; SECRET_BYTES];
                getrandom::fill(&mut bytes).expect("an operating system without random numbers cannot run a server");
                if let Some(folder) = path.parent() {
                    private_folder(folder)?;
                }
                write_atomically(path, &bytes, PRIVATE_FILE)?;
                bytes
            }
            Err(error) => return Err(error),
        };
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// The password of a client in a generation of its credentials.
    pub fn password(&self, client: &str, generation: u64) -> SecretString {
        let tag = hmac::sign(&self.key, &message(client, generation));
        format!("{PULL_PREFIX}{}", URL_SAFE_NO_PAD.encode(tag)).into()
    }

    /// Whether this is the client's password; constant time.
    pub fn verify(&self, client: &str, generation: u64, password: &SecretString) -> bool {
        let text = password.expose_secret();
        let tag = text.strip_prefix(PULL_PREFIX).and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok());
        tag.is_some_and(|tag| hmac::verify(&self.key, &message(client, generation), &tag).is_ok())
    }
}

/// The secret, and the clients whose password was replaced.
pub struct PullCredentials {
    secret: PullSecret,
    path: PathBuf,
    /// Generations above the first one.
    raised: Mutex<BTreeMap<String, Raised>>,
}

/// A generation above the first one, as stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum Raised {
    Plain(u64),
    By { generation: u64, key: String, at: i64 },
}

impl Raised {
    fn generation(&self) -> u64 {
        match self {
            Self::Plain(generation) | Self::By { generation, .. } => *generation,
        }
    }
}

/// The call that requested a new password, if it has an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raise {
    pub key: String,
    pub at: Timestamp,
}

impl PullCredentials {
    /// Reads both from a registry's folder, or creates them.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let secret = PullSecret::open(&folder.join(SECRET_FILE))?;
        let path = folder.join(GENERATIONS_FILE);
        let raised = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { secret, path, raised: Mutex::new(raised) })
    }

    fn generation(&self, client: &str) -> u64 {
        self.raised.lock().get(client).map_or(FIRST_GENERATION, Raised::generation)
    }

    pub fn password(&self, client: &str) -> SecretString {
        self.secret.password(client, self.generation(client))
    }

    pub fn verify(&self, client: &str, password: &SecretString) -> bool {
        self.secret.verify(client, self.generation(client), password)
    }

    /// The password, if this call requested it recently.
    pub fn raised_by(&self, client: &str, key: &str, expired_before: Timestamp) -> Option<SecretString> {
        let generation = match self.raised.lock().get(client)? {
            Raised::By { generation, key: known, at } if known == key && *at > expired_before.0 => *generation,
            _ => return None,
        };
        Some(self.secret.password(client, generation))
    }

    /// Gives a client a new password; the old one stops working. Waits for the disk.
    pub fn rotate(&self, client: &str, by: Option<Raise>) -> io::Result<SecretString> {
        let mut raised = self.raised.lock();
        let mut next = raised.clone();
        let generation = next.get(client).map_or(FIRST_GENERATION, Raised::generation) + 1;
        let entry = match by {
            Some(Raise { key, at }) => Raised::By { generation, key, at: at.0 },
            None => Raised::Plain(generation),
        };
        next.insert(client.to_owned(), entry);
        let password = self.secret.password(client, generation);
        write_atomically(&self.path, &serde_json::to_vec(&next)?, PRIVATE_FILE)?;
        *raised = next;
        Ok(password)
    }
}

/// Unambiguous: no client id contains a line break.
fn message(client: &str, generation: u64) -> Vec<u8> {
    format!("{PURPOSE}\n{generation}\n{client}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{PullCredentials, PullSecret, Raise};
    use margrave_core::time::Timestamp;
    use secrecy::ExposeSecret as _;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_password_is_valid_for_one_client_and_generation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry/pull-secret");
        let secret = PullSecret::open(&path).unwrap();
        let password = secret.password("press-07", 1);
        assert!(PullSecret::open(&path).unwrap().verify("press-07", 1, &password), "survives a restart");
        assert!(!secret.verify("press-08", 1, &password));
        assert!(!secret.verify("press-07", 2, &password));
        assert!(!secret.verify("press-07", 1, &"mgvp_".into()));
        assert!(!secret.verify("press-07", 1, &password.expose_secret()[1..].into()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        assert!(!PullSecret::open(&path).unwrap().verify("press-07", 1, &password), "a new secret ends every password");
    }

    #[test]
    fn a_new_password_ends_the_old_one_of_that_client_alone() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = PullCredentials::open(folder.path()).unwrap();
        let (old, other) = (credentials.password("press-07"), credentials.password("press-08"));
        let new = credentials.rotate("press-07", None).unwrap();
        for credentials in [credentials, PullCredentials::open(folder.path()).unwrap()] {
            assert!(!credentials.verify("press-07", &old));
            assert!(credentials.verify("press-07", &new));
            assert!(credentials.verify("press-08", &other));
            assert_eq!(credentials.password("press-07").expose_secret(), new.expose_secret());
        }
    }

    #[test]
    fn recognizes_a_repeated_rotation_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = PullCredentials::open(folder.path()).unwrap();
        credentials.rotate("press-08", None).unwrap();
        let new = credentials.rotate("press-07", Some(Raise { key: "k".to_owned(), at: Timestamp(5) })).unwrap();
        let again = PullCredentials::open(folder.path()).unwrap();
        let known = again.raised_by("press-07", "k", Timestamp(4)).unwrap();
        assert_eq!(known.expose_secret(), new.expose_secret());
        assert!(again.raised_by("press-07", "other", Timestamp(4)).is_none());
        assert!(again.raised_by("press-07", "k", Timestamp(5)).is_none(), "too long ago");
        assert!(again.raised_by("press-08", "k", Timestamp(4)).is_none());
    }

    #[test]
    fn rejects_a_damaged_secret_instead_of_replacing_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pull-secret");
        std::fs::write(&path, b"short").unwrap();
        assert!(PullSecret::open(&path).is_err());
    }
}
