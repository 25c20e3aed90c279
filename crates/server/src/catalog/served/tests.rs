use super::*;

#[test]
fn names_for_examples_are_known_and_others_are_not_taken_for_them() {
    for host in ["registry.example", "registry.margrave.example:5000", "x.invalid", "example"] {
        assert!(is_reserved(host), "{host}");
    }
    for host in ["registry.example.com", "example.plant", "127.0.0.1:5000", "localhost", "docker.io"] {
        assert!(!is_reserved(host), "{host}");
    }
}

#[tokio::test]
async fn where_secrets_are_kept_nobody_knocks() {
    for host in [
        "169.254.169.254",
        "169.254.170.2:80",
        "[fe80::1]:443",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "100.100.100.200",
    ] {
        let refused = reach(host, &Connection::default()).await.unwrap_err();
        assert!(refused.contains("does not ask there"), "{host}: {refused}");
    }
    for host in ["127.0.0.1:5000", "[::1]:5000", "10.0.0.7", "192.168.1.5:5000"] {
        assert!(reach(host, &Connection::default()).await.is_ok(), "{host}");
    }
}

#[test]
fn causes_are_told_in_a_few_words() {
    for (chain, expected) in [
        ("registry `x` cannot be reached: tcp connect error: Connection refused (os error 111)", "connection refused"),
        ("failed to lookup address information: Name or service not known", "name or service not known"),
        ("a: invalid peer certificate: UnknownIssuer", "invalid peer certificate: UnknownIssuer"),
    ] {
        assert_eq!(innermost(chain), expected);
    }
}

#[test]
fn answers_are_bounded_and_the_newest_counts() {
    let served = Served::default();
    let asked = |artifacts| Asked { at: Timestamp(0), artifacts, problems: Vec::new() };
    for number in 0..=ANSWERS_MAX {
        served.keep(Digest::of(number.to_string().as_bytes()), asked(number));
    }
    let (first, last) = (Digest::of(b"0"), Digest::of(ANSWERS_MAX.to_string().as_bytes()));
    assert_eq!(served.get(&first), None);
    served.keep(last.clone(), asked(7));
    assert_eq!(served.get(&last), Some(asked(7)));
    assert_eq!(served.0.lock().answers.len(), ANSWERS_MAX);
}

#[test]
fn a_registry_that_was_silent_is_not_waited_for_again_at_once() {
    let served = Served::default();
    let now = Timestamp(1_000_000_000);
    served.note_silent("registry.plant", "connection refused", now);
    assert_eq!(served.silent("registry.plant", now.plus(SILENT_FOR / 2)).as_deref(), Some("connection refused"));
    assert_eq!(served.silent("registry.plant", now.plus(SILENT_FOR)), None);
    assert_eq!(served.silent("other.plant", now), None);
}
