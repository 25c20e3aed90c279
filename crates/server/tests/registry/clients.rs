//! Common clients: skopeo, oras, helm, and a Docker engine.

pub(crate) mod docker;
mod helm;
mod oras;
pub(crate) mod skopeo;

use crate::support::{Fixture, TOKEN};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Enough for every client here, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program of the machine or the cache.
pub(crate) fn tool(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cached = cache.map(|cache| cache.join("margrave/tools/bin").join(name));
    let on_path = std::env::var_os("PATH");
    let on_path = on_path.iter().flat_map(std::env::split_paths).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = cached.into_iter().chain(on_path.map(|folder| folder.join(name))).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("`{name}` is missing: run scripts/tools.sh"))
}

/// The output of a program and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Ran {
    content: bool,
    output: String,
    errors: String,
}

impl Ran {
    pub(crate) fn ok(self) -> String {
        assert!(self.content, "{}\n{}", self.output, self.errors);
        self.output
    }
    pub(crate) fn refused(self) -> String {
        assert!(!self.content, "it should have failed: {}", self.output);
        self.errors + &self.output
    }
}

/// Runs a program with its own home folder, so that it neither finds nor leaves anything on the machine.
pub(crate) async fn run_in(home: &Path, name: &str, arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(tool(name))
        .args(arguments)
        .current_dir(home)
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("DOCKER_CONFIG", home.join("docker"))
        .env("REGISTRY_AUTH_FILE", home.join("auth.json"))
        .env_remove("DOCKER_HOST")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_DATA_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that does not read its input closes it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let done = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let done = done.unwrap_or_else(|_| panic!("`{name} {}` took too long", arguments.join(" "))).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { content: done.status.success(), output: text(&done.stdout), errors: text(&done.stderr) }
}

/// Runs a program next to a registry.
async fn run(fixture: &Fixture, name: &str, arguments: &[&str], input: &str) -> Ran {
    run_in(&fixture.scratch(), name, arguments, input).await
}

/// `user:password` of an operator.
fn operator() -> String {
    operator_with(TOKEN)
}

pub(crate) fn operator_with(token: &str) -> String {
    format!("token:{token}")
}
