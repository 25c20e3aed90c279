use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The DER inside a PEM fixture.
fn der(pem: &str) -> Vec<u8> {
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(base64).unwrap()
}

fn p256() -> Vec<u8> {
    der(include_str!("../../tests/fixtures/anchor-p256.pem"))
}

fn key(pem: &str) -> Value {
    let bundle = TrustBundle { sequence: None, refresh_hint_seconds: None, anchors: vec![der(pem)] };
    let value: Value = serde_json::from_slice(&bundle.to_json()).unwrap();
    value["keys"][0].clone()
}

fn refused(value: &Value, words: &str) {
    let findings = TrustBundle::read(value.to_string().as_bytes()).unwrap_err();
    assert!(findings.to_string().contains(words), "{findings}");
}

#[test]
fn writes_anchors_as_complete_keys() {
    // TB-03
    let key = key(include_str!("../../tests/fixtures/anchor-p256.pem"));
    assert_eq!((&key["use"], &key["kty"], &key["crv"]), (&json!("x509-svid"), &json!("EC"), &json!("P-256")));
    assert_eq!(key["x"], "uCE964w0T-8Qf04sORzpBaD3WVu9l_niyGMDrc38Po8");
    assert_eq!(key["y"], "b00QPSL45S1kBBn5b2MbvTtQ1MfbIQqil2rdZ8YdCRM");
    assert_eq!(STANDARD.decode(key["x5c"][0].as_str().unwrap()).unwrap(), p256());
}

#[test]
fn supports_other_kinds_of_keys() {
    // SV-02
    let p384 = key(include_str!("../../tests/fixtures/anchor-p384.pem"));
    assert_eq!(p384["crv"], "P-384");
    assert_eq!(p384["x"], "cGtPPxHSboZUYo4jkE_9DQeI-EEsf7dOFkLXd4-d90WMnxnFfEMSGvrmHH6smbW9");
    let ed25519 = key(include_str!("../../tests/fixtures/anchor-ed25519.pem"));
    assert_eq!((&ed25519["kty"], &ed25519["crv"]), (&json!("OKP"), &json!("Ed25519")));
    assert_eq!(ed25519["x"], "HY6Tisb7MpxLV6mqfSH7Yvp75Krpuvd4Zzu2ym3k5YU");
    let rsa = key(include_str!("../../tests/fixtures/anchor-rsa.pem"));
    assert_eq!((&rsa["kty"], &rsa["e"]), (&json!("RSA"), &json!("AQAB")));
    assert_eq!(rsa["n"].as_str().unwrap().len(), 512, "3072 bits without a leading zero");
}

#[test]
fn keys_of_other_use_are_ignored() {
    // TB-03
    let value = json!({
        "spiffe_sequence": 4, "spiffe_refresh_hint": 300, "vendor": true,
        "keys": [
            {"use": "jwt-svid", "kty": "EC", "kid": "a"},
            {"kty": "EC"},
            {"use": "x509-svid", "x5c": [STANDARD.encode(p256())]},
        ],
    });
    let bundle = TrustBundle::read(value.to_string().as_bytes()).unwrap().document;
    assert_eq!(bundle, TrustBundle { sequence: Some(4), refresh_hint_seconds: Some(300), anchors: vec![p256()] });
}

#[test]
fn a_bundle_without_anchors_is_refused() {
    // TB-04
    refused(&json!({"keys": []}), "no X.509 anchor");
    refused(&json!({"keys": [{"use": "jwt-svid"}]}), "no X.509 anchor");
    refused(&json!({}), "is missing");
}

#[test]
fn an_anchor_that_cannot_be_read_fails_closed() {
    let good = STANDARD.encode(p256());
    for x5c in [json!([]), json!([good, good]), json!(["###"]), json!(["aGVsbG8="]), json!("x"), json!(null)] {
        let value = json!({"keys": [{"use": "x509-svid", "x5c": [good]}, {"use": "x509-svid", "x5c": x5c}]});
        refused(&value, "keys[1]");
    }
    refused(&json!({"spiffe_sequence": -1, "keys": [{"use": "x509-svid", "x5c": [good]}]}), "spiffe_sequence");
}

#[test]
fn the_bundle_address_is_absolute_and_https() {
    // TB-02
    let read = |uri: &str| Discovery::read(json!({"trustDomain": "td", "trustBundleUri": uri}).to_string().as_bytes());
    for uri in ["https://trust.example/bundle.json", "https://10.0.0.1:18443/b?x=1", "https://[::1]/b"] {
        assert_eq!(read(uri).unwrap().document.trust_bundle_uri, uri);
    }
    for uri in [
        "http://trust.example/b",
        "/bundle.json",
        "//trust.example/b",
        "https:///b",
        "https://:1/b",
        "https://a b/",
        "HTTPS",
        "",
    ] {
        assert!(read(uri).is_err(), "{uri}");
    }
}

#[test]
fn discovery_ignores_members_it_does_not_know() {
    // TB-01, LC-05
    let text =
        r#"{"trustDomain": "plant.example", "trustBundleUri": "https://t.example/b", "estBaseUri": "https://e"}"#;
    let read = Discovery::read(text.as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    assert!(Discovery::read(br#"{"trustDomain": "Plant", "trustBundleUri": "https://t.example/b"}"#).is_err());
    assert!(Discovery::read(br#"{"trustDomain": "plant"}"#).is_err());
}

proptest! {
    #[test]
    fn a_written_bundle_reads_back(
        sequence in any::<Option<u64>>(),
        refresh_hint_seconds in any::<Option<u64>>(),
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..127), 1..5),
    ) {
        let anchors = contents.into_iter().map(|content| {
            [vec![0x30, content.len() as u8], content].concat()
        }).collect();
        let bundle = TrustBundle { sequence, refresh_hint_seconds, anchors };
        prop_assert_eq!(TrustBundle::read(&bundle.to_json()).unwrap().document, bundle);
    }

    #[test]
    fn a_written_discovery_reads_back(td in "[a-z0-9.-]{1,30}", host in "[a-z0-9.]{1,20}", path in "[a-z0-9/._-]{0,20}") {
        let discovery = Discovery {
            trust_domain: TrustDomain::parse(&td).unwrap(),
            trust_bundle_uri: format!("https://{host}/{path}"),
        };
        prop_assert_eq!(Discovery::read(&discovery.to_json()).unwrap().document, discovery);
    }

    #[test]
    fn no_bytes_make_the_certificate_walk_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        let _ = der::key_members(&bytes);
        let mut honest = p256();
        let place = cut.index(honest.len());
        honest.truncate(place);
        bytes.splice(0..0, honest);
        let _ = der::key_members(&bytes);
    }
}
