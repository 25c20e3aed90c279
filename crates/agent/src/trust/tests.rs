use super::*;

fn bundle(sequence: Option<u64>, mark: u8) -> (Vec<u8>, TrustBundle) {
    let bundle = TrustBundle { sequence, refresh_hint_seconds: None, anchors: vec![anchor(mark)] };
    (bundle.to_json(), bundle)
}

fn anchor(mark: u8) -> Vec<u8> {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("anchor {mark}"));
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&key).unwrap().der().to_vec()
}

#[test]
fn accepts_a_newer_bundle_and_rejects_an_older_one() {
    // TB-04, TB-05, W-29
    let folder = tempfile::tempdir().unwrap();
    let held = || std::fs::read(fetched_bundle(folder.path())).unwrap();
    let (five, parsed) = bundle(Some(5), 1);
    take(folder.path(), &five, &parsed).unwrap();
    assert_eq!(held(), five);
    let (four, parsed) = bundle(Some(4), 2);
    assert!(matches!(take(folder.path(), &four, &parsed), Err(TrustError::Refused(_))));
    assert_eq!(held(), five);
    let (same, parsed) = bundle(Some(5), 3);
    take(folder.path(), &same, &parsed).unwrap();
    assert_eq!(held(), same, "an equal sequence is not older");
}

#[test]
fn sends_nothing_without_a_trust_anchor() {
    // TLS-05
    let error = anchor_of(&AgentConfig::default()).unwrap_err();
    assert!(matches!(error, TrustError::NoAnchor));
    assert!(error.to_string().contains("first use"));
}

fn anchor_of(config: &AgentConfig) -> Result<TrustAnchor, TrustError> {
    super::anchor(config)
}

#[test]
fn a_pin_is_sha256_of_the_public_key_in_hexadecimal() {
    assert_eq!(TrustAnchor::parse_pin(&format!("sha256:{}", "0f".repeat(32))).unwrap(), TrustAnchor::Pin([15; 32]));
    for text in ["", "sha256:", "sha1:00", &"0f".repeat(32)] {
        assert!(TrustAnchor::parse_pin(text).is_err(), "{text}");
    }
}
