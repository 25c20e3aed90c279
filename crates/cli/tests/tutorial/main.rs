//! Follows docs/guides/tutorial.md with a real Docker engine and a real cluster: runs every `sh` block unchanged.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use margrave_testbed::{Cluster, Docker, tool};
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// Start of the second part.
const ON_KUBERNETES: &str = "\n## On Kubernetes\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The first part and the second.
fn parts() -> (String, String) {
    let text = std::fs::read_to_string(root().join("docs/guides/tutorial.md")).unwrap();
    let (first, second) = text.split_once(ON_KUBERNETES).unwrap();
    (first.to_owned(), second.to_owned())
}

/// The commands of the reader, in order.
fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("\n```sh\n").skip(1);
    parts.map(|part| part.split("\n```").next().unwrap().to_owned()).collect()
}

/// The reader's folder, with programs and samples where `make demo` puts them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path();
    let programs = work.join("target/debug");
    std::fs::create_dir_all(&programs).unwrap();
    let margrave = Path::new(env!("CARGO_BIN_EXE_margrave"));
    std::os::unix::fs::symlink(margrave, programs.join("margrave")).unwrap();
    std::os::unix::fs::symlink(agent(margrave), programs.join("margrave-agent")).unwrap();
    let built = Command::new(root().join("scripts/samples.sh")).arg("build").arg(work.join("target/samples")).output();
    let built = built.unwrap();
    assert!(built.status.success(), "samples.sh: {}", String::from_utf8_lossy(&built.stderr));
    folder
}

/// The agent next to `margrave`; a run of all tests builds it.
fn agent(margrave: &Path) -> PathBuf {
    let agent = margrave.with_file_name("margrave-agent");
    if !agent.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--locked", "--workspace", "--bin", "margrave-agent"]).current_dir(root());
        assert!(build.status().unwrap().success(), "the agent cannot be built");
    }
    agent
}

/// `make demo`, with a small fleet.
struct Demo {
    child: Child,
    /// Kept open, so that the demo can continue writing.
    _words: BufReader<ChildStderr>,
}

impl Demo {
    fn start(folder: &Path, engine: &Path) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_margrave"))
            .args(["demo", "--devices", "8", "--port", "0", "--data", "demo-data", "--samples", "target/samples"])
            .current_dir(folder)
            .env("DOCKER_HOST", format!("unix://{}", engine.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut output = String::new();
        while !output.contains("\nCtrl-C stops everything") {
            let more = words.read_line(&mut output).unwrap();
            assert!(more > 0, "the demo ended: {output}");
        }
        (Self { child, _words: words }, output)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Runs a script in a shell with `program` in its PATH.
fn follow(work: &Path, program: &str, script: &str, environment: &[(&str, &OsStr)]) {
    // Background jobs left after a failed line would keep the output open and block the test.
    let script = format!("set -euo pipefail\nset -x\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{script}\n");
    let path = format!("{}:{}", tool(program).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(work).env("PATH", path).envs(environment.iter().copied());
    let output = shell.output().unwrap();
    assert!(
        output.status.success(),
        "the tutorial does not work:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn the_tutorial_deploys_a_sample_and_opens_it() {
    let folder = folder();
    let docker = Docker::start().await;
    let (_demo, output) = Demo::start(folder.path(), &docker.socket());
    assert!(output.contains("this machine is a device too"), "Docker was not found:\n{output}");
    let blocks = blocks(&parts().0);
    assert!(blocks.len() >= 6, "the tutorial has only {} blocks", blocks.len());
    let host = format!("unix://{}", docker.socket().display());
    follow(folder.path(), "docker", &blocks.join("\n"), &[("DOCKER_HOST", host.as_ref())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_part_runs_manifests_on_a_cluster_without_docker() {
    let folder = folder();
    let cluster = Cluster::start().await;
    cluster.load_archive(&folder.path().join("target/samples/images/shift-board-1.0.0.tar"));
    let (_demo, output) = Demo::start(folder.path(), &folder.path().join("no-engine.sock"));
    assert!(!output.contains("this machine is a device too"), "{output}");
    let (first, second) = parts();
    let margrave = blocks(&first).remove(0);
    let margrave = margrave.lines().find(|line| line.starts_with("margrave()")).unwrap().to_owned();
    let blocks = blocks(&second);
    assert!(blocks.len() >= 6, "the second part has only {} blocks", blocks.len());
    let script = format!("{margrave}\n{}", blocks.join("\n"));
    let kubeconfig = cluster.kubeconfig();
    let home = folder.path().join("home");
    follow(folder.path(), "kubectl", &script, &[("KUBECONFIG", kubeconfig.as_os_str()), ("HOME", home.as_os_str())]);
}
