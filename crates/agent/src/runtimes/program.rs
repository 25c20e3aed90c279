//! Runs programs (docker, helm) with a deadline and bounded output; nothing keeps running after a drop.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// Limit for standard output: lists of containers and rendered charts are far smaller.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// How much of the end of standard error is kept.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// How much of it a failure quotes: the last lines have the reason.
const QUOTED_CHARS_MAX: usize = 600;

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("`{name}` cannot be started: {source}; install it, or configure it in the agent's settings")]
    Start {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error("`{name}` did not finish within {} s", after.as_secs())]
    Deadline { name: String, after: Duration },
    #[error("`{name}` printed more than {OUTPUT_BYTES_MAX} bytes")]
    TooMuch { name: String },
    #[error("the output of `{name}` could not be read: {source}")]
    Follow {
        name: String,
        #[source]
        source: std::io::Error,
    },
}

/// One call of a program. The environment contains only `PATH` and the added variables.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    input: Option<Vec<u8>>,
    deadline: Duration,
}

#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Only its end, if it is long.
    pub stderr: String,
}

impl Output {
    /// The last lines of standard error, in one line.
    pub fn complaint(&self) -> String {
        let text: Vec<&str> = self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let text = text.join("; ");
        let skip = text.chars().count().saturating_sub(QUOTED_CHARS_MAX);
        let text: String = text.chars().skip(skip).collect();
        if text.is_empty() { format!("it exited with {}", self.status) } else { text }
    }
}

impl Program {
    pub fn new(path: impl AsRef<Path>, deadline: Duration) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            input: None,
            deadline,
        }
    }

    #[must_use]
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn arguments<I: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = I>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Standard input: for secrets that a program accepts in no other way.
    #[must_use]
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self
    }

    fn name(&self) -> String {
        // Without arguments: they may be long, and may contain parameter values.
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Starts it with its output to be read line by line.
    pub fn follow(&self) -> Result<Running, ProgramError> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Programs start others (`docker` its plugins): the whole process group is killed.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let child = command.spawn().map_err(|source| ProgramError::Start { name: self.name(), source })?;
        Ok(Running(child))
    }

    /// Runs it to its end.
    pub async fn run(&self) -> Result<Output, ProgramError> {
        let mut running = self.follow()?;
        let name = self.name();
        let failed = |source| ProgramError::Follow { name: name.clone(), source };
        let (stdin, stdout, stderr) = (running.0.stdin.take(), running.0.stdout.take(), running.0.stderr.take());
        let input = self.input.clone().unwrap_or_default();
        let give = async move {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input reports it by its status.
                let _ = stdin.write_all(&input).await;
            }
        };
        let work = async {
            let (stdout, stderr, ()) = tokio::join!(read(stdout, OUTPUT_BYTES_MAX), read_end(stderr), give);
            let status = running.0.wait().await.map_err(failed)?;
            let stdout = stdout.map_err(failed)?.ok_or_else(|| ProgramError::TooMuch { name: name.clone() })?;
            let stderr = stderr.map_err(failed)?;
            Ok(Output { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
        };
        match tokio::time::timeout(self.deadline, work).await {
            Ok(result) => result,
            Err(_) => Err(ProgramError::Deadline { name: self.name(), after: self.deadline }),
        }
    }
}

/// A running program; dropping this value kills it and its children.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Still running only if it was not awaited.
        let group = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// The whole output; `None` if it exceeds `max`.
async fn read(from: Option<impl AsyncRead + Unpin>, max: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let Some(from) = from else { return Ok(Some(bytes)) };
    from.take(max as u64 + 1).read_to_end(&mut bytes).await?;
    Ok((bytes.len() <= max).then_some(bytes))
}

/// The end of the output.
async fn read_end(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return Ok(kept) };
    let mut buffer = vec![0; 8 << 10];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&buffer[..count]);
        if kept.len() > 2 * ERROR_BYTES_MAX {
            kept.drain(..kept.len() - ERROR_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Program {
        Program::new("sh", Duration::from_secs(20)).argument("-c").argument(text)
    }

    #[tokio::test]
    async fn passes_output_input_and_status() {
        let output = shell("cat; echo no >&2; exit 3").input(b"yes".to_vec()).run().await.unwrap();
        assert_eq!((output.stdout.as_slice(), output.status.code()), (b"yes".as_slice(), Some(3)));
        assert_eq!(output.complaint(), "no");
    }

    #[tokio::test]
    async fn does_not_pass_the_agent_environment() {
        let output = shell("echo $HOME-$ANSWER").variable("ANSWER", "42").run().await.unwrap();
        assert_eq!(output.stdout, b"-42\n");
    }

    #[tokio::test]
    async fn kills_a_late_program_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let text = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let mut program = shell(&text);
        program.deadline = Duration::from_millis(500);
        assert!(matches!(program.run().await, Err(ProgramError::Deadline { .. })));
        let pid = std::fs::read_to_string(&file).unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let start = tokio::time::Instant::now();
        while !gone() {
            assert!(start.elapsed() < Duration::from_secs(10), "the child of the program still runs");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn names_a_missing_program() {
        let error = Program::new("/no/such/program", Duration::from_secs(1)).run().await.unwrap_err();
        assert!(error.to_string().starts_with("`program` cannot be started"), "{error}");
    }
}
