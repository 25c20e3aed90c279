//! Durations in configuration: `200ms`, `60s`, `5m`, `12h`.

use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

/// Reads a duration with its unit.
pub fn parse(text: &str) -> Result<Duration, String> {
    let problem = || format!("`{text}` is not a duration: write for example `200ms`, `60s`, `5m` or `12h`");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| problem())?;
    let millis = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(problem()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(problem)
}

pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Duration, Error, parse};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text)).transpose().map_err(D::Error::custom)
    }
}
