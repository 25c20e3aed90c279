//! The demo starts, settles, and keeps its state across restarts.

use crate::support::{CommandOutput, margrave};

#[test]
fn the_demo_converges_and_keeps_its_state_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let check = || {
        let demo = margrave(folder.path())
            .args(["demo", "--check", "--devices", "10", "--port", "0", "--timeout", "2m", "--data"])
            .arg(folder.path().join("demo"))
            .output()
            .unwrap();
        CommandOutput::of(demo)
    };
    let first = check();
    assert_eq!((first.code, &*first.stderr), (0, ""), "{}", first.stdout);
    assert!(first.stdout.starts_with("http://<address>: 10 clients, 13 devices, "), "{}", first.stdout);
    assert!(first.stdout.ends_with(" deployments, all as expected\n"), "{}", first.stdout);
    check().check(0, &first.stdout, "");
}

#[test]
fn the_demo_runs_with_simulated_devices_without_a_container_engine() {
    let folder = tempfile::tempdir().unwrap();
    // Like `make demo` on a machine where Docker is installed but not running.
    let demo = margrave(folder.path())
        .args(["demo", "--check", "--devices", "8", "--port", "0", "--timeout", "2m", "--samples", "target/samples"])
        .arg("--data")
        .arg(folder.path().join("demo"))
        .env("DOCKER_HOST", format!("unix://{}", folder.path().join("no-engine.sock").display()))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let seen = CommandOutput::of(demo);
    assert_eq!(seen.code, 0, "{}{}", seen.stdout, seen.stderr);
    assert!(seen.stdout.starts_with("http://<address>: 8 clients, "), "{}", seen.stdout);
}
