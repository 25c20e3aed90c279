//! The demo starts, does what it shows, and finds its state again.

use crate::support::{Seen, margrave};

#[test]
fn the_demo_converges_and_a_second_start_finds_the_same_state() {
    let folder = tempfile::tempdir().unwrap();
    let check = || {
        let demo = margrave(folder.path())
            .args(["demo", "--check", "--devices", "10", "--port", "0", "--timeout", "2m", "--data"])
            .arg(folder.path().join("demo"))
            .output()
            .unwrap();
        Seen::of(demo)
    };
    let first = check();
    assert_eq!((first.code, &*first.stderr), (0, ""), "{}", first.stdout);
    assert!(first.stdout.starts_with("http://<address>: 10 clients, 13 devices, "), "{}", first.stdout);
    assert!(first.stdout.ends_with(" deployments, all as expected\n"), "{}", first.stdout);
    check().check(0, &first.stdout, "");
}

#[test]
fn where_no_engine_answers_the_demo_goes_on_with_its_simulated_devices() {
    let folder = tempfile::tempdir().unwrap();
    // As `make demo` calls it, on a machine whose Docker is installed and not running.
    let demo = margrave(folder.path())
        .args(["demo", "--check", "--devices", "8", "--port", "0", "--timeout", "2m", "--samples", "target/samples"])
        .arg("--data")
        .arg(folder.path().join("demo"))
        .env("DOCKER_HOST", format!("unix://{}", folder.path().join("no-engine.sock").display()))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let seen = Seen::of(demo);
    assert_eq!(seen.code, 0, "{}{}", seen.stdout, seen.stderr);
    assert!(seen.stdout.starts_with("http://<address>: 8 clients, "), "{}", seen.stdout);
}
