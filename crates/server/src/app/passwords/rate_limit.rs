//! Rate limit for password attempts: a burst, then slowly, per name and per address. Only failures count.

use margrave_core::time::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Per name: ten at once, then one every 30 seconds. 12 characters resist that for longer than any attack lasts.
const PER_NAME: Limit = Limit { burst: 10, every: Duration::from_secs(30) };
/// Per address: more, because several people may share one.
const PER_PLACE: Limit = Limit { burst: 20, every: Duration::from_secs(15) };
/// Failures written to the audit log, which is kept forever; others are counted in the next record.
const RECORDED: Limit = Limit { burst: 60, every: Duration::from_mins(1) };
/// Names and addresses remembered of each; further ones share one entry.
const REMEMBERED_MAX: usize = 10_000;

/// Burst size, and the interval after which one more is allowed.
#[derive(Debug, Clone, Copy)]
struct Limit {
    burst: u32,
    every: Duration,
}

/// How far the used budget reaches into the future; it decays with time.
type Used = Timestamp;

impl Limit {
    /// Takes one attempt, or returns the time until the next one.
    fn take(self, used: &mut Used, now: Timestamp) -> Option<Duration> {
        let room = self.every * self.burst;
        // A clock that was set back must not block attempts for longer than a full budget takes to decay.
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
struct Attempts {
    by: HashMap<String, Used>,
    /// The shared entry for all others.
    others: Used,
}

impl Attempts {
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
    names: Attempts,
    places: Attempts,
    recorded: Used,
    unrecorded: u64,
}

/// Recent attempts. In memory only: a restart takes longer than the budget it would restore.
#[derive(Debug, Default)]
pub struct PasswordRateLimit(Mutex<State>);

impl PasswordRateLimit {
    /// Counts an attempt, or returns the time to wait.
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

    /// The attempt succeeded and does not count.
    pub fn give_back(&self, name: &str, address: &str) {
        let mut state = self.0.lock();
        state.names.by.remove(name);
        if let Some(used) = state.places.by.get_mut(&place(address)) {
            PER_PLACE.give_back(used);
        }
    }

    /// The password was changed.
    pub fn forgive(&self, name: &str) {
        self.0.lock().names.by.remove(name);
    }

    /// Whether to record a failure, with the number of unrecorded ones since the last record.
    pub fn record(&self, now: Timestamp) -> Option<u64> {
        let mut state = self.0.lock();
        if RECORDED.take(&mut state.recorded, now).is_some() {
            state.unrecorded += 1;
            return None;
        }
        Some(std::mem::take(&mut state.unrecorded))
    }
}

/// One IPv6 address means a whole network of them.
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
    fn limits_attempts_per_name_from_any_address() {
        let rate_limit = PasswordRateLimit::default();
        for number in 0..10 {
            assert_eq!(rate_limit.take("admin", &format!("10.0.0.{number}"), at(0)), None);
        }
        assert_eq!(rate_limit.take("admin", "10.0.1.1", at(0)), Some(Duration::from_secs(30)));
        assert_eq!(rate_limit.take("admin", "10.0.1.1", at(20)), Some(Duration::from_secs(10)));
        assert_eq!(rate_limit.take("zoe", "10.0.1.1", at(20)), None, "others are not blocked");
        assert_eq!(rate_limit.take("admin", "10.0.1.1", at(30)), None);
        assert!(rate_limit.take("admin", "10.0.1.1", at(31)).is_some());
        rate_limit.forgive("admin");
        assert_eq!(rate_limit.take("admin", "10.0.1.1", at(31)), None);
    }

    #[test]
    fn limits_attempts_per_address() {
        let rate_limit = PasswordRateLimit::default();
        let granted = (0..100).filter(|name| rate_limit.take(&format!("n{name}"), "10.0.0.1", at(0)).is_none()).count();
        assert_eq!(granted, 20);
        assert_eq!(rate_limit.take("n1", "10.0.0.2", at(0)), None, "a blocked address does not use up names");
        let granted = (0..100)
            .filter(|one| rate_limit.take(&format!("m{one}"), &format!("fd00::{one:x}"), at(0)).is_none())
            .count();
        assert_eq!(granted, 20, "one IPv6 network counts as one address");
    }

    #[test]
    fn does_not_count_successful_attempts() {
        let rate_limit = PasswordRateLimit::default();
        for _ in 0..1000 {
            assert_eq!(rate_limit.take("admin", "10.0.0.1", at(0)), None);
            rate_limit.give_back("admin", "10.0.0.1");
        }
    }

    #[test]
    fn a_clock_set_back_does_not_block_sign_ins_for_long() {
        let rate_limit = PasswordRateLimit::default();
        for _ in 0..10 {
            rate_limit.take("admin", "10.0.0.1", at(1_000_000));
        }
        assert_eq!(rate_limit.take("admin", "10.0.0.1", at(0)), Some(Duration::from_secs(30)));
        assert_eq!(
            rate_limit.take("admin", "10.0.0.1", at(30)),
            Some(Duration::from_secs(15)),
            "the address is used up as well"
        );
        assert_eq!(rate_limit.take("admin", "10.0.0.1", at(45)), None);
    }

    #[test]
    fn bounds_memory_and_audit_records_for_unknown_names() {
        let rate_limit = PasswordRateLimit::default();
        for number in 0..REMEMBERED_MAX + 500 {
            let address = format!("10.{}.{}.1", number / 250, number % 250);
            let wait = rate_limit.take(&format!("n{number}"), &address, at(0));
            assert_eq!(wait.is_some(), number >= REMEMBERED_MAX + 10, "{number}");
        }
        assert_eq!(rate_limit.0.lock().names.by.len(), REMEMBERED_MAX);
        assert_eq!(rate_limit.take("later", "10.0.0.9", at(3600)), None, "expired entries are dropped");
        let recorded = (0..200).filter(|_| rate_limit.record(at(0)).is_some()).count();
        assert_eq!((recorded, rate_limit.record(at(60))), (60, Some(140)));
    }
}
