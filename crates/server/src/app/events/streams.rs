//! How many streams are open, in all and per token.

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

/// Why there is no place for another stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    All(usize),
    OfToken(usize),
}

/// A place among the open streams; given back when dropped.
#[derive(Debug)]
pub struct Place {
    streams: Arc<Streams>,
    token: Uuid,
}

impl Streams {
    pub fn new(open_max: usize, per_token_max: usize) -> Self {
        Self { open_max, per_token_max, open: Mutex::default() }
    }

    pub fn take(self: &Arc<Self>, token: Uuid) -> Result<Place, Taken> {
        let mut open = self.open.lock();
        if open.values().sum::<usize>() >= self.open_max {
            return Err(Taken::All(self.open_max));
        }
        let own = open.entry(token).or_default();
        if *own >= self.per_token_max {
            return Err(Taken::OfToken(self.per_token_max));
        }
        *own += 1;
        Ok(Place { streams: Arc::clone(self), token })
    }
}

impl Drop for Place {
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
    fn places_are_bounded_and_given_back() {
        let streams = Arc::new(Streams::new(3, 2));
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let first = streams.take(one).unwrap();
        let _second = streams.take(one).unwrap();
        assert_eq!(streams.take(one).unwrap_err(), Taken::OfToken(2));
        let _third = streams.take(two).unwrap();
        assert_eq!(streams.take(two).unwrap_err(), Taken::All(3));
        drop(first);
        assert!(streams.take(two).is_ok());
        assert_eq!(streams.open.lock().len(), 2);
    }
}
