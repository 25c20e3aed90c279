//! Nothing of a cluster outlives the process that started it, however that ended.
//!
//! A shell waits for the end of its input, which comes when the test's process is gone, and then ends the programs of
//! the cluster by their ids and removes what they made. Should even the shell be killed, the next cluster on the
//! machine finds the abandoned folder and cleans up first.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Ends what the folder `$FOLDER` names and removes what was made for it. A process counts as ours only while its
/// command line names the folder: its id may have gone to another one.
const CLEAN: &str = r#"
for file in "$FOLDER"/pids/*; do
  id="$(cat "$file" 2>/dev/null)" || continue
  grep -qsF "$FOLDER/" "/proc/$id/cmdline" && kill -9 "$id"
done
tag="$(basename "$FOLDER")"
ip link delete "${tag}n" 2>/dev/null
ip netns delete "$tag" 2>/dev/null
ip link delete "$tag" 2>/dev/null
if [ -f "$FOLDER/kernel" ]; then sysctl -q -p "$FOLDER/kernel" 2>/dev/null; fi
# Processes of pods go with their namespace, and their control groups can go after them.
for try in 1 2 3 4 5 6 7 8 9 10; do
  find /sys/fs/cgroup -depth -type d -path "*/$tag*" -exec rmdir {} + 2>/dev/null
  rm -rf "$FOLDER" 2>/dev/null
  [ -e "$FOLDER" ] || break
  sleep 0.2
done
"#;

/// Kernel settings that a kubelet changes, and that are restored.
const KERNEL: [&str; 4] = ["vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops"];

/// Prefix of a folder that is being created.
const UNFINISHED: &str = ".new-";

pub(super) struct Janitor {
    folder: PathBuf,
    /// Held while the test's process lives.
    _lock: File,
    shell: Mutex<Option<Child>>,
    running: Mutex<HashMap<String, Child>>,
}

/// Where all clusters of this machine have their folders.
fn clusters() -> PathBuf {
    std::env::temp_dir().join("margrave-clusters")
}

/// Cleans up after clusters whose process is gone and whose janitor was killed as well.
pub(super) fn remove_leftovers() {
    for entry in fs::read_dir(clusters()).into_iter().flatten().flatten() {
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        let abandoned = File::open(entry.path().join("lock")).is_ok_and(|lock| lock.try_lock().is_ok());
        if abandoned && !unfinished {
            let _ = Command::new("sh").args(["-c", CLEAN, "clean"]).env("FOLDER", entry.path()).status();
        }
    }
}

impl Janitor {
    pub(super) fn start(tag: &str) -> Self {
        let (started, folder) = (clusters().join(format!("{UNFINISHED}{tag}")), clusters().join(tag));
        for part in ["pids", "log"] {
            fs::create_dir_all(started.join(part)).unwrap();
        }
        let lock = File::create(started.join("lock")).unwrap();
        lock.lock().unwrap();
        // No other process finds it before it is locked.
        fs::rename(&started, &folder).unwrap();
        let kernel = KERNEL.map(|name| {
            let value = fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/")));
            format!("{name}={}", value.unwrap_or_default())
        });
        fs::write(folder.join("kernel"), kernel.concat()).unwrap();
        let shell = Command::new("sh")
            .args(["-c", &format!("read -r _\n{CLEAN}"), "janitor"])
            .env("FOLDER", &folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C must not reach this process; it cleans up after the tests.
            .process_group(0)
            .spawn()
            .unwrap();
        Self { folder, _lock: lock, shell: Mutex::new(Some(shell)), running: Mutex::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program of the cluster, in its folder, with a log of its own.
    pub(super) fn spawn(&self, name: &str, command: &mut Command) {
        let log = File::options().create(true).append(true).open(self.folder.join("log").join(name)).unwrap();
        let child = command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        fs::write(self.folder.join("pids").join(name), child.id().to_string()).unwrap();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(name.to_owned(), child);
    }

    /// Ends a program at this instant.
    pub(super) fn end(&self, name: &str) {
        let child = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(mut child) = child {
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
        }
        let _ = fs::remove_file(self.folder.join("pids").join(name));
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        let shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut shell) = shell {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{ip, make_bridge};

    fn runs(child: &mut Child) -> bool {
        child.try_wait().unwrap().is_none()
    }

    #[test]
    fn removes_only_leftovers_of_a_killed_run() {
        let tag = format!("mkl{:x}", std::process::id());
        let left = clusters().join(&tag);
        fs::create_dir_all(left.join("pids")).unwrap();
        for file in ["lock", "log"] {
            fs::write(left.join(file), "").unwrap();
        }
        make_bridge(&tag, "10.209.255.1");
        assert!(ip(&["netns", "add", &tag]));
        let mut ours = Command::new("tail").arg("-f").arg(left.join("log")).spawn().unwrap();
        let mut another = Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(left.join("pids/ours"), ours.id().to_string()).unwrap();
        // An id that was given to another process since.
        fs::write(left.join("pids/gone"), another.id().to_string()).unwrap();
        let living = Janitor::start(&format!("mkm{:x}", std::process::id()));
        remove_leftovers();
        assert!(!left.exists());
        assert!(!ip(&["link", "show", &tag]) && !Path::new("/run/netns").join(&tag).exists());
        ours.wait().unwrap();
        assert!(runs(&mut another), "its command line does not name the folder");
        another.kill().unwrap();
        another.wait().unwrap();
        assert!(living.folder().exists(), "its process is alive");
        let folder = living.folder().to_owned();
        drop(living);
        assert!(!folder.exists());
    }
}
