use super::Identity;
use crate::config::{Config, Span};
use margrave_core::time::{Clock, Timestamp};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use std::sync::Arc;
use std::time::Duration;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp(1_790_000_000_000_000)
    }
}

fn open(folder: &tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Result<Identity, String> {
    let mut config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
    change(&mut config);
    Identity::open(Arc::new(config), Arc::new(Fixed)).map_err(|error| error.to_string())
}

fn csr(key: &KeyPair) -> String {
    CertificateParams::default().serialize_request(key).unwrap().pem().unwrap()
}

#[test]
fn keys_of_every_supported_kind_get_an_svid() {
    // SV-02
    let folder = tempfile::tempdir().unwrap();
    let identity = open(&folder, |_| {}).unwrap();
    let client = "press".parse().unwrap();
    for key in [
        KeyPair::generate().unwrap(),
        KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap(),
        KeyPair::generate_for(&PKCS_ED25519).unwrap(),
    ] {
        let issued = identity.issue(&client, &csr(&key), None).unwrap();
        assert!(issued.certificate_pem.starts_with("-----BEGIN CERTIFICATE-----"));
    }
}

#[test]
fn the_key_hash_belongs_to_the_key_alone() {
    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let hash = |key: &KeyPair| Identity::csr_key_hash(&csr(key)).unwrap();
    assert_eq!(hash(&one), hash(&one));
    assert_ne!(hash(&one), hash(&other));
    assert_eq!(hash(&one).len(), 64);
}

#[test]
fn rejects_invalid_requests_with_the_reason() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
    let refused = |text: &str| Identity::csr_key_hash(text).unwrap_err().to_string();
    assert!(refused("hello").contains("not PEM"), "{}", refused("hello"));
    assert!(refused(&certificate).contains("label"), "{}", refused(&certificate));
    assert!(refused(&"x".repeat(20_000)).contains("longer than 16 KiB"));
}

#[test]
fn limits_the_lifetime_of_an_svid() {
    // LC-04
    let folder = tempfile::tempdir().unwrap();
    let identity = open(&folder, |config| config.identity.client_svid_lifetime_max = Span::days(60)).unwrap();
    let (client, csr) = ("press".parse().unwrap(), csr(&KeyPair::generate().unwrap()));
    let expires = |requested: Option<Duration>| identity.issue(&client, &csr, requested).unwrap().expires_at;
    let day = Duration::from_hours(24);
    assert_eq!(expires(None), Fixed.now().plus(30 * day));
    assert_eq!(expires(Some(day)), Fixed.now().plus(day));
    assert_eq!(expires(Some(1_000 * day)), Fixed.now().plus(60 * day));
}

#[test]
fn increments_the_sequence_only_when_the_anchors_change() {
    // TB-05
    let folder = tempfile::tempdir().unwrap();
    let sequence = |identity: &Identity| {
        margo::trust_bundle::TrustBundle::read(&identity.bundle_json()).unwrap().document.sequence.unwrap()
    };
    let first = open(&folder, |_| {}).unwrap();
    assert_eq!(sequence(&first), 1);
    assert_eq!(sequence(&open(&folder, |_| {}).unwrap()), 1);
    let anchors = folder.path().join("anchors.pem");
    let added = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    std::fs::write(&anchors, first.bundle_pem() + &added).unwrap();
    let second = open(&folder, |config| config.identity.anchors_file = Some(anchors)).unwrap();
    assert_eq!(sequence(&second), 2);
}

#[test]
fn a_damaged_bundle_prevents_the_start_instead_of_resetting_the_sequence() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder, |_| {}).unwrap();
    std::fs::write(folder.path().join("trust/bundle.json"), "{").unwrap();
    let error = open(&folder, |_| {}).unwrap_err();
    assert!(error.contains("bundle.json"), "{error}");
}

#[test]
fn anchors_without_the_embedded_authority_need_an_external_svid() {
    let folder = tempfile::tempdir().unwrap();
    let anchors = folder.path().join("anchors.pem");
    std::fs::write(&anchors, CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap().pem())
        .unwrap();
    let error = open(&folder, |config| config.identity.anchors_file = Some(anchors)).unwrap_err();
    assert!(error.contains("identity.issuer_file"), "{error}");
}

#[test]
fn rejects_a_key_that_does_not_match_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let [certificate, key] = ["c.pem", "k.pem"].map(|name| folder.path().join(name));
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&one).unwrap();
    std::fs::write(&certificate, own.pem()).unwrap();
    std::fs::write(&key, other.serialize_pem()).unwrap();
    let error = open(&folder, |config| {
        config.https.certificate_file = Some(certificate);
        config.https.key_file = Some(key);
    })
    .unwrap_err();
    assert!(error.contains("c.pem"), "{error}");
}

#[test]
fn hides_secrets_in_the_debug_form() {
    let folder = tempfile::tempdir().unwrap();
    let identity = open(&folder, |_| {}).unwrap();
    assert!(!format!("{identity:?}").contains("key"));
}
