use super::*;

/// 2026, with a clock that is set correctly.
const TODAY: Timestamp = Timestamp(1_790_000_000_000_000);

fn moment(wall: Timestamp, boot: &str, uptime: u64) -> ClockReading {
    ClockReading { wall, boot: Some(boot.to_owned()), uptime: Duration::from_secs(uptime) }
}

fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

fn check(started: ClockReading, now: ClockReading, left: Duration) {
    assert_eq!(Left { left: hours(2), as_of: started }.at(&now), left);
}

#[test]
fn a_hold_expires() {
    let started = moment(TODAY, "a", 100);
    check(started.clone(), moment(TODAY.plus(hours(1)), "a", 3700), hours(1));
    check(started, moment(TODAY.plus(hours(2)), "a", 7300), Duration::ZERO);
}

#[test]
fn clock_jumps_do_not_change_the_remaining_time() {
    // From 1970 to today when the network comes up: one hour has passed, not fifty years.
    check(moment(Timestamp(0), "a", 100), moment(TODAY, "a", 3700), hours(1));
    // Back again: it still expires.
    check(moment(TODAY, "a", 100), moment(Timestamp(0), "a", 7300), Duration::ZERO);
}

#[test]
fn a_hold_continues_after_a_restart_and_counts_the_downtime() {
    check(moment(TODAY, "a", 100), moment(TODAY.plus(hours(1)), "b", 60), hours(1));
    check(moment(TODAY, "a", 100), moment(TODAY.plus(hours(24)), "b", 60), Duration::ZERO);
}

#[test]
fn uses_the_time_since_boot_without_a_clock() {
    check(moment(TODAY, "a", 100), moment(Timestamp(60_000_000), "b", 3600), hours(1));
    check(moment(Timestamp(0), "a", 100), moment(TODAY, "b", 7200), Duration::ZERO);
}

#[test]
fn uses_the_clock_without_a_boot_id() {
    let started = ClockReading { wall: TODAY, boot: None, uptime: Duration::ZERO };
    let now = ClockReading { wall: TODAY.plus(hours(1)), boot: None, uptime: Duration::ZERO };
    check(started, now, hours(1));
}
