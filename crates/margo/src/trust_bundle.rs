//! SPIFFE trust bundle (JWK Set) and the discovery document (TB-01 to TB-05).

use crate::ReadResult;
use crate::node::Limits;
use crate::reader::{self, Cursor, shown};
use crate::spiffe::TrustDomain;
use crate::tree::{Members, Tree};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

mod der;

/// The `use` of keys that are X.509 anchors (TB-03).
const USE_X509: &str = "x509-svid";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustBundle {
    pub sequence: Option<u64>,
    pub refresh_hint_seconds: Option<u64>,
    /// DER of each X.509 anchor; never empty (TB-04).
    pub anchors: Vec<Vec<u8>>,
}

impl TrustBundle {
    /// Ignores jwt-svid and other keys; rejects a bundle without X.509 anchors (TB-03, TB-04).
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        reader::read_json(json, Limits::DOCUMENT, bundle)
    }

    /// JWK Set: each anchor in `x5c`, with the members of its public key if its kind is known.
    pub fn to_json(&self) -> Vec<u8> {
        let keys = self.anchors.iter().map(|anchor| {
            der::key_members(anchor).with("use", USE_X509).with("x5c", Tree::list([STANDARD.encode(anchor)]))
        });
        Members::new()
            .with_some("spiffe_sequence", self.sequence)
            .with_some("spiffe_refresh_hint", self.refresh_hint_seconds)
            .with("keys", Tree::list(keys))
            .build()
            .to_json()
    }
}

/// `GET /.well-known/margo`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    pub trust_domain: TrustDomain,
    /// Absolute and https, otherwise rejected (TB-02).
    pub trust_bundle_uri: String,
}

impl Discovery {
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        reader::read_json(json, Limits::DOCUMENT, discovery)
    }

    pub fn to_json(&self) -> Vec<u8> {
        Members::new()
            .with("trustDomain", self.trust_domain.as_str())
            .with("trustBundleUri", &self.trust_bundle_uri)
            .build()
            .to_json()
    }
}

fn bundle(root: &Cursor<'_>) -> Option<TrustBundle> {
    let object = root.object()?;
    let sequence = object.optional("spiffe_sequence", Cursor::unsigned);
    let refresh_hint_seconds = object.optional("spiffe_refresh_hint", Cursor::unsigned);
    let keys = object.required("keys")?;
    let anchors: Vec<Option<Vec<u8>>> = keys.list()?.iter().filter_map(anchor).collect();
    let anchors = anchors.into_iter().collect::<Option<Vec<_>>>()?;
    if anchors.is_empty() {
        // TB-04: fail closed.
        keys.error("holds no X.509 anchor: at least one key with `use` x509-svid is required");
    }
    Some(TrustBundle { sequence, refresh_hint_seconds, anchors })
}

/// `None` for keys of other use, which are ignored (TB-03); `Some(None)` for an unreadable anchor.
#[expect(clippy::option_option, reason = "a key of other use is ignored, unlike an anchor that cannot be read")]
fn anchor(cursor: &Cursor<'_>) -> Option<Option<Vec<u8>>> {
    let object = cursor.object()?;
    let usage = object.get("use").and_then(|cursor| cursor.scalar());
    if usage != Some(crate::node::Scalar::Text(USE_X509.to_owned())) {
        return None;
    }
    Some(object.required("x5c").and_then(|cursor| {
        let certificates = cursor.list_of(Cursor::text)?;
        let [certificate] = &certificates[..] else {
            cursor.error("must hold exactly one certificate: anchors only, no intermediates");
            return None;
        };
        let bytes = STANDARD.decode(certificate).ok().filter(|bytes| der::is_one_sequence(bytes));
        if bytes.is_none() {
            cursor.error("must hold a certificate as base64 of DER");
        }
        bytes
    }))
}

/// Unknown members are ignored (TB-01).
fn discovery(root: &Cursor<'_>) -> Option<Discovery> {
    let object = root.object()?;
    let trust_domain = object.required("trustDomain").and_then(|cursor| {
        let text = cursor.text()?;
        let trust_domain = TrustDomain::parse(&text).ok();
        if trust_domain.is_none() {
            let rule = "use lower-case letters, digits, `.`, `-` and `_`";
            cursor.error(format!("`{}` is not the name of a trust domain: {rule}", shown(&text)));
        }
        trust_domain
    });
    let trust_bundle_uri = object.required("trustBundleUri").and_then(|cursor| {
        let text = cursor.text()?;
        if !is_https(&text) {
            // TB-02
            cursor.error(format!("`{}` is not an absolute https address", shown(&text)));
        }
        Some(text)
    });
    Some(Discovery { trust_domain: trust_domain?, trust_bundle_uri: trust_bundle_uri? })
}

/// Absolute, https, with a host, of characters a URI may have.
fn is_https(uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix("https://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    !host.is_empty()
        && !host.starts_with(':')
        && rest.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`'))
}

#[cfg(test)]
mod tests;
