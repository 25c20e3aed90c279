//! Two counters in a file, which show whether the data volume was kept.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How often the program was started, and how often it was asked to count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) starts: u64,
    pub(crate) parts: u64,
}

#[derive(Debug)]
pub(crate) struct Counter {
    folder: Option<PathBuf>,
    counts: Mutex<Counts>,
}

impl Counter {
    /// Continues from the counters in the folder, and counts this start.
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<Self, String> {
        let counts = match &folder {
            Some(folder) => {
                let what = |error| format!("read the counters in {}: {error}", folder.display());
                std::fs::create_dir_all(folder).map_err(what)?;
                read(folder)?
            }
            None => Counts::default(),
        };
        let counter = Self { folder, counts: Mutex::new(counts) };
        counter.change(|counts| counts.starts += 1)?;
        Ok(counter)
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> Result<Counts, String> {
        self.change(|counts| counts.parts += 1)
    }

    /// Counts are returned only after they are written: a kill loses no reported count.
    fn change(&self, change: impl FnOnce(&mut Counts)) -> Result<Counts, String> {
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut next = *counts;
        change(&mut next);
        if let Some(folder) = &self.folder {
            write(folder, next).map_err(|error| format!("write the counters in {}: {error}", folder.display()))?;
        }
        *counts = next;
        Ok(next)
    }
}

fn read(folder: &Path) -> Result<Counts, String> {
    let path = folder.join("counts");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Counts::default()),
        Err(error) => return Err(format!("read {}: {error}", path.display())),
    };
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(starts)), Some(Ok(parts))) => Ok(Counts { starts, parts }),
        _ => Err(format!("{} is damaged; remove it to start at zero", path.display())),
    }
}

fn write(folder: &Path, counts: Counts) -> std::io::Result<()> {
    let fresh = folder.join("counts.new");
    let mut file = File::create(&fresh)?;
    writeln!(file, "{} {}", counts.starts, counts.parts)?;
    file.sync_all()?;
    std::fs::rename(fresh, folder.join("counts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continues_counting_after_a_restart() {
        let folder = std::env::temp_dir().join(format!("sample-program-{}", std::process::id()));
        let first = Counter::open(Some(folder.clone())).expect("opens");
        first.count().expect("counts");
        drop(first);
        let second = Counter::open(Some(folder.clone())).expect("opens again");
        assert_eq!(second.counts(), Counts { starts: 2, parts: 1 });
        std::fs::write(folder.join("counts"), "?").expect("write");
        assert!(Counter::open(Some(folder.clone())).is_err_and(|problem| problem.contains("damaged")));
        std::fs::remove_dir_all(folder).expect("clean up");
    }
}
