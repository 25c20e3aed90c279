//! Durations as people write them: `30s`, `5m`, `12h`, `90d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration in the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
    pub const fn minutes(minutes: u64) -> Self {
        Self::seconds(minutes * 60)
    }
    pub const fn hours(hours: u64) -> Self {
        Self::minutes(hours * 60)
    }
    pub const fn days(days: u64) -> Self {
        Self::hours(days * 24)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write a whole number and one of ms, s, m, h, d, such as `5m`")]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;
    fn from_str(text: &str) -> Result<Self, SpanError> {
        let refused = || SpanError(text.chars().take(40).collect());
        let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
        let (number, unit) = text.split_at(unit_at);
        let number: u64 = number.parse().map_err(|_| refused())?;
        let unit_ms: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(refused()),
        };
        number.checked_mul(unit_ms).map(|ms| Self(Duration::from_millis(ms))).ok_or_else(refused)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        let (unit_ms, unit) = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")]
            .into_iter()
            .find(|(unit_ms, _)| ms >= *unit_ms && ms.is_multiple_of(*unit_ms))
            .unwrap_or((1, "ms"));
        write!(f, "{}{unit}", ms / unit_ms)
    }
}

impl serde::Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn parses_what_it_prints() {
        for text in ["250ms", "30s", "5m", "12h", "90d", "0ms"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn rejects_other_forms_with_an_example() {
        for text in ["", "5", "m", "5 m", "5w", "-5m", "1.5h", "99999999999999999999d"] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains("such as `5m`"), "{error}");
        }
    }
}
