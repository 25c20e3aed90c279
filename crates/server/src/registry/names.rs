//! Repository names, tags, digests and references, according to the grammar of the distribution specification.

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Clients reject longer names, because host and name together must fit 255 characters.
const NAME_CHARS_MAX: usize = 255;
const TAG_CHARS_MAX: usize = 128;
/// Replaces `/` in the folder name of a repository; no repository name contains it.
const FOLDER_SEPARATOR: &str = ",";
/// How much of an invalid input an error repeats.
const SHOWN_CHARS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "`{0}` is not a repository name: write lower-case letters and digits, joined by `.`, `_`, `__` or `-`, in parts divided by `/`, at most 255 characters"
    )]
    Repository(String),
    #[error(
        "`{0}` is not a tag: write at most 128 letters, digits, `_`, `.` and `-`, beginning with a letter, digit or `_`"
    )]
    Tag(String),
    #[error("`{0}` is not a digest: write `sha256:` and 64, or `sha512:` and 128 lower-case hexadecimal digits")]
    Digest(String),
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// A repository, such as `charts/press`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryName(Arc<str>);

impl RepositoryName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// One folder name for any depth, so that no repository is inside another.
    pub(super) fn folder(&self) -> String {
        self.0.replace('/', FOLDER_SEPARATOR)
    }
    pub(super) fn from_folder(folder: &str) -> Option<Self> {
        folder.replace(FOLDER_SEPARATOR, "/").parse().ok()
    }
}

impl FromStr for RepositoryName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_valid = text.len() <= NAME_CHARS_MAX && text.split('/').all(is_component);
        if is_valid { Ok(Self(text.into())) } else { Err(NameError::Repository(shown(text))) }
    }
}

impl fmt::Display for RepositoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(text: &str) -> bool {
    let alphanumeric = |character: char| matches!(character, 'a'..='z' | '0'..='9');
    let mut rest = text;
    loop {
        let after = rest.trim_start_matches(alphanumeric);
        if after.len() == rest.len() {
            return false;
        }
        if after.is_empty() {
            return true;
        }
        let next = after.trim_start_matches(['.', '_', '-']);
        let separator = &after[..after.len() - next.len()];
        if !(matches!(separator, "." | "_" | "__")
            || !separator.is_empty() && separator.bytes().all(|byte| byte == b'-'))
        {
            return false;
        }
        rest = next;
    }
}

/// A tag. Sorted as the specification lists tags: case-insensitively, then by case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tag(String);

impl Tag {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for Tag {
    fn cmp(&self, other: &Self) -> Ordering {
        let folded = |tag: &Self| tag.0.bytes().map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>();
        folded(self).cmp(&folded(other)).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Tag {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Tag {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_valid = text.len() <= TAG_CHARS_MAX
            && text.bytes().next().is_some_and(word)
            && text.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(NameError::Tag(shown(text))) }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A digest in binary, because the index keeps one for every reference of every manifest.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Digest {
    Sha256([u8; 32]),
    Sha512(Box<[u8; 64]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
    pub(super) fn context(self) -> Context {
        Context::new(match self {
            Self::Sha256 => &SHA256,
            Self::Sha512 => &SHA512,
        })
    }
    pub(super) fn finish(self, context: Context) -> Digest {
        let hash = context.finish();
        self.digest(hash.as_ref()).expect("a hash is as long as its algorithm says")
    }
    fn digest(self, bytes: &[u8]) -> Option<Digest> {
        Some(match self {
            Self::Sha256 => Digest::Sha256(bytes.try_into().ok()?),
            Self::Sha512 => Digest::Sha512(Box::new(bytes.try_into().ok()?)),
        })
    }
}

impl Digest {
    /// The digest of exactly these bytes.
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut context = algorithm.context();
        context.update(bytes);
        algorithm.finish(context)
    }
    pub fn sha256(bytes: &[u8]) -> Self {
        Self::of(Algorithm::Sha256, bytes)
    }
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Sha256(_) => Algorithm::Sha256,
            Self::Sha512(_) => Algorithm::Sha512,
        }
    }
    pub fn hex(&self) -> String {
        match self {
            Self::Sha256(bytes) => margo::digest::hex(bytes),
            Self::Sha512(bytes) => margo::digest::hex(bytes.as_slice()),
        }
    }
    /// From the names of the folder and the file of the content.
    pub(super) fn from_parts(algorithm: &str, hex: &str) -> Option<Self> {
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return None,
        };
        // Upper case would give one content two names.
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        algorithm.digest(&bytes?)
    }
}

impl FromStr for Digest {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts = text.split_once(':');
        parts
            .and_then(|(algorithm, hex)| Self::from_parts(algorithm, hex))
            .ok_or_else(|| NameError::Digest(shown(text)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm().as_str(), self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The part after `manifests/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    Tag(Tag),
    Digest(Digest),
}

impl FromStr for Reference {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        // No tag contains a colon, every digest does.
        if text.contains(':') { text.parse().map(Self::Digest) } else { text.parse().map(Self::Tag) }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => tag.fmt(f),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
