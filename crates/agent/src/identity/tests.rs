use super::*;
use std::time::{Duration, SystemTime};

fn write(path: &Path, sequence: Option<u64>, written: SystemTime) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let anchors = vec![params.self_signed(&key).unwrap().der().to_vec()];
    let bundle = TrustBundle { sequence, refresh_hint_seconds: None, anchors };
    std::fs::write(path, bundle.to_json()).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_modified(written).unwrap();
}

fn chosen(provisioned: Option<u64>, fetched: Option<u64>) -> &'static str {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["provisioned", "fetched"].map(|name| folder.path().join(name));
    // The clock was at 1970 when the bundle was fetched.
    write(&paths[0], provisioned, SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 50));
    write(&paths[1], fetched, SystemTime::UNIX_EPOCH);
    let files = IdentityFiles { certificate: PathBuf::new(), key: PathBuf::new(), trust_bundles: paths.to_vec() };
    if files.trust_bundle() == Some(&paths[0]) { "provisioned" } else { "fetched" }
}

#[test]
fn uses_the_trust_bundle_with_the_higher_sequence() {
    // TB-05
    assert_eq!(chosen(Some(4), Some(5)), "fetched");
    assert_eq!(chosen(Some(6), Some(5)), "provisioned");
}

#[test]
fn uses_the_newest_of_incomparable_trust_bundles() {
    assert_eq!(chosen(None, Some(5)), "provisioned");
    assert_eq!(chosen(Some(5), Some(5)), "provisioned");
}

#[test]
fn a_device_without_identity_reports_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = AgentConfig { state_dir: folder.path().to_owned(), ..AgentConfig::default() };
    let message = |config: &AgentConfig| waiting_reason(config).unwrap();
    let command = format!("`margrave-agent enroll --state-dir {} --trust-url URL", folder.path().display());
    assert!(message(&config).contains(&command) && message(&config).contains("margrave client enrollment-token"));
    assert!(!message(&AgentConfig::default()).contains("--state-dir"), "the default folder is not mentioned");
    config.trust.token_file = Some(PathBuf::from("/etc/margrave/enrollment-token"));
    let token = "this device has no identity yet: waiting for a token in `/etc/margrave/enrollment-token`, or for";
    assert!(message(&config).starts_with(token), "{}", message(&config));
    config.identity.certificate = Some(folder.path().join("cert.pem"));
    assert!(message(&config).contains("waiting for the certificate"), "{}", message(&config));
    std::fs::write(folder.path().join("cert.pem"), "").unwrap();
    assert_eq!(waiting_reason(&config), None);
}
