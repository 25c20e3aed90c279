//! Random secrets that are shown once, and their stored hash.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margo::digest::Digest;

/// 256 bits cannot be guessed, so a fast hash is enough.
const SECRET_BYTES: usize = 32;

/// Prefix of operator API tokens, so that scanners and people recognize them.
pub const API_TOKEN_PREFIX: &str = "mgv_";
/// Prefix of one-time enrollment tokens.
pub const ENROLLMENT_TOKEN_PREFIX: &str = "mgve_";

/// A new secret from the machine's random source.
pub fn generate(prefix: &str) -> String {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("an operating system without random numbers cannot run a server");
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Letters and digits that cannot be confused with each other.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 100 bits in four groups, to be read from a screen and typed.
const PASSWORD_GROUPS: usize = 4;
const PASSWORD_GROUP_CHARS: usize = 5;

/// An initial password, to be replaced by its owner.
pub fn password() -> String {
    let mut bytes = [0_u8; PASSWORD_GROUPS * PASSWORD_GROUP_CHARS];
    getrandom::fill(&mut bytes).expect("an operating system without random numbers cannot run a server");
    // 32 divides 256, so every letter is equally likely.
    let letters: Vec<char> = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    letters.chunks(PASSWORD_GROUP_CHARS).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// The stored form of a secret: the SHA-256 of its text, in hexadecimal.
pub fn hash(secret: &str) -> String {
    Digest::of(secret.as_bytes()).hex().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_secrets_differ_and_hash_to_64_digits() {
        let (one, other) = (super::generate("t_"), super::generate("t_"));
        assert_ne!(one, other);
        assert!(one.starts_with("t_") && one.len() == 2 + 43, "{one}");
        assert_eq!(super::hash(&one).len(), 64);
    }

    #[test]
    fn a_password_can_be_typed_and_is_never_the_same() {
        let (one, other) = (super::password(), super::password());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.split('-').count()), (23, 4), "{one}");
        assert!(one.bytes().all(|byte| byte == b'-' || super::ALPHABET.contains(&byte)), "{one}");
    }
}
