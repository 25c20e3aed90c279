//! The trace of a run as lines and as one hash: the same seed must give the same hash.

use margo::Digest;
use std::collections::VecDeque;

/// Lines kept for a failure report; the hash covers all lines.
const LINES_KEPT: usize = 400;

#[derive(Debug)]
pub(crate) struct Trace {
    hash: Digest,
    lines: VecDeque<String>,
    pub(crate) count: u64,
    print: bool,
}

impl Trace {
    pub(crate) fn new(print: bool) -> Self {
        Self { hash: Digest::of(b""), lines: VecDeque::new(), count: 0, print }
    }

    #[expect(clippy::print_stderr, reason = "output requested to replay a seed")]
    pub(crate) fn note(&mut self, line: String) {
        self.hash = Digest::of(format!("{}{line}", self.hash).as_bytes());
        self.count += 1;
        if self.print {
            eprintln!("{line}");
        }
        if self.lines.len() == LINES_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn hash(&self) -> Digest {
        self.hash.clone()
    }

    pub(crate) fn tail(&self, lines: usize) -> Vec<String> {
        self.lines.iter().skip(self.lines.len().saturating_sub(lines)).cloned().collect()
    }
}
