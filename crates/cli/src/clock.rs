//! Reads the system time (the only place in the CLI that does) and formats times.

use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};

/// Show instants instead of ages. Ages change between two runs, so outputs could not be compared.
static INSTANTS: AtomicBool = AtomicBool::new(false);

/// Switches the output from ages to instants.
pub(crate) fn show_instants() {
    INSTANTS.store(true, Ordering::Relaxed);
}

/// A time without fractions of a second.
pub(crate) fn second(text: &str) -> String {
    let Ok(at) = text.parse::<Timestamp>() else { return text.to_owned() };
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// When a client was last seen: `3 min ago`, `never`. With instants this shows only `seen`, because the instant changes
/// with every poll.
pub(crate) fn contact(text: Option<&str>, now: Timestamp) -> String {
    match text {
        None => "never".to_owned(),
        Some(_) if INSTANTS.load(Ordering::Relaxed) => "seen".to_owned(),
        Some(text) => ago(text, now),
    }
}

#[expect(clippy::disallowed_methods, reason = "commands get the time from here")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// `3 min ago`, or the text unchanged if it is not a time.
pub(crate) fn ago(text: &str, now: Timestamp) -> String {
    if INSTANTS.load(Ordering::Relaxed) {
        return second(text);
    }
    let Ok(at) = text.parse::<Timestamp>() else { return text.to_owned() };
    let age = now.duration_since(at);
    if age.is_negative() && age.abs() > SignedDuration::from_secs(5) {
        format!("in {}", span(age.abs()))
    } else if age < SignedDuration::from_secs(5) {
        "now".to_owned()
    } else {
        format!("{} ago", span(age))
    }
}

/// A duration in its largest unit.
pub(crate) fn span(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Parses `90s`, `5m`, `2h` or `7d`. A number without a unit is refused: people mean days or minutes by it as often as
/// seconds.
pub(crate) fn parse_span(text: &str) -> Result<std::time::Duration, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 86_400),
        Some((_, '0'..='9')) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("the unit is missing; write {text}s, {text}m, {text}h or {text}d"));
        }
        _ => (text, 1),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .map(std::time::Duration::from_secs)
        .ok_or_else(|| "expected a number with a unit, such as 90s, 5m, 2h or 7d".to_owned())
}

/// Parses a time, a day (its start in UTC), or a span back from now.
pub(crate) fn parse_instant(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Some(begin) = parse_day(text).and_then(midnight) {
        return Ok(begin);
    }
    let span = parse_span(text).map_err(|_| {
        "expected a time such as 2026-09-21T08:00:00Z, a day such as 2026-09-21, or a span such as 90s, 5m, 2h or 7d"
            .to_owned()
    })?;
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    Ok(now().saturating_sub(span).unwrap_or(Timestamp::MIN))
}

/// Like [`parse_instant`], but a day means its end in UTC.
pub(crate) fn parse_end(text: &str) -> Result<Timestamp, String> {
    match parse_day(text).and_then(|day| midnight(day.tomorrow().ok()?)) {
        Some(end) => Ok(end),
        None => parse_instant(text),
    }
}

fn parse_day(text: &str) -> Option<jiff::civil::Date> {
    text.parse::<jiff::civil::Date>().ok().filter(|day| day.to_string() == text)
}

fn midnight(day: jiff::civil::Date) -> Option<Timestamp> {
    day.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|begin| begin.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_in_their_largest_unit() {
        let now: Timestamp = "2026-01-10T12:00:00Z".parse().unwrap();
        for (at, expected) in [
            ("2026-01-10T11:59:58Z", "now"),
            ("2026-01-10T11:59:00Z", "60 s ago"),
            ("2026-01-10T11:30:00Z", "30 min ago"),
            ("2026-01-09T12:00:00Z", "24 h ago"),
            ("2026-01-01T12:00:00Z", "9 d ago"),
            ("2026-01-10T12:10:00Z", "in 10 min"),
            ("never", "never"),
        ] {
            assert_eq!(ago(at, now), expected, "{at}");
        }
    }

    #[test]
    fn a_span_needs_a_unit() {
        assert_eq!(parse_span("30").unwrap_err(), "the unit is missing; write 30s, 30m, 30h or 30d");
        assert_eq!(parse_span("90s").unwrap().as_secs(), 90);
        assert_eq!(parse_span("5m").unwrap().as_secs(), 300);
        assert_eq!(parse_span("2h").unwrap().as_secs(), 7200);
        assert_eq!(parse_span("7d").unwrap().as_secs(), 604_800);
        assert!(parse_span("soon").is_err());
        assert!(parse_span("").is_err());
        assert!(parse_span("99999999999999999999d").is_err());
    }

    #[test]
    fn parses_instants_as_times_days_or_spans() {
        assert_eq!(parse_instant("2026-09-21T08:00:00Z").unwrap().to_string(), "2026-09-21T08:00:00Z");
        assert_eq!(parse_instant("2026-09-21").unwrap().to_string(), "2026-09-21T00:00:00Z");
        assert_eq!(parse_end("2026-09-21").unwrap().to_string(), "2026-09-22T00:00:00Z", "includes the whole day");
        assert_eq!(parse_end("2026-09-21T08:00:00Z").unwrap().to_string(), "2026-09-21T08:00:00Z");
        assert!(parse_instant("1h").unwrap() < now());
        assert!(parse_instant("yesterday").unwrap_err().contains("such as 2026-09-21T08:00:00Z"));
    }
}
