//! A server under test: its own process on its own processor, with its resource usage.

use anyhow::Context as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a program to exit after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Clock ticks per second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Assignment of processors. With a single processor, nothing is pinned.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    pub server: Option<usize>,
    pub generator: Option<usize>,
}

impl Cores {
    /// Assigns the processors available to this process.
    pub fn detect() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
        match cpu_list(list)[..] {
            [server, generator, ..] => Self { server: Some(server), generator: Some(generator) },
            _ => Self { server: None, generator: None },
        }
    }
}

/// `0-2,5` as numbers.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Moves this whole process to one processor until dropped.
pub struct Pinned(String);

impl Pinned {
    pub fn to(core: Option<usize>) -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let before = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
        if let Some(core) = core {
            move_self(&core.to_string())?;
        }
        Ok(Self(before.trim().to_owned()))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = move_self(&self.0);
    }
}

fn move_self(cores: &str) -> anyhow::Result<()> {
    let own = std::process::id().to_string();
    let moved = Command::new("taskset").args(["-a", "-c", "-p", cores, &own]).stdout(Stdio::null()).status();
    anyhow::ensure!(moved.context("run `taskset`")?.success(), "`taskset` could not move this process to {cores}");
    Ok(())
}

/// A child process; ends when dropped, and with this program even if that is killed.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `command` on one processor, its output going to `log`.
    pub fn start(name: &str, command: &Command, core: Option<usize>, log: &Path) -> anyhow::Result<Self> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).context("open a log")?;
        // `setpriv` and `taskset` exec the program, so that the process id stays the same.
        let mut whole = Command::new("setpriv");
        whole.args(["--pdeathsig", "TERM"]);
        if let Some(core) = core {
            whole.args(["taskset", "-c", &core.to_string()]);
        }
        whole.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => whole.env(key, value),
                None => whole.env_remove(key),
            };
        }
        let also = log.try_clone().context("open a log twice")?;
        let child = whole.stdin(Stdio::null()).stdout(log).stderr(also).spawn();
        let child = child.with_context(|| format!("start {name} through `setpriv` and `taskset` (util-linux)"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if it has exited unexpectedly.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().context("check whether it runs")? {
            Some(status) => anyhow::bail!("{} exited unexpectedly with {status}", self.name),
            None => Ok(()),
        }
    }

    /// The worker processes: its children if any (nginx), otherwise itself.
    fn workers(&self) -> Vec<u32> {
        let own = self.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let children: Vec<u32> = children.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        if children.is_empty() { vec![own] } else { children }
    }

    /// Processor time so far, user and system.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.workers().into_iter().map(cpu_seconds).sum()
    }

    /// Processor time of this process without child processes.
    pub fn own_cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu_seconds(self.id())
    }

    /// Processor time of all running threads in nanoseconds.
    pub fn cpu_nanos(&self) -> anyhow::Result<u64> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.id())).context("list the threads")? {
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            nanos += text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(nanos)
    }

    /// Bytes written to disk.
    pub fn written_bytes(&self) -> anyhow::Result<u64> {
        self.field("io", "write_bytes:")
    }

    /// Resident memory.
    pub fn rss_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.field("status", "VmRSS:")? * 1024)
    }

    /// Resident memory with proportional shared memory.
    pub fn pss_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.field("smaps_rollup", "Pss:")? * 1024)
    }

    fn field(&self, file: &str, name: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/{file}", self.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("read `{path}`"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("`{path}` has no `{name}`"))
    }

    /// Sends SIGTERM and waits; kills it after the time limit.
    pub fn stop(&mut self) {
        if let Some(id) = rustix::process::Pid::from_raw(self.id() as i32)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > END_WITHIN {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).context("the server has ended")?;
    cpu_ticks(&text).map(|ticks| ticks / TICKS).context("read /proc")
}

/// The name in parentheses may contain blanks; the fields start after it.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::{cpu_list, cpu_ticks};

    #[test]
    fn reads_lists_of_processors() {
        assert_eq!(cpu_list("\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("3"), [3]);
        assert!(cpu_list("").is_empty());
    }

    #[test]
    fn parses_ticks_after_a_name_with_parentheses() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 25 17 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some(42.0));
        assert_eq!(cpu_ticks("7"), None);
    }
}
