//! When to communicate: period, hours, downtime, jitter, backoff, and the server's `Retry-After`.

use super::io::{Answer, Response};
use margo::problem::{BackoffStrategy, Problem};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// Doubling stops here; the policy caps the delay long before.
const DOUBLINGS_MAX: u32 = 20;

/// Upper bound of `Retry-After`: a typo of a year must not orphan a device.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

const MINUTES_A_DAY: u32 = 24 * 60;

/// Backoff for retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    pub first: Duration,
    pub max: Duration,
}

impl RetryPolicy {
    /// Exponential with jitter: between half and all of `first * 2^attempts`, never above `max`.
    pub fn delay(&self, attempts: u32, rng: &mut dyn RngCore) -> Duration {
        let full = self.first.saturating_mul(1 << attempts.min(DOUBLINGS_MAX)).min(self.max);
        full.mul_f64(0.5 + 0.5 * fraction(rng))
    }
}

/// Uniform in 0..1.
pub(crate) fn fraction(rng: &mut dyn RngCore) -> f64 {
    f64::from(rng.next_u32()) / f64::from(u32::MAX)
}

/// GEN-06, all configurable by the end user.
#[derive(Debug, Clone, PartialEq)]
pub struct PollPolicy {
    pub period: Duration,
    /// Length of a long poll (RFC 7240); zero disables it.
    pub long_poll: Duration,
    /// Fraction of the period by which each poll is moved, either way.
    pub jitter: f64,
    /// Upper bound of the random delay before the first poll, to spread the load after a power cut in a plant.
    pub start_spread: Duration,
    /// The longest wait after a 403; an operator must act first.
    pub forbidden_period: Duration,
    pub calendar: Calendar,
}

/// While an operator may be accepting this client, it polls at least this often.
const FORBIDDEN_SOON: Duration = Duration::from_secs(30);
/// Divisor of the time since the first refusal: half a minute for the first hour, five minutes after ten.
const FORBIDDEN_SHARE: u32 = 120;

impl PollPolicy {
    /// The wait after a refusal, by the time since the first one: an accepted client returns soon, and a forgotten
    /// device polls rarely.
    pub fn after_refusal(&self, refused_for: Duration, rng: &mut dyn RngCore) -> Duration {
        let soon = FORBIDDEN_SOON.min(self.period).min(self.forbidden_period);
        let wait = (refused_for / FORBIDDEN_SHARE).clamp(soon, self.forbidden_period);
        wait.mul_f64(0.9 + 0.2 * fraction(rng))
    }

    pub fn next(&self, now: Timestamp, rng: &mut dyn RngCore) -> Timestamp {
        let shift = 1.0 + self.jitter * (2.0 * fraction(rng) - 1.0);
        now.plus(self.period.mul_f64(shift.max(0.0)))
    }
}

/// Polling hours and downtime, in one time zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    pub zone: jiff::tz::TimeZone,
    /// Polling interval period: polls happen only in these windows. Empty means always.
    pub hours: Vec<DayWindow>,
    /// Downtime windows: no communication at all, and no retries.
    pub downtime: Vec<DayWindow>,
}

impl Default for Calendar {
    fn default() -> Self {
        Self { zone: jiff::tz::TimeZone::UTC, hours: Vec::new(), downtime: Vec::new() }
    }
}

/// From one time of day up to another, over midnight when it ends before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayWindow {
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a window of the day: write for example `22:00-06:00`")]
pub struct WindowError(String);

impl std::str::FromStr for DayWindow {
    type Err = WindowError;
    fn from_str(text: &str) -> Result<Self, WindowError> {
        let minutes = |part: &str| {
            let (hour, minute) = part.trim().split_once(':')?;
            let (hour, minute) = (hour.parse::<u32>().ok()?, minute.parse::<u32>().ok()?);
            let total = hour.checked_mul(60)?.checked_add(minute)?;
            (minute < 60 && total <= MINUTES_A_DAY).then_some(total)
        };
        let parsed = text.split_once('-').and_then(|(start, end)| Some((minutes(start)?, minutes(end)?)));
        match parsed {
            Some((start, end)) if start != end && start < MINUTES_A_DAY => Ok(Self { start, end }),
            _ => Err(WindowError(text.chars().take(40).collect())),
        }
    }
}

impl DayWindow {
    /// Minutes until the window ends, when `minute` lies in it.
    fn left(self, minute: u32) -> Option<u32> {
        let length = (self.end + MINUTES_A_DAY - self.start) % MINUTES_A_DAY;
        let length = if length == 0 { MINUTES_A_DAY } else { length };
        let into = (minute + MINUTES_A_DAY - self.start) % MINUTES_A_DAY;
        (into < length).then(|| length - into)
    }
    fn until_start(self, minute: u32) -> u32 {
        (self.start + MINUTES_A_DAY - minute) % MINUTES_A_DAY
    }
}

impl Calendar {
    /// The first instant, not before `at`, at which the client may communicate.
    pub fn talk_from(&self, at: Timestamp) -> Timestamp {
        let mut at = at;
        // Windows may touch or overlap: each pass leaves at least one of them.
        for _ in 0..=self.downtime.len() {
            let minute = self.minute(at);
            match self.downtime.iter().filter_map(|window| window.left(minute)).max() {
                Some(left) => at = whole_minute(at).plus(minutes(left)),
                None => break,
            }
        }
        at
    }

    /// The first instant, not before `at`, at which the client may poll.
    pub fn poll_from(&self, at: Timestamp) -> Timestamp {
        let mut at = self.talk_from(at);
        for _ in 0..=self.hours.len() {
            let minute = self.minute(at);
            if self.hours.is_empty() || self.hours.iter().any(|window| window.left(minute).is_some()) {
                break;
            }
            let wait = self.hours.iter().map(|window| window.until_start(minute)).min().unwrap_or(0);
            at = self.talk_from(whole_minute(at).plus(minutes(wait)));
        }
        at
    }

    /// How much of this time, from `at` on, polling is allowed.
    pub fn polls_for(&self, at: Timestamp, length: Duration) -> Duration {
        if self.hours.is_empty() && self.downtime.is_empty() {
            return length;
        }
        let end = at.plus(length);
        let mut minute = whole_minute(at).plus(minutes(1));
        while minute < end && self.poll_from(minute) == minute {
            minute = minute.plus(minutes(1));
        }
        minute.min(end).since(at)
    }

    fn minute(&self, at: Timestamp) -> u32 {
        let Ok(instant) = jiff::Timestamp::from_microsecond(at.0) else { return 0 };
        let time = self.zone.to_datetime(instant).time();
        u32::from(time.hour().unsigned_abs()) * 60 + u32::from(time.minute().unsigned_abs())
    }
}

fn minutes(count: u32) -> Duration {
    Duration::from_secs(u64::from(count) * 60)
}

fn whole_minute(at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0.rem_euclid(60_000_000))
}

/// One kind of request with its own backoff.
#[derive(Debug, Clone, Default)]
pub(super) struct Lane {
    pub(super) due: Timestamp,
    pub(super) attempts: u32,
}

impl Lane {
    pub(super) fn at(due: Timestamp) -> Self {
        Self { due, attempts: 0 }
    }
    pub(super) fn succeeded(&mut self, next: Timestamp) {
        *self = Self::at(next);
    }
    /// RTY-01: never before Retry-After; `retryable` and `backoffStrategy` are respected.
    pub(super) fn failed(&mut self, answer: &Answer, retry: RetryPolicy, now: Timestamp, rng: &mut dyn RngCore) {
        let delay = delay_after(answer, self.attempts, retry, now, rng);
        self.attempts = self.attempts.saturating_add(1);
        self.due = now.plus(delay);
    }
}

fn delay_after(answer: &Answer, attempts: u32, retry: RetryPolicy, now: Timestamp, rng: &mut dyn RngCore) -> Duration {
    let Answer::Response(response) = answer else { return retry.delay(attempts, rng) };
    let problem = problem_of(response);
    let strategy = problem.as_ref().and_then(|problem| problem.backoff_strategy);
    let retryable = problem.as_ref().and_then(|problem| problem.retryable);
    let own = match (retryable, strategy) {
        // A retry does not help until an operator changes something.
        (Some(false), _) => retry.max.mul_f64(0.5 + 0.5 * fraction(rng)),
        (_, Some(BackoffStrategy::Fixed | BackoffStrategy::None)) => retry.delay(0, rng),
        _ => retry.delay(attempts, rng),
    };
    requested_delay(answer, now, rng).map_or(own, |requested| requested.max(own))
}

/// The delay that the server requests, if any.
pub(super) fn requested_delay(answer: &Answer, now: Timestamp, rng: &mut dyn RngCore) -> Option<Duration> {
    let Answer::Response(response) = answer else { return None };
    let requested = response.retry_after.as_deref().and_then(|text| retry_after(text, now));
    let advised = || problem_of(response).and_then(|problem| problem.retry_after_seconds).map(Duration::from_secs);
    // A little later than requested, never earlier: clients with the same time must not all return at once.
    let requested = requested.or_else(advised)?;
    Some(requested.min(RETRY_AFTER_MAX).mul_f64(1.0 + 0.1 * fraction(rng)))
}

/// The problem document of an error response, if it has one (PRB-03).
pub(super) fn problem_of(response: &Response) -> Option<Problem> {
    Problem::read(&response.body).ok().map(|read| read.document)
}

/// Seconds or an HTTP date.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp(at.timestamp().as_microsecond()).since(now))
}

#[cfg(test)]
mod tests;
