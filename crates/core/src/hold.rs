//! A technician's hold: no changes on a device for a while. It ends by itself, whatever the clock does and however often the
//! device is started anew.

#[cfg(test)]
mod tests;

use crate::policy::EXTENSION;
use crate::time::Timestamp;
use margo::capabilities::DeviceCapabilities;
use serde_json::{Value, json};
use std::time::Duration;

/// A hold that was forgotten must not keep a device from its manager for ever.
pub const HOLD_MAX: Duration = Duration::from_hours(7 * 24);

/// A sentence, not a page.
pub const REASON_CHARS_MAX: usize = 200;

/// Before 2020 no clock is right: it has not been set since the device was switched on.
const CREDIBLE: Timestamp = Timestamp(1_577_836_800_000_000);

const MEMBER: &str = "hold";

/// An instant by everything that tells time: the clock may jump, the time since the start of the machine does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub wall: Timestamp,
    /// Names the present start of the machine.
    pub boot: Option<String>,
    pub uptime: Duration,
}

impl Moment {
    /// What has surely passed since an earlier moment.
    pub fn since(&self, earlier: &Self) -> Duration {
        let credible = self.wall >= CREDIBLE && earlier.wall >= CREDIBLE;
        let by_clock = if credible { self.wall.since(earlier.wall) } else { Duration::ZERO };
        match (&self.boot, &earlier.boot) {
            (Some(now), Some(then)) if now == then => self.uptime.saturating_sub(earlier.uptime),
            (Some(_), Some(_)) => by_clock.max(self.uptime),
            _ => by_clock,
        }
    }
}

/// What is left of a time, as of a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub left: Duration,
    pub as_of: Moment,
}

impl Left {
    pub fn at(&self, now: &Moment) -> Duration {
        self.left.saturating_sub(now.since(&self.as_of))
    }
}

/// The extension of a capability report that tells a manager of ours; others ignore it (CAP-09).
pub fn announcement(reason: &str, until: Timestamp) -> (String, Value) {
    (EXTENSION.to_owned(), json!({MEMBER: {"reason": reason, "until": until.to_string()}}))
}

/// What a device announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub reason: String,
    pub until: String,
}

pub fn announced(capabilities: &DeviceCapabilities) -> Option<Announced> {
    let hold = capabilities.extensions.get(EXTENSION)?.get(MEMBER)?;
    let text = |key: &str| Some(hold.get(key)?.as_str()?.chars().take(REASON_CHARS_MAX).collect());
    Some(Announced { reason: text("reason")?, until: text("until")? })
}
