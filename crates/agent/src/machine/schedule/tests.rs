use super::*;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn calendar(hours: &[&str], downtime: &[&str], zone: &str) -> Calendar {
    let windows = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Calendar { zone: jiff::tz::TimeZone::get(zone).unwrap(), hours: windows(hours), downtime: windows(downtime) }
}

#[test]
fn polls_wait_for_hours_and_the_end_of_downtime() {
    // GEN-06
    let cases = [
        (&[][..], &[][..], "2026-01-01T12:34:56Z", "2026-01-01T12:34:56Z"),
        (&["06:00-22:00"], &[], "2026-01-01T23:30:10Z", "2026-01-02T06:00:00Z"),
        (&["22:00-06:00"], &[], "2026-01-01T23:30:10Z", "2026-01-01T23:30:10Z"),
        (&["22:00-06:00"], &[], "2026-01-01T07:00:00Z", "2026-01-01T22:00:00Z"),
        (&[], &["02:00-03:00"], "2026-01-01T02:59:59Z", "2026-01-01T03:00:00Z"),
        (&[], &["02:00-03:00", "03:00-04:30"], "2026-01-01T02:10:00Z", "2026-01-01T04:30:00Z"),
        (&["03:00-05:00"], &["02:00-04:00"], "2026-01-01T02:10:00Z", "2026-01-01T04:00:00Z"),
    ];
    for (hours, downtime, now, expected) in cases {
        let calendar = calendar(hours, downtime, "UTC");
        assert_eq!(calendar.poll_from(at(now)), at(expected), "{hours:?} {downtime:?} {now}");
    }
}

#[test]
fn windows_use_the_configured_time_zone() {
    let calendar = calendar(&[], &["02:00-03:00"], "Europe/Berlin");
    assert_eq!(calendar.talk_from(at("2026-07-01T00:30:00Z")), at("2026-07-01T01:00:00Z"));
    assert_eq!(calendar.talk_from(at("2026-01-01T01:30:00Z")), at("2026-01-01T02:00:00Z"));
}

#[test]
fn rejects_invalid_windows() {
    for text in [
        "",
        "6-7",
        "06:00",
        "25:00-26:00",
        "06:60-07:00",
        "06:00-06:00",
        "a:b-c:d",
        "4294967295:00-06:00",
        "71582788:59-06:00",
    ] {
        assert!(text.parse::<DayWindow>().is_err(), "{text}");
    }
    assert!("00:00-24:00".parse::<DayWindow>().is_ok());
}

#[test]
fn backoff_doubles_with_jitter_up_to_its_limit() {
    let retry = RetryPolicy { first: Duration::from_secs(2), max: Duration::from_mins(1) };
    let mut rng = SmallRng::seed_from_u64(1);
    for attempts in 0..40 {
        let full = Duration::from_secs(2).saturating_mul(1 << attempts.min(10)).min(retry.max);
        let delay = retry.delay(attempts, &mut rng);
        assert!(delay >= full / 2 && delay <= full, "{attempts}: {delay:?}");
    }
}

#[test]
fn polls_are_spread_around_the_period() {
    let policy = crate::machine::Settings::default().poll;
    let mut rng = SmallRng::seed_from_u64(1);
    let gaps: Vec<_> = (0..100).map(|_| policy.next(Timestamp(0), &mut rng).since(Timestamp(0))).collect();
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_secs(54) && *gap <= Duration::from_secs(66)));
    assert!(gaps.iter().min() < gaps.iter().max());
}
