use super::*;

/// 2026, as long as nobody sets the clock.
const TODAY: Timestamp = Timestamp(1_790_000_000_000_000);

fn moment(wall: Timestamp, boot: &str, uptime: u64) -> Moment {
    Moment { wall, boot: Some(boot.to_owned()), uptime: Duration::from_secs(uptime) }
}

fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

fn check(begun: Moment, now: Moment, left: Duration) {
    assert_eq!(Left { left: hours(2), as_of: begun }.at(&now), left);
}

#[test]
fn it_ends_after_its_time() {
    let begun = moment(TODAY, "a", 100);
    check(begun.clone(), moment(TODAY.plus(hours(1)), "a", 3700), hours(1));
    check(begun, moment(TODAY.plus(hours(2)), "a", 7300), Duration::ZERO);
}

#[test]
fn a_clock_that_jumps_changes_nothing() {
    // From 1970 to today when the network comes up: an hour has passed, not fifty years.
    check(moment(Timestamp(0), "a", 100), moment(TODAY, "a", 3700), hours(1));
    // And back: it still ends.
    check(moment(TODAY, "a", 100), moment(Timestamp(0), "a", 7300), Duration::ZERO);
}

#[test]
fn it_goes_on_after_a_restart_of_the_device_and_the_time_in_between_counts() {
    check(moment(TODAY, "a", 100), moment(TODAY.plus(hours(1)), "b", 60), hours(1));
    check(moment(TODAY, "a", 100), moment(TODAY.plus(hours(24)), "b", 60), Duration::ZERO);
}

#[test]
fn without_a_clock_the_time_since_the_start_counts() {
    check(moment(TODAY, "a", 100), moment(Timestamp(60_000_000), "b", 3600), hours(1));
    check(moment(Timestamp(0), "a", 100), moment(TODAY, "b", 7200), Duration::ZERO);
}

#[test]
fn without_a_name_of_the_boot_the_clock_counts() {
    let begun = Moment { wall: TODAY, boot: None, uptime: Duration::ZERO };
    let now = Moment { wall: TODAY.plus(hours(1)), boot: None, uptime: Duration::ZERO };
    check(begun, now, hours(1));
}
