//! Shows captured output: redrawn in place at a terminal, appended as blocks in a pipe.

use crate::output::{Captured, Format, Output};
use std::io::Write as _;

/// Escape sequences: move to the upper left corner, clear the rest of the screen, clear the rest of the line.
const HOME: &str = "\x1b[H";
const CLEAR_SCREEN_REST: &str = "\x1b[J";
const CLEAR_LINE_REST: &str = "\x1b[K\n";
/// Alternate screen, so that the previous content is restored afterwards.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

pub(super) struct Screen {
    out: Output,
    /// The output shown last.
    last: Option<Captured>,
}

impl Screen {
    pub(super) fn new(out: Output) -> Self {
        Self { out, last: None }
    }

    /// Shows the output if it changed; returns false if the reader is gone.
    pub(super) fn show(&mut self, seen: Captured) -> bool {
        // Output of a failed run is incomplete; do not show it.
        if seen.text.is_empty() && seen.key.is_empty() {
            return true;
        }
        let text = match &self.last {
            // Ages change even if nothing else does.
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

    /// Leaves the alternate screen and prints the last output.
    pub(super) fn leave(&mut self) {
        let Some(last) = self.last.take().filter(|_| self.out.terminal) else { return };
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(format!("{LEAVE}{}", last.text).as_bytes()).and_then(|()| stdout.flush());
    }
}

fn drawn(text: &str, first: bool) -> String {
    let enter = if first { ENTER } else { "" };
    let lines: String = text.lines().flat_map(|line| [line, CLEAR_LINE_REST]).collect();
    format!("{enter}{HOME}{lines}{CLEAR_LINE_REST}Watching; press Ctrl-C to exit.{CLEAR_SCREEN_REST}")
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}
