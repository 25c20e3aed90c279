//! The maintenance hold on disk: one file written by the command, one by the running agent with the time left.

use crate::disk::{DiskError, prepare, read_record, write_record};
use crate::machine::io::Hold;
use crate::machine::records::stamp;
use margrave_core::hold::{ClockReading, Left};
use margrave_core::time::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Written only by `margrave-agent hold`.
const HOLD: &str = "hold.json";
/// Written only by the running agent: the time left, so that a reboot does not restart the hold.
const COUNTED: &str = "hold-counted.json";

/// The time left is written this often; a crash loses at most this much.
const COUNT_PERIOD: Duration = Duration::from_mins(1);

/// The end is rounded to minutes, so that it does not change with every check.
const END_PRECISION: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HoldRecord {
    reason: String,
    /// The time of its start, which also identifies it.
    length: LeftRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeftRecord {
    left_ms: u64,
    #[serde(with = "stamp")]
    wall: Timestamp,
    boot: Option<String>,
    uptime_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CountedRecord {
    of: LeftRecord,
    now: LeftRecord,
}

impl LeftRecord {
    fn of(left: Duration, as_of: &ClockReading) -> Self {
        let ClockReading { wall, boot, uptime } = as_of.clone();
        Self { left_ms: milliseconds(left), wall, boot, uptime_ms: milliseconds(uptime) }
    }
    fn left(&self) -> Left {
        let Self { left_ms, wall, boot, uptime_ms } = self.clone();
        let as_of = ClockReading { wall, boot, uptime: Duration::from_millis(uptime_ms) };
        Left { left: Duration::from_millis(left_ms), as_of }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The current time by all clocks of this machine.
pub fn moment(clock: &dyn Clock) -> ClockReading {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
    let uptime = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
    ClockReading { wall: clock.now(), boot: boot(), uptime }
}

/// The id of the current boot, if the system provides one.
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Starts a hold, or replaces the current one.
pub fn begin(state_dir: &Path, reason: &str, length: Duration, now: &ClockReading) -> Result<(), DiskError> {
    prepare(state_dir)?;
    let record = HoldRecord { reason: reason.to_owned(), length: LeftRecord::of(length, now) };
    write_record(&state_dir.join(HOLD), &record)
}

/// Ends the hold; returns whether there was one.
pub fn end(state_dir: &Path) -> Result<bool, std::io::Error> {
    for name in ["hold.previous.json", COUNTED, "hold-counted.previous.json"] {
        let _ = std::fs::remove_file(state_dir.join(name));
    }
    match std::fs::remove_file(state_dir.join(HOLD)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The hold and the time left; `None` if there is none.
pub fn find(state_dir: &Path, now: &ClockReading) -> Option<(Hold, Duration)> {
    let record = read_record::<HoldRecord>(&state_dir.join(HOLD), &mut |_| {})?;
    let counted = read_record::<CountedRecord>(&state_dir.join(COUNTED), &mut |_| {});
    let counted = counted.filter(|counted| counted.of == record.length).map(|counted| counted.now.left().at(now));
    let left = record.length.left().at(now);
    let left = counted.map_or(left, |counted| counted.min(left));
    let until = now.wall.plus(left);
    let minute = i64::try_from(END_PRECISION.as_micros()).unwrap_or(i64::MAX);
    let until = Timestamp(until.0 - until.0.rem_euclid(minute)).plus(END_PRECISION);
    Some((Hold { reason: record.reason, until }, left))
}

/// Tracks the hold while the agent runs.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last_reported: Option<Hold>,
    counted_at: Option<ClockReading>,
}

impl Watch {
    /// The current hold. An expired one is removed.
    pub(crate) fn look(&mut self, state_dir: &Path, now: &ClockReading) -> Option<Hold> {
        let (hold, left) = find(state_dir, now)?;
        if left.is_zero() {
            // A failure leaves a file that is read again and still has no time left.
            let _ = end(state_dir);
            self.last_reported = None;
            return None;
        }
        self.count(state_dir, left, now);
        // The same hold keeps its reported end while that is correct to the minute.
        let same = self.last_reported.take().filter(|last_reported| {
            last_reported.reason == hold.reason
                && last_reported.until.since(hold.until).max(hold.until.since(last_reported.until)) <= END_PRECISION
        });
        self.last_reported = Some(same.unwrap_or(hold));
        self.last_reported.clone()
    }

    fn count(&mut self, state_dir: &Path, left: Duration, now: &ClockReading) {
        if self.counted_at.as_ref().is_some_and(|at| at.boot == now.boot && now.since(at) < COUNT_PERIOD) {
            return;
        }
        let Some(record) = read_record::<HoldRecord>(&state_dir.join(HOLD), &mut |_| {}) else { return };
        let counted = CountedRecord { of: record.length, now: LeftRecord::of(left, now) };
        // A failure loses at most the time since the last write.
        let _ = write_record(&state_dir.join(COUNTED), &counted);
        self.counted_at = Some(now.clone());
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const TODAY: Timestamp = Timestamp(1_790_000_000_000_000);

    fn at(wall: Timestamp, boot: &str, minutes: u64) -> ClockReading {
        ClockReading { wall, boot: Some(boot.to_owned()), uptime: Duration::from_mins(minutes) }
    }

    #[test]
    fn finds_a_hold_again_until_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), "changing the fan", Duration::from_hours(2), &at(TODAY, "a", 5)).unwrap();
        let mut watch = Watch::default();
        let held = watch.look(folder.path(), &at(TODAY.plus(Duration::from_hours(1)), "a", 65)).unwrap();
        assert_eq!(held.reason, "changing the fan");
        assert_eq!(watch.look(folder.path(), &at(TODAY.plus(Duration::from_mins(61)), "a", 66)), Some(held));
        assert_eq!(watch.look(folder.path(), &at(TODAY.plus(Duration::from_mins(121)), "a", 126)), None);
        assert!(!folder.path().join(HOLD).exists());
    }

    #[test]
    fn a_hold_expires_across_reboots_without_a_clock() {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), "x", Duration::from_hours(1), &at(Timestamp(0), "0", 1)).unwrap();
        let mut boots = 0;
        while Watch::default().look(folder.path(), &at(Timestamp(0), &format!("boot {boots}"), 10)).is_some() {
            boots += 1;
            assert!(boots < 20, "it never ends");
        }
        assert!(boots >= 5, "ended after {boots} times ten minutes");
    }

    #[test]
    fn a_clock_change_only_changes_the_reported_end() {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), "x", Duration::from_hours(1), &at(Timestamp(0), "a", 1)).unwrap();
        let mut watch = Watch::default();
        let first = watch.look(folder.path(), &at(Timestamp(0), "a", 2)).unwrap();
        let later = watch.look(folder.path(), &at(TODAY, "a", 3)).unwrap();
        assert!(later.until.since(TODAY) <= Duration::from_mins(59) && later.until > first.until);
        assert_eq!(watch.look(folder.path(), &at(TODAY, "a", 61)), None);
    }

    #[test]
    fn replaces_a_hold_and_ends_it_manually() {
        let folder = tempfile::tempdir().unwrap();
        let now = at(TODAY, "a", 5);
        begin(folder.path(), "one", Duration::from_mins(1), &now).unwrap();
        assert_eq!(Watch::default().look(folder.path(), &now).unwrap().reason, "one");
        begin(folder.path(), "two", Duration::from_mins(30), &at(TODAY, "a", 7)).unwrap();
        let (hold, left) = find(folder.path(), &at(TODAY, "a", 8)).unwrap();
        assert_eq!((hold.reason.as_str(), left), ("two", Duration::from_mins(29)));
        assert!(end(folder.path()).unwrap());
        assert!(!end(folder.path()).unwrap());
        assert_eq!(find(folder.path(), &now), None);
    }
}
