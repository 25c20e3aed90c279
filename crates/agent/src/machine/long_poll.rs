//! Long polls (`Prefer: wait=N`, RFC 7240): their length, their spacing, and servers or networks without support.

use super::io::{Answer, Response};
use super::schedule::{PollPolicy, fraction};
use crate::codes::Code;
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// Minimum distance of two polls without news, even if the server claims to have waited.
const SPACING: Duration = Duration::from_secs(5);

/// After news the next poll follows this soon: more news may follow.
const SPACING_AFTER_NEWS: Duration = Duration::from_secs(1);

/// Upper bound of the random delay before the next poll, so that agents do not stay synchronized.
const JITTER: Duration = Duration::from_secs(1);

/// A long poll that ends this much before its time ended early.
const SLACK: Duration = Duration::from_secs(1);

/// Shorter long polls are not worth the requests.
const LENGTH_MIN: Duration = Duration::from_secs(5);

/// An earlier failure is not caused by the wait.
const CUT_MIN: Duration = Duration::from_secs(2);

/// Number of successful polls in a row before a shortened long poll grows again.
const GOOD_BEFORE_LONGER: u32 = 16;

/// The wait requested by the poll in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) seconds: u64,
    pub(super) sent_at: Timestamp,
}

/// The state of long polling with this server.
#[derive(Debug, Clone, Default)]
pub(super) struct LongPoll {
    /// Earliest time of the next long poll, before the ordinary poll is due.
    pub(super) from: Option<Timestamp>,
    /// The server answered at once without `Preference-Applied`: it does not support long polls.
    ignored: bool,
    /// The last long poll ended early, without news.
    early: bool,
    /// How often the network cut a long poll; each time halves the next.
    cuts: u32,
    good: u32,
}

impl LongPoll {
    pub(super) fn new(first_poll: Timestamp) -> Self {
        Self { from: Some(first_poll), ..Self::default() }
    }

    /// The seconds to request now; `None` if the policy or the network excludes a long poll.
    pub(super) fn seconds(&self, policy: &PollPolicy, now: Timestamp) -> Option<u64> {
        let length = policy.long_poll / 2_u32.saturating_pow(self.cuts);
        let length = length.min(policy.calendar.polls_for(now, length));
        (length >= LENGTH_MIN.min(policy.long_poll) && length.as_secs() > 0).then_some(length.as_secs())
    }

    /// No news. Returns the time of the next poll, or `None` for the ordinary one.
    pub(super) fn unchanged(
        &mut self,
        wait: Wait,
        applied: Option<u64>,
        policy: &PollPolicy,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) -> Option<Timestamp> {
        self.went_well();
        let Some(granted) = applied.map(|seconds| seconds.min(wait.seconds)).filter(|seconds| *seconds > 0) else {
            self.ignored = true;
            return None;
        };
        self.ignored = false;
        let early = now.since(wait.sent_at) + SLACK < Duration::from_secs(granted);
        let early_again = std::mem::replace(&mut self.early, early) && early;
        if early_again {
            // It claims to wait, but does not.
            return None;
        }
        // A stopping server ends all long polls at once: the agents must not all return at once.
        let spread = if early { policy.start_spread.max(JITTER) } else { JITTER };
        let next = now.plus(spread.mul_f64(fraction(rng))).max(wait.sent_at.plus(SPACING));
        self.from = Some(next);
        self.from
    }

    /// A new manifest, or the first response of the server: the next long poll follows once everything is applied.
    pub(super) fn news(&mut self, now: Timestamp) {
        self.went_well();
        self.early = false;
        self.from = (!self.ignored).then(|| now.plus(SPACING_AFTER_NEWS));
    }

    /// The poll failed. A proxy or firewall with an idle timeout only shortens the next long poll.
    pub(super) fn failed(&mut self, wait: Wait, answer: &Answer, now: Timestamp) {
        let cut = matches!(
            answer,
            Answer::Failed { code: Code::ServerUnreachable, .. }
                | Answer::Response(Response { status: 408 | 502 | 504, .. })
        );
        if cut && now.since(wait.sent_at) >= CUT_MIN {
            self.cuts = (self.cuts + 1).min(u32::BITS - 1);
            self.good = 0;
        }
    }

    pub(super) fn shift_back(&mut self, back: Duration) {
        self.from = self.from.map(|from| from.minus(back));
    }

    pub(super) fn went_well(&mut self) {
        self.good += 1;
        if self.good >= GOOD_BEFORE_LONGER {
            self.good = 0;
            self.cuts = self.cuts.saturating_sub(1);
        }
    }
}
