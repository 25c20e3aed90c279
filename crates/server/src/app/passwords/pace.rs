//! How often a password may be tried: a handful at once, then slowly, per name and per place. Only wrong ones count.

use margrave_core::time::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Per name: ten at once, then one in half a minute. 12 characters stand against that for longer than anybody waits.
const PER_NAME: Limit = Limit { burst: 10, every: Duration::from_secs(30) };
/// Per place: more, since several people may share one.
const PER_PLACE: Limit = Limit { burst: 20, every: Duration::from_secs(15) };
/// Refusals written to the audit, which is kept for ever; the others are counted in the next record.
const RECORDED: Limit = Limit { burst: 60, every: Duration::from_mins(1) };
/// Names and places remembered of each; what comes beyond shares one entry.
const REMEMBERED_MAX: usize = 10_000;

/// So many at once, and one more each time this has passed.
#[derive(Debug, Clone, Copy)]
struct Limit {
    burst: u32,
    every: Duration,
}

/// How far into the future what was taken reaches; with time it falls behind.
type Used = Timestamp;

impl Limit {
    /// Takes one, or says how long there is none.
    fn take(self, used: &mut Used, now: Timestamp) -> Option<Duration> {
        let room = self.every * self.burst;
        // A clock that was set back must not shut anybody out for longer than it takes to empty the whole.
        *used = (*used).max(now).min(now.plus(room));
        let after = used.plus(self.every);
        if after > now.plus(room) {
            return Some(after.since(now.plus(room)));
        }
        *used = after;
        None
    }

    fn give_back(self, used: &mut Used) {
        *used = used.minus(self.every);
    }
}

#[derive(Debug, Default)]
struct Tried {
    by: HashMap<String, Used>,
    /// Of all those there was no room for.
    others: Used,
}

impl Tried {
    fn entry(&mut self, key: &str, now: Timestamp) -> &mut Used {
        if !self.by.contains_key(key) && self.by.len() >= REMEMBERED_MAX {
            self.by.retain(|_, used| *used > now);
            if self.by.len() >= REMEMBERED_MAX {
                return &mut self.others;
            }
        }
        self.by.entry(key.to_owned()).or_default()
    }
}

#[derive(Debug, Default)]
struct State {
    names: Tried,
    places: Tried,
    recorded: Used,
    unrecorded: u64,
}

/// What was tried lately. Kept in memory: a restart takes longer than what it would give away.
#[derive(Debug, Default)]
pub struct Pace(Mutex<State>);

impl Pace {
    /// Counts an attempt, or says how long to wait with it.
    pub fn take(&self, name: &str, address: &str, now: Timestamp) -> Option<Duration> {
        let mut state = self.0.lock();
        let by_name = PER_NAME.take(state.names.entry(name, now), now);
        if by_name.is_some() {
            return by_name;
        }
        let by_place = PER_PLACE.take(state.places.entry(&place(address), now), now);
        if by_place.is_some() {
            PER_NAME.give_back(state.names.entry(name, now));
        }
        by_place
    }

    /// The attempt was right and does not count.
    pub fn give_back(&self, name: &str, address: &str) {
        let mut state = self.0.lock();
        state.names.by.remove(name);
        if let Some(used) = state.places.by.get_mut(&place(address)) {
            PER_PLACE.give_back(used);
        }
    }

    /// The password is another one now.
    pub fn forgive(&self, name: &str) {
        self.0.lock().names.by.remove(name);
    }

    /// Whether a refusal is to be recorded, with how many were not since the last.
    pub fn record(&self, now: Timestamp) -> Option<u64> {
        let mut state = self.0.lock();
        if RECORDED.take(&mut state.recorded, now).is_some() {
            state.unrecorded += 1;
            return None;
        }
        Some(std::mem::take(&mut state.unrecorded))
    }
}

/// Whoever has one IPv6 address has a whole network of them.
fn place(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        },
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(1_790_000_000_000_000).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_name_is_tried_ten_times_then_slowly_from_wherever() {
        let pace = Pace::default();
        for number in 0..10 {
            assert_eq!(pace.take("admin", &format!("10.0.0.{number}"), at(0)), None);
        }
        assert_eq!(pace.take("admin", "10.0.1.1", at(0)), Some(Duration::from_secs(30)));
        assert_eq!(pace.take("admin", "10.0.1.1", at(20)), Some(Duration::from_secs(10)));
        assert_eq!(pace.take("zoe", "10.0.1.1", at(20)), None, "others are not kept out");
        assert_eq!(pace.take("admin", "10.0.1.1", at(30)), None);
        assert!(pace.take("admin", "10.0.1.1", at(31)).is_some());
        pace.forgive("admin");
        assert_eq!(pace.take("admin", "10.0.1.1", at(31)), None);
    }

    #[test]
    fn a_place_tries_many_names_only_so_often() {
        let pace = Pace::default();
        let granted = (0..100).filter(|name| pace.take(&format!("n{name}"), "10.0.0.1", at(0)).is_none()).count();
        assert_eq!(granted, 20);
        assert_eq!(pace.take("n1", "10.0.0.2", at(0)), None, "names are not used up by a place that was kept out");
        let granted =
            (0..100).filter(|one| pace.take(&format!("m{one}"), &format!("fd00::{one:x}"), at(0)).is_none()).count();
        assert_eq!(granted, 20, "one IPv6 network is one place");
    }

    #[test]
    fn whoever_is_right_is_not_counted() {
        let pace = Pace::default();
        for _ in 0..1000 {
            assert_eq!(pace.take("admin", "10.0.0.1", at(0)), None);
            pace.give_back("admin", "10.0.0.1");
        }
    }

    #[test]
    fn a_clock_set_back_keeps_nobody_out_for_long() {
        let pace = Pace::default();
        for _ in 0..10 {
            pace.take("admin", "10.0.0.1", at(1_000_000));
        }
        assert_eq!(pace.take("admin", "10.0.0.1", at(0)), Some(Duration::from_secs(30)));
        assert_eq!(pace.take("admin", "10.0.0.1", at(30)), Some(Duration::from_secs(15)), "the place is full as well");
        assert_eq!(pace.take("admin", "10.0.0.1", at(45)), None);
    }

    #[test]
    fn strangers_fill_no_memory_and_the_audit_slowly() {
        let pace = Pace::default();
        for number in 0..REMEMBERED_MAX + 500 {
            let address = format!("10.{}.{}.1", number / 250, number % 250);
            let wait = pace.take(&format!("n{number}"), &address, at(0));
            assert_eq!(wait.is_some(), number >= REMEMBERED_MAX + 10, "{number}");
        }
        assert_eq!(pace.0.lock().names.by.len(), REMEMBERED_MAX);
        assert_eq!(pace.take("later", "10.0.0.9", at(3600)), None, "what is over is forgotten");
        let recorded = (0..200).filter(|_| pace.record(at(0)).is_some()).count();
        assert_eq!((recorded, pace.record(at(60))), (60, Some(140)));
    }
}
