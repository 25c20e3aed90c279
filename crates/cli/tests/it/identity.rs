//! The commands for running external test tools against a server (docs/guides/test-tools.md).

use crate::support::Server;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

#[test]
fn accepts_a_minted_identity_and_rejects_requests_without_one() {
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
    assert_eq!(server.run(&["client", "decommission", "tester", "--yes"]).code, 0);
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
fn prints_the_agent_command_with_an_enrollment_token() {
    let server = Server::start();
    assert_eq!(server.run(&["client", "accept", "press", "--note", "first"]).code, 0);
    server.run(&["client", "enrollment-token", "press"]).check(
        0,
        "printf %s <secret> | margrave-agent enroll --trust-url https://<address> --pin <digest> --token-file /dev/stdin\n",
        "Run this command once on the device before <time>. The token is shown only once.
Build margrave-agent from the Margrave source: `make dist` builds a Debian package and a container image,
`cargo build --release -p margrave-agent` builds only the program. Start it with `margrave-agent run`.
To run applications, its configuration needs `[compose]` or `[kubernetes]`; without them it enrolls, runs no
applications, and prints the lines to add for the runtimes of the device.\n",
    );
}

#[test]
fn requires_confirmation_to_create_a_token_for_an_existing_client() {
    let server = Server::start();
    let _device = crate::support::Device::start(&server, "press", "8Gi", "");
    let refused = server.run(&["client", "enrollment-token", "press"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (6, ""), "{}", refused.stderr);
    for part in
        ["client `press` already exists", "a device enrolled with another token replaces `press`", "add --again"]
    {
        assert!(refused.stderr.contains(part), "`{part}` in {}", refused.stderr);
    }
    let again = server.run(&["client", "enrollment-token", "press", "--again"]);
    assert!(again.code == 0 && again.stdout.contains("margrave-agent enroll"), "{}", again.stderr);

    // At a terminal it prompts.
    for (key, said, code) in [("n", "nothing was changed", 1), ("y", "margrave-agent enroll", 0)] {
        let mut terminal = crate::terminal::Terminal::start(&server, &["client", "enrollment-token", "press"]);
        terminal.expect("already exists", "");
        terminal.expect("Create another token for press?", key);
        terminal.expect(said, "");
        assert_eq!(terminal.end(), code);
    }
}

#[test]
fn prints_the_certificate_authorities() {
    let server = Server::start();
    for what in ["bundle", "https-ca"] {
        let seen = server.run(&["trust", what]);
        assert_eq!(seen.code, 0);
        assert!(seen.stdout.starts_with("-----BEGIN CERTIFICATE-----"), "{what}");
        assert!(!seen.stdout.contains("PRIVATE"), "{what}");
    }
}
