use super::*;

fn saved() -> Saved {
    Saved { url: "https://one.example".into(), token: "saved-token".into(), ca: Some("saved-ca".into()) }
}

#[test]
fn a_saved_token_is_never_sent_to_another_server() {
    let args = ConnectionArgs { url: Some("https://two.example".into()), ..ConnectionArgs::default() };
    let failure = resolve(&args, &Environment::default(), Some(saved())).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(failure.what.contains("no token for https://two.example"));
}

#[test]
fn the_saved_login_is_used_when_nothing_else_is_given() {
    let target = resolve(&ConnectionArgs::default(), &Environment::default(), Some(saved())).unwrap();
    assert_eq!(
        target,
        Target { url: "https://one.example".into(), token: "saved-token".into(), ca_pem: Some("saved-ca".into()) }
    );
}

#[test]
fn ignores_a_trailing_slash_when_comparing_servers() {
    let args = ConnectionArgs { url: Some("https://one.example/".into()), ..ConnectionArgs::default() };
    let target = resolve(&args, &Environment::default(), Some(saved())).unwrap();
    assert_eq!(target.token, "saved-token");
}

#[test]
fn flags_override_the_environment_and_both_override_the_saved_login() {
    let environment = Environment {
        url: Some("https://env.example".into()),
        token: Some(" env-token\n".into()),
        ..Environment::default()
    };
    let target = resolve(&ConnectionArgs::default(), &environment, Some(saved())).unwrap();
    assert_eq!((target.url.as_str(), target.token.as_str()), ("https://env.example", "env-token"));
    let args = ConnectionArgs { url: Some("https://flag.example".into()), ..ConnectionArgs::default() };
    let target = resolve(&args, &environment, Some(saved())).unwrap();
    assert_eq!((target.url.as_str(), target.token.as_str()), ("https://flag.example", "env-token"));
}

#[test]
fn an_unused_data_folder_suggests_how_to_start_a_server() {
    let args = ConnectionArgs { data: Some("/nonexistent/fleet".into()), ..ConnectionArgs::default() };
    let failure = resolve(&args, &Environment::default(), None).unwrap_err();
    assert!(failure.next.unwrap().contains("margrave serve --data /nonexistent/fleet"));
}

#[test]
fn suggests_login_without_a_server() {
    let failure = resolve(&ConnectionArgs::default(), &Environment::default(), None).unwrap_err();
    assert!(failure.next.unwrap().contains("margrave login"));
}

#[test]
fn a_server_on_all_addresses_is_reached_over_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = r#"{"devices":null,"trust":null,"operators":"0.0.0.0:9090","urls":{"devices":"","trust":"","operators":"https://fleet.example:9090"}}"#;
    std::fs::write(folder.path().join("addresses.json"), addresses).unwrap();
    std::fs::write(folder.path().join("admin-token"), "secret\n").unwrap();
    std::fs::create_dir(folder.path().join("trust")).unwrap();
    let pem = "-----BEGIN PRIVATE KEY-----\nk\n-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nc\n-----END CERTIFICATE-----\n";
    std::fs::write(folder.path().join("trust/https-ca.pem"), pem).unwrap();
    let args = ConnectionArgs { data: Some(folder.path().to_owned()), ..ConnectionArgs::default() };
    let target = resolve(&args, &Environment::default(), None).unwrap();
    let ca = "-----BEGIN CERTIFICATE-----\nc\n-----END CERTIFICATE-----\n";
    assert_eq!(
        target,
        Target { url: "https://127.0.0.1:9090".into(), token: "secret".into(), ca_pem: Some(ca.into()) }
    );
}

#[test]
fn no_token_is_shown_by_debug() {
    let target = resolve(&ConnectionArgs::default(), &Environment::default(), Some(saved())).unwrap();
    let environment = Environment { token: Some("env-token".into()), ..Environment::default() };
    let shown = format!("{:?} {target:?} {environment:?}", saved());
    assert!(shown.contains("https://one.example"), "{shown}");
    assert!(!shown.contains("saved-token") && !shown.contains("env-token"), "{shown}");
}

#[test]
fn a_data_folder_without_a_token_asks_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let args = ConnectionArgs { data: Some(folder.path().to_owned()), ..ConnectionArgs::default() };
    let failure = resolve(&args, &Environment::default(), None).unwrap_err();
    assert!(failure.next.unwrap().starts_with("start the server: "), "nothing runs there");
    std::fs::write(folder.path().join("addresses.json"), "{}").unwrap();
    let failure = resolve(&args, &Environment::default(), None).unwrap_err();
    assert!(failure.next.unwrap().starts_with("add --token-file FILE"), "{}", failure.what);
}
