use super::*;

#[test]
fn recognizes_example_domains() {
    for host in ["registry.example", "registry.margrave.example:5000", "x.invalid", "example"] {
        assert!(is_reserved(host), "{host}");
    }
    for host in ["registry.example.com", "example.plant", "127.0.0.1:5000", "localhost", "docker.io"] {
        assert!(!is_reserved(host), "{host}");
    }
}

#[tokio::test]
async fn never_contacts_metadata_addresses() {
    for host in [
        "169.254.169.254",
        "169.254.170.2:80",
        "[fe80::1]:443",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "100.100.100.200",
    ] {
        let refused = connect(host, &Connection::default()).await.unwrap_err();
        assert!(refused.contains("does not connect to it"), "{host}: {refused}");
    }
    for host in ["127.0.0.1:5000", "[::1]:5000", "10.0.0.7", "192.168.1.5:5000"] {
        assert!(connect(host, &Connection::default()).await.is_ok(), "{host}");
    }
}

#[test]
fn shortens_error_chains() {
    for (chain, expected) in [
        ("registry `x` cannot be reached: tcp connect error: Connection refused (os error 111)", "connection refused"),
        ("failed to lookup address information: Name or service not known", "name or service not known"),
        ("a: invalid peer certificate: UnknownIssuer", "invalid peer certificate: UnknownIssuer"),
    ] {
        assert_eq!(innermost(chain), expected);
    }
}

#[test]
fn bounds_results_and_keeps_the_newest() {
    let served = RegistryChecks::default();
    let result = |artifacts| CheckResult { at: Timestamp(0), artifacts, problems: Vec::new() };
    for number in 0..=ANSWERS_MAX {
        served.keep(Digest::of(number.to_string().as_bytes()), result(number));
    }
    let (first, last) = (Digest::of(b"0"), Digest::of(ANSWERS_MAX.to_string().as_bytes()));
    assert_eq!(served.get(&first), None);
    served.keep(last.clone(), result(7));
    assert_eq!(served.get(&last), Some(result(7)));
    assert_eq!(served.0.lock().results.len(), ANSWERS_MAX);
}

#[test]
fn skips_an_unresponsive_registry_for_a_while() {
    let served = RegistryChecks::default();
    let now = Timestamp(1_000_000_000);
    served.note_unresponsive("registry.plant", "connection refused", now);
    assert_eq!(
        served.unresponsive("registry.plant", now.plus(UNRESPONSIVE_FOR / 2)).as_deref(),
        Some("connection refused")
    );
    assert_eq!(served.unresponsive("registry.plant", now.plus(UNRESPONSIVE_FOR)), None);
    assert_eq!(served.unresponsive("other.plant", now), None);
}
