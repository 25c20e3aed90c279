//! Upload progress: a bar at a terminal, nothing otherwise.

use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// Bytes of completed blobs.
    done: u64,
}

impl Progress {
    pub(super) fn new(out: Output, total: u64) -> Self {
        let bar = (out.talk_terminal && !out.quiet).then(|| {
            let template = "{bar:32.green} {bytes}/{total_bytes} {msg}";
            let style = ProgressStyle::with_template(template).expect("the template is a valid constant");
            ProgressBar::new(total).with_style(style)
        });
        Self { bar, done: 0 }
    }

    pub(super) fn begin(&self, reference: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(reference.to_owned());
        }
    }

    /// Shows the bytes sent of the current blob.
    pub(super) fn show(&self, sent: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.done + sent);
        }
    }

    pub(super) fn blob_done(&mut self, bytes: u64) {
        self.done += bytes;
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
