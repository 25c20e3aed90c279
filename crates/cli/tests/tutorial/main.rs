//! Follows docs/guides/tutorial.md with a real Docker engine: every `sh` block of it is run as it is.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use margrave_testbed::{Docker, tool};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The blocks that a reader types, in order.
fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("\n```sh\n").skip(1);
    parts.map(|part| part.split("\n```").next().unwrap().to_owned()).collect()
}

/// `make demo`, with an engine of the test's own and a small fleet.
struct Demo {
    child: Child,
    /// Held, so that it can go on speaking.
    _words: BufReader<ChildStderr>,
}

impl Demo {
    fn start(folder: &Path, docker: &Docker) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_margrave"))
            .args(["demo", "--devices", "8", "--port", "0", "--data", "demo-data", "--samples", "target/samples"])
            .current_dir(folder)
            .env("DOCKER_HOST", format!("unix://{}", docker.socket().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("\nCtrl-C stops everything") {
            let more = words.read_line(&mut told).unwrap();
            assert!(more > 0, "the demo ended: {told}");
        }
        assert!(told.contains("this machine is a device as well"), "Docker was not found:\n{told}");
        Self { child, _words: words }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_tutorial_deploys_a_sample_and_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path();
    // The reader's folder: programs and samples where `make demo` puts them.
    std::fs::create_dir_all(work.join("target/debug")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_margrave"), work.join("target/debug/margrave")).unwrap();
    let built = Command::new(root().join("scripts/samples.sh")).arg("build").arg(work.join("target/samples")).output();
    let built = built.unwrap();
    assert!(built.status.success(), "samples.sh: {}", String::from_utf8_lossy(&built.stderr));
    let docker = Docker::start().await;
    let _demo = Demo::start(work, &docker);

    let text = std::fs::read_to_string(root().join("docs/guides/tutorial.md")).unwrap();
    let blocks = blocks(&text);
    assert!(blocks.len() >= 6, "the tutorial has only {} blocks", blocks.len());
    let script = format!("set -euo pipefail\nset -x\n{}\n", blocks.join("\n"));
    let path = format!("{}:{}", tool("docker").parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(work)
        .env("PATH", path)
        .env("DOCKER_HOST", format!("unix://{}", docker.socket().display()))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "the tutorial does not work:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
