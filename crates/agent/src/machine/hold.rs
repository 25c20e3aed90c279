//! Polls that ask to be held (`Prefer: wait=N`, RFC 7240): how long, when again, and what to make of a server or a network
//! that does not play along.

use super::io::{Answer, Response};
use super::schedule::{PollPolicy, fraction};
use crate::codes::Code;
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// Two polls that brought nothing are never closer than this, whatever a server says about having held the first.
const SPACING: Duration = Duration::from_secs(5);

/// After news the next poll follows this soon: more may be on its way.
const SPACING_AFTER_NEWS: Duration = Duration::from_secs(1);

/// Upper bound of the random delay before asking again, so that those whose time is up together do not stay together.
const JITTER: Duration = Duration::from_secs(1);

/// A hold that ends this much before its time ended early.
const SLACK: Duration = Duration::from_secs(1);

/// Shorter holds are not worth the requests.
const LENGTH_MIN: Duration = Duration::from_secs(5);

/// A failure sooner than this has nothing to do with the wait.
const CUT_MIN: Duration = Duration::from_secs(2);

/// So many polls in a row have to go well before a hold that was shortened grows again.
const GOOD_BEFORE_LONGER: u32 = 16;

/// What a poll under way asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) seconds: u64,
    pub(super) sent_at: Timestamp,
}

/// What is known about waiting at this server.
#[derive(Debug, Clone, Default)]
pub(super) struct Hold {
    /// From when on a poll that asks to be held may be sent before the ordinary one is due.
    pub(super) from: Option<Timestamp>,
    /// The server answered at once and did not say that it would have waited: nothing is done differently for it.
    ignored: bool,
    /// The last hold ended before its time, without news.
    early: bool,
    /// How often something on the way cut a hold off; each time halves the next.
    cuts: u32,
    good: u32,
}

impl Hold {
    pub(super) fn new(first_poll: Timestamp) -> Self {
        Self { from: Some(first_poll), ..Self::default() }
    }

    /// The seconds to ask for now; `None` where the policy or the network is against it.
    pub(super) fn seconds(&self, policy: &PollPolicy, now: Timestamp) -> Option<u64> {
        let length = policy.hold / 2_u32.saturating_pow(self.cuts);
        let length = length.min(policy.calendar.polls_for(now, length));
        (length >= LENGTH_MIN.min(policy.hold) && length.as_secs() > 0).then_some(length.as_secs())
    }

    /// Nothing new. Gives the time of the next poll, or `None` for the ordinary one.
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
            // It says that it waits and does not.
            return None;
        }
        // A server that stops lets all go at once: they should not all come back at once.
        let spread = if early { policy.start_spread.max(JITTER) } else { JITTER };
        let next = now.plus(spread.mul_f64(fraction(rng))).max(wait.sent_at.plus(SPACING));
        self.from = Some(next);
        self.from
    }

    /// There is a new manifest, or the first word of the server: as soon as all is carried out, the next can be waited for.
    pub(super) fn news(&mut self, now: Timestamp) {
        self.went_well();
        self.early = false;
        self.from = (!self.ignored).then(|| now.plus(SPACING_AFTER_NEWS));
    }

    /// The poll failed. A proxy or a firewall that cannot bear the silence must not cost more than a shorter one.
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
