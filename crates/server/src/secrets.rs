//! Random secrets handed out once, and the hash that is kept of them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margo::digest::Digest;

/// 256 bits: nobody guesses one, so a fast hash is enough to keep.
const SECRET_BYTES: usize = 32;

/// Operator API tokens start like this, so that scanners and people recognise one.
pub const API_TOKEN_PREFIX: &str = "mgv_";
/// One-time enrolment tokens start like this.
pub const ENROLMENT_TOKEN_PREFIX: &str = "mgve_";

/// A new secret from the machine's random source.
pub fn generate(prefix: &str) -> String {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("an operating system without random numbers cannot run a server");
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// What the store keeps of a secret: the SHA-256 of its text, in hexadecimal.
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
}
