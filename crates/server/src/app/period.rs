//! Periods as people write them: days, minutes or instants, in UTC unless given otherwise.

use super::error::{AppError, AppResult, Code};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use margrave_api::problem::FieldProblem;
use margrave_core::time::Timestamp;

/// A period; an end that is not given is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Older than this.
    pub until: Option<Timestamp>,
}

/// The input for one end, and its field.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    pub field: &'a str,
    pub text: Option<&'a str>,
}

impl Period {
    /// A day as the end is included in the period.
    pub fn read(since: End<'_>, until: End<'_>) -> AppResult<Self> {
        let mut errors = Vec::new();
        let mut take = |end: End<'_>, last: bool| {
            let read = end.text.map(|text| instant(text, last))?;
            if read.is_none() {
                let message = "write a day such as `2026-09-21`, or a time such as `2026-09-21T08:00:00Z`";
                errors.push(FieldProblem::new(end.field, message));
            }
            read
        };
        let period = Self { since: take(since, false), until: take(until, true) };
        if let Self { since: Some(begin), until: Some(end) } = period
            && end <= begin
        {
            errors.push(FieldProblem::new(until.field, "the end is before the beginning"));
        }
        if errors.is_empty() { Ok(period) } else { Err(refused(errors)) }
    }
}

fn refused(errors: Vec<FieldProblem>) -> AppError {
    let words: Vec<String> = errors.iter().map(|error| format!("`{}`: {}", error.field, error.message)).collect();
    AppError::with_fields(Code::Invalid, words.join("; "), errors)
}

/// One end of a period; a day as the last end is included.
pub fn instant(text: &str, last: bool) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp(at.as_microsecond()));
    }
    let at = match text.parse::<Date>() {
        // The date parser also accepts times and ignores them.
        Ok(day) if text.len() == "2026-09-21".len() => {
            let day = if last { day.tomorrow().ok()? } else { day };
            day.to_datetime(jiff::civil::Time::midnight())
        }
        _ => text.parse::<DateTime>().ok()?,
    };
    let at = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(Timestamp(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = (Option<String>, Option<String>);

    fn read(since: &str, until: &str) -> Result<Ends, Vec<(String, String)>> {
        let end = |field, text: &'static str| End { field, text: Some(text).filter(|text| !text.is_empty()) };
        let (since, until) = (since.to_owned().leak(), until.to_owned().leak());
        match Period::read(end("from", since), end("until", until)) {
            Ok(Period { since, until }) => Ok((since.map(|at| at.to_string()), until.map(|at| at.to_string()))),
            Err(AppError::Refused { errors, .. }) => {
                Err(errors.into_iter().map(|error| (error.field, error.message)).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_day_is_included_as_start_and_as_end() {
        let day = (Some("2026-09-21T00:00:00Z".to_owned()), Some("2026-09-22T00:00:00Z".to_owned()));
        assert_eq!(read("2026-09-21", "2026-09-21"), Ok(day));
        assert_eq!(read("", ""), Ok((None, None)));
    }

    #[test]
    fn a_time_without_a_zone_is_utc() {
        let expected = Ok((Some("2026-09-21T08:30:00Z".to_owned()), Some("2026-09-21T10:00:00Z".to_owned())));
        assert_eq!(read("2026-09-21T08:30", "2026-09-21T12:00:00+02:00"), expected);
    }

    #[test]
    fn names_the_field_of_an_invalid_time() {
        let errors = read("yesterday", "2026-13-01").unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(fields, ["from", "until"]);
        let backwards = read("2026-09-21", "2026-09-20").unwrap_err();
        assert_eq!(backwards, [("until".to_owned(), "the end is before the beginning".to_owned())]);
        assert!(read("9999-12-31T23:59:59.9999999999", "9999-12-31").is_err(), "beyond all times");
    }
}
