//! Just enough DER to find the public key in a certificate.

use crate::tree::{Members, Tree};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;

const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Splits off one element: its tag, its content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0_usize, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn expect(der: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(der)?;
    (tag == expected).then_some((content, rest))
}

/// One sequence that fills the bytes exactly: the only requirement for an anchor here.
pub(super) fn is_one_sequence(der: &[u8]) -> bool {
    matches!(element(der), Some((SEQUENCE, _, [])))
}

/// The members of a JWK for the certificate's public key, or none if its kind is unknown.
pub(super) fn key_members(certificate: &[u8]) -> Members {
    public_key(certificate).and_then(|(algorithm, key)| members(algorithm, key)).unwrap_or_default()
}

/// The content of the algorithm identifier, and the bits of the key.
fn public_key(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut to_be_signed, _) = expect(certificate, SEQUENCE)?;
    if let Some((VERSION, _, rest)) = element(to_be_signed) {
        to_be_signed = rest;
    }
    // Serial number, signature algorithm, issuer, validity, subject.
    for _ in 0..5 {
        to_be_signed = element(to_be_signed)?.2;
    }
    let (info, _) = expect(to_be_signed, SEQUENCE)?;
    let (algorithm, rest) = expect(info, SEQUENCE)?;
    let (bits, _) = expect(rest, BIT_STRING)?;
    Some((algorithm, bits.strip_prefix(&[0])?))
}

fn members(algorithm: &[u8], key: &[u8]) -> Option<Members> {
    let base64 = |bytes: &[u8]| Tree::Text(URL_SAFE_NO_PAD.encode(bytes));
    let (id, parameters) = expect(algorithm, OBJECT_ID)?;
    if id == EC_PUBLIC_KEY {
        let (curve, _) = expect(parameters, OBJECT_ID)?;
        let (name, size) = match curve {
            P256 => ("P-256", 32),
            P384 => ("P-384", 48),
            _ => return None,
        };
        let (x, y) = key.strip_prefix(&[4]).filter(|point| point.len() == 2 * size)?.split_at(size);
        let members = Members::new().with("kty", "EC").with("crv", name);
        return Some(members.with("x", base64(x)).with("y", base64(y)));
    }
    if id == ED25519 {
        return Some(Members::new().with("kty", "OKP").with("crv", "Ed25519").with("x", base64(key)));
    }
    if id == RSA {
        let (numbers, _) = expect(key, SEQUENCE)?;
        let (modulus, rest) = expect(numbers, INTEGER)?;
        let (exponent, _) = expect(rest, INTEGER)?;
        let unsigned = |bytes: &[u8]| base64(bytes.strip_prefix(&[0]).unwrap_or(bytes));
        return Some(Members::new().with("kty", "RSA").with("n", unsigned(modulus)).with("e", unsigned(exponent)));
    }
    None
}
