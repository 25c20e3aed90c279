//! Who waits to be written, in the order they came in.

use super::{Group, Waiting};
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Whoever holds it may write: reports that were taken are answered or put back before anybody else takes some.
pub(super) struct Line<G: Group> {
    receiver: mpsc::Receiver<Waiting<G>>,
    /// In front of those in the channel: looked at or tried, and left. Never more than were taken at once.
    front: VecDeque<Waiting<G>>,
}

impl<G: Group> Line<G> {
    pub(super) fn new(receiver: mpsc::Receiver<Waiting<G>>) -> Self {
        Self { receiver, front: VecDeque::new() }
    }

    /// The next ones, `most` of them, and only up to the first that may not: nobody behind it overtakes it.
    pub(super) fn take(&mut self, most: usize, may: impl Fn(&G::Report) -> bool) -> Vec<Waiting<G>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(next) = self.front.pop_front().or_else(|| self.receiver.try_recv().ok()) else { break };
            if !may(&next.0) {
                self.front.push_front(next);
                break;
            }
            taken.push(next);
        }
        taken
    }

    /// Puts what was taken last where it was.
    pub(super) fn put_back(&mut self, taken: impl DoubleEndedIterator<Item = Waiting<G>>) {
        taken.rev().for_each(|waiting| self.front.push_front(waiting));
    }

    /// Nobody waits, and nobody can come any more.
    pub(super) fn is_over(&self) -> bool {
        self.front.is_empty() && self.receiver.is_empty() && self.receiver.is_closed()
    }
}
