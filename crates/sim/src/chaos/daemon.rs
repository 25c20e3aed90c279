//! A program in its own process that can be killed with SIGKILL and restarted.

use anyhow::Context as _;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Log lines shown if a program exits unexpectedly.
const LOG_LINES: usize = 30;

/// A program with a fixed command line; killed when dropped.
pub struct Daemon {
    program: PathBuf,
    arguments: Vec<OsString>,
    log: PathBuf,
    child: Option<Child>,
    pub kills: u32,
}

impl Daemon {
    pub fn new(program: PathBuf, arguments: impl IntoIterator<Item = impl Into<OsString>>, log: &Path) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program, arguments, log: log.to_owned(), child: None, kills: 0 }
    }

    pub fn start(&mut self) -> anyhow::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log).context("open the log")?;
        let also: File = log.try_clone().context("open the log twice")?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(also)
            .spawn()
            .with_context(|| format!("start `{}`", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.must_run()?;
        if let Some(mut child) = self.child.take() {
            child.kill().context("kill")?;
            child.wait().context("wait for the exit")?;
            self.kills += 1;
        }
        Ok(())
    }

    /// Fails if the program has exited unexpectedly.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        if let Some(status) = child.try_wait().context("check whether it runs")? {
            anyhow::bail!("`{}` exited unexpectedly with {status}:\n{}", self.program.display(), self.log_tail());
        }
        Ok(())
    }

    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// The whole log, over all restarts.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Daemon {
    #[expect(clippy::print_stderr, reason = "a failing test shows what its programs said last")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("last log lines of `{}`:\n{}", self.program.display(), self.log_tail());
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
