//! `sha256:<64 lower-case hex>` over exact bytes (DS-08, DS-09).

use std::fmt;
use std::str::FromStr;

/// A digest in the form the wire uses. Only sha256 exists; anything else does not parse (DS-08).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("unknown digest algorithm `{0}`: only sha256 is supported")]
    UnknownAlgorithm(String),
    #[error("`{0}` is not a digest: write `sha256:` and 64 lower-case hexadecimal digits")]
    Malformed(String),
}

impl Digest {
    /// The digest of exactly these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
        Self(format!("sha256:{}", hex(hash.as_ref())))
    }
    /// The digest of everything a reader returns, however much it is.
    pub fn of_reader(reader: &mut dyn std::io::Read) -> std::io::Result<Self> {
        let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        let mut buffer = vec![0; 64 << 10];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self(format!("sha256:{}", hex(context.finish().as_ref())))),
                count => context.update(&buffer[..count]),
            }
        }
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The 64 hexadecimal digits without the algorithm.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }
    /// The strong ETag made of this digest: quoted (DS-14, DS-19).
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl FromStr for Digest {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Self, DigestError> {
        let short = || text.chars().take(100).collect::<String>();
        let Some(hex) = text.strip_prefix("sha256:") else {
            return Err(match text.split_once(':') {
                Some((algorithm, _)) => DigestError::UnknownAlgorithm(algorithm.chars().take(40).collect()),
                None => DigestError::Malformed(short()),
            });
        };
        if hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(text.to_owned()))
        } else {
            Err(DigestError::Malformed(short()))
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_digest_is_over_exactly_these_bytes() {
        // DS-08, DS-09
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        let long = vec![7; 200_000];
        assert_eq!(Digest::of_reader(&mut long.as_slice()).unwrap(), Digest::of(&long));
        assert_ne!(Digest::of(b"a\n"), Digest::of(b"a"));
        assert_eq!(Digest::of(b"").etag(), format!("\"{empty}\""));
        assert_eq!(Digest::of(b"").hex(), &empty[7..]);
    }

    #[test]
    fn rejects_digests_other_than_lower_case_sha256() {
        // DS-08
        let hex = "0".repeat(64);
        assert!(
            matches!(format!("sha512:{hex}").parse::<Digest>(), Err(DigestError::UnknownAlgorithm(name)) if name == "sha512")
        );
        for text in ["", "sha256", "sha256:", &hex, &format!("sha256:{}", &hex[1..]), &format!("sha256:{hex}0")] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        for text in [
            format!("sha256:{}", "A".repeat(64)),
            format!(" sha256:{hex}"),
            format!("sha256:{hex}\n"),
            format!("SHA256:{hex}"),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_digest_reads_back(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let digest = Digest::of(&bytes);
            prop_assert_eq!(&digest.to_string().parse::<Digest>().unwrap(), &digest);
            let json = serde_json::to_string(&digest).unwrap();
            prop_assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        }
    }
}
