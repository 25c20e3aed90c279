//! Bridges and namespaces of the test's own.

use std::process::{Command, Stdio};

/// Runs `ip`; returns whether it succeeded.
pub(crate) fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// A bridge with an address in a network of 256.
pub(crate) fn make_bridge(name: &str, address: &str) {
    assert!(
        ip(&["link", "add", name, "type", "bridge"]),
        "cannot create a bridge: tests with real engines run as root"
    );
    assert!(ip(&["address", "add", &format!("{address}/24"), "dev", name]));
    assert!(ip(&["link", "set", name, "up"]));
}
