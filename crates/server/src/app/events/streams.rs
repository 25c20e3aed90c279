//! Number of open streams, in total and per token.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct Streams {
    open_max: usize,
    per_token_max: usize,
    open: Mutex<HashMap<Uuid, usize>>,
}

/// Why another stream is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotsTaken {
    All(usize),
    OfToken(usize),
}

/// A slot among the open streams; released when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    streams: Arc<Streams>,
    token: Uuid,
}

impl Streams {
    pub fn new(open_max: usize, per_token_max: usize) -> Self {
        Self { open_max, per_token_max, open: Mutex::default() }
    }

    pub fn take(self: &Arc<Self>, token: Uuid) -> Result<StreamSlot, SlotsTaken> {
        let mut open = self.open.lock();
        if open.values().sum::<usize>() >= self.open_max {
            return Err(SlotsTaken::All(self.open_max));
        }
        let own = open.entry(token).or_default();
        if *own >= self.per_token_max {
            return Err(SlotsTaken::OfToken(self.per_token_max));
        }
        *own += 1;
        Ok(StreamSlot { streams: Arc::clone(self), token })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        if let Some(own) = open.get_mut(&self.token) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_slots_and_releases_them() {
        let streams = Arc::new(Streams::new(3, 2));
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let first = streams.take(one).unwrap();
        let _second = streams.take(one).unwrap();
        assert_eq!(streams.take(one).unwrap_err(), SlotsTaken::OfToken(2));
        let _third = streams.take(two).unwrap();
        assert_eq!(streams.take(two).unwrap_err(), SlotsTaken::All(3));
        drop(first);
        assert!(streams.take(two).is_ok());
        assert_eq!(streams.open.lock().len(), 2);
    }
}
