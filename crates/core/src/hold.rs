//! A maintenance hold: a technician stops changes on a device for a limited time. The hold expires regardless of clock
//! jumps and restarts of the device.

#[cfg(test)]
mod tests;

use crate::policy::EXTENSION;
use crate::time::Timestamp;
use margo::capabilities::DeviceCapabilities;
use serde_json::{Value, json};
use std::time::Duration;

/// A forgotten hold must not block a device forever.
pub const HOLD_MAX: Duration = Duration::from_hours(7 * 24);

/// Room for a sentence.
pub const REASON_CHARS_MAX: usize = 200;

/// A clock before 2020 has not been set since the device was switched on.
const CREDIBLE: Timestamp = Timestamp(1_577_836_800_000_000);

const MEMBER: &str = "hold";

/// An instant by all available clocks: the wall clock may jump, the time since boot does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockReading {
    pub wall: Timestamp,
    /// Identifies the current boot.
    pub boot: Option<String>,
    pub uptime: Duration,
}

impl ClockReading {
    /// The time that has certainly passed since an earlier moment.
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

/// The remaining time at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub left: Duration,
    pub as_of: ClockReading,
}

impl Left {
    pub fn at(&self, now: &ClockReading) -> Duration {
        self.left.saturating_sub(now.since(&self.as_of))
    }
}

/// The extension of a capability report that announces a hold to our manager; other managers ignore it (CAP-09).
pub fn announcement(reason: &str, until: Timestamp) -> (String, Value) {
    (EXTENSION.to_owned(), json!({MEMBER: {"reason": reason, "until": until.to_string()}}))
}

/// A hold that a device announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedHold {
    pub reason: String,
    pub until: String,
}

pub fn announced(capabilities: &DeviceCapabilities) -> Option<AnnouncedHold> {
    let hold = capabilities.extensions.get(EXTENSION)?.get(MEMBER)?;
    let text = |key: &str| Some(hold.get(key)?.as_str()?.chars().take(REASON_CHARS_MAX).collect());
    Some(AnnouncedHold { reason: text("reason")?, until: text("until")? })
}
