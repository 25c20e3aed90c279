//! The commands others use to point their own test tools at a server (docs/guides/test-tools.md).

use crate::support::Server;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

#[test]
fn a_minted_identity_is_let_in_and_nobody_without_one() {
    let server = Server::start();
    let folder = server.folder.path().join("identity");
    let minted = server.json(&["client", "mint", "tester", "--out", folder.to_str().unwrap(), "--days", "2"]);
    assert_eq!(minted["spiffeId"], "spiffe://margrave.internal/margo/wfm/main/client/tester");
    assert_eq!(folder.join("key.pem").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for file in ["cert.pem", "bundle.pem"] {
        assert!(
            std::fs::read_to_string(folder.join(file)).unwrap().starts_with("-----BEGIN CERTIFICATE-----"),
            "{file}"
        );
    }
    let url = std::fs::read_to_string(folder.join("wfm-url")).unwrap().trim().to_owned();
    let curl = |arguments: &[&str]| {
        Command::new("curl").current_dir(&folder).args(["-sS", "-k"]).args(arguments).output().unwrap()
    };
    let manifest = format!("{url}/api/v1/deployments");
    let answer = curl(&["--cert", "cert.pem", "--key", "key.pem", &manifest]);
    // DS-02
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout),
        r#"{"bundle":null,"deployments":[],"manifestVersion":1}"#,
        "{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    // GEN-13: without a certificate the handshake fails.
    assert!(!curl(&[&manifest]).status.success());
    assert_eq!(server.run(&["client", "retire", "tester", "--yes"]).code, 0);
    let refused = curl(&["--cert", "cert.pem", "--key", "key.pem", "-o", "/dev/null", "-w", "%{http_code}", &manifest]);
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "403");
}

#[test]
fn an_identity_is_not_overwritten_by_accident() {
    let server = Server::start();
    let folder = server.folder.path().join("identity");
    let folder = folder.to_str().unwrap();
    assert_eq!(server.run(&["client", "mint", "tester", "--out", folder]).code, 0);
    let again = server.run(&["client", "mint", "tester", "--out", folder]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    assert_eq!(server.run(&["client", "mint", "tester", "--out", folder, "--force"]).code, 0);
}

#[test]
fn an_enrolment_token_comes_with_the_command_to_paste() {
    let server = Server::start();
    assert_eq!(server.run(&["client", "accept", "press", "--note", "first"]).code, 0);
    server.run(&["client", "enrol-token", "press"]).check(
        0,
        "printf %s <secret> | margrave-agent enrol --trust-url https://<address> --pin <digest> --token-file /dev/stdin\n",
        "Run this on the device, once, until <time>. The token is shown only here.
margrave-agent comes from the source of Margrave: `make dist` makes a Debian package and a container image,
`cargo build --release -p margrave-agent` the program alone. Then start it with `margrave-agent run`.
It runs applications with `[compose]` or `[kubernetes]` in its configuration; without, it joins, runs none, and
says which lines to add for what the device has.\n",
    );
}

#[test]
fn a_name_in_use_is_invited_again_only_when_somebody_says_so() {
    let server = Server::start();
    let _device = crate::support::Device::start(&server, "press", "8Gi", "");
    let refused = server.run(&["client", "enrol-token", "press"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (6, ""), "{}", refused.stderr);
    for part in
        ["client `press` exists already", "whatever joins with another invitation becomes `press`", "add --again"]
    {
        assert!(refused.stderr.contains(part), "`{part}` in {}", refused.stderr);
    }
    let again = server.run(&["client", "enrol-token", "press", "--again"]);
    assert!(again.code == 0 && again.stdout.contains("margrave-agent enrol"), "{}", again.stderr);

    // At a terminal it asks.
    for (key, said, code) in [("n", "nothing was changed", 1), ("y", "margrave-agent enrol", 0)] {
        let mut terminal = crate::terminal::Terminal::start(&server, &["client", "enrol-token", "press"]);
        terminal.expect("exists already", "");
        terminal.expect("Invite press again?", key);
        terminal.expect(said, "");
        assert_eq!(terminal.end(), code);
    }
}

#[test]
fn the_authorities_can_be_printed_for_others() {
    let server = Server::start();
    for what in ["bundle", "https-ca"] {
        let seen = server.run(&["trust", what]);
        assert_eq!(seen.code, 0);
        assert!(seen.stdout.starts_with("-----BEGIN CERTIFICATE-----"), "{what}");
        assert!(!seen.stdout.contains("PRIVATE"), "{what}");
    }
}
