//! How what was seen is shown: drawn over at a terminal, one block after the other in a pipe.

use crate::output::{Captured, Format, Output};
use std::io::Write as _;

/// To the upper left corner, and away with everything below.
const HOME: &str = "\x1b[H";
const REST_AWAY: &str = "\x1b[J";
const LINE_AWAY: &str = "\x1b[K\n";
/// A screen of its own, so that what was there before is there again afterwards.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

pub(super) struct Screen {
    out: Output,
    /// What was shown last.
    last: Option<Captured>,
}

impl Screen {
    pub(super) fn new(out: Output) -> Self {
        Self { out, last: None }
    }

    /// Shows it if it is different; false when nobody reads any more.
    pub(super) fn show(&mut self, seen: Captured) -> bool {
        // An answer that failed half-way has nothing to show.
        if seen.text.is_empty() && seen.key.is_empty() {
            return true;
        }
        let text = match &self.last {
            // Ages go on even where nothing else does.
            Some(last) if self.out.terminal && last.text == seen.text => return true,
            Some(last) if !self.out.terminal && last.key == seen.key => return true,
            last if self.out.terminal => drawn(&seen.text, last.is_none()),
            Some(_) if self.out.format == Format::Table => format!("\n{}", seen.text),
            _ => self.block(&seen.text),
        };
        self.last = Some(seen);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
    }

    fn block(&self, text: &str) -> String {
        if self.out.format == Format::Yaml { format!("---\n{text}") } else { text.to_owned() }
    }

    /// Leaves the last picture behind.
    pub(super) fn leave(&mut self) {
        let Some(last) = self.last.take().filter(|_| self.out.terminal) else { return };
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(format!("{LEAVE}{}", last.text).as_bytes()).and_then(|()| stdout.flush());
    }
}

fn drawn(text: &str, first: bool) -> String {
    let enter = if first { ENTER } else { "" };
    let lines: String = text.lines().flat_map(|line| [line, LINE_AWAY]).collect();
    format!("{enter}{HOME}{lines}{LINE_AWAY}Watching; Ctrl-C ends.{REST_AWAY}")
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}
