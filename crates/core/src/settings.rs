//! Settings files (TOML): every problem at once, each with line, column, key and what to write instead.

use margo::similar::{distance, tolerated};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Far above the size of any settings file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// The position of a key in the file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// A problem in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `None` for a key that is not in the file.
    pub place: Option<Place>,
    /// Dotted, such as `listeners.devices.address`; empty for a problem of the whole file.
    pub key: String,
    /// What is wrong and what to do.
    pub text: String,
}

/// The result of reading a settings file.
#[derive(Debug)]
pub struct Reading<T> {
    /// All valid settings; keys with problems are ignored, as if they were not in the file.
    pub settings: Option<T>,
    pub problems: Vec<Problem>,
    /// The position of each key.
    pub places: BTreeMap<String, Place>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// All problems of a file, one per line.
pub fn list(file: &Path, problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut out, Problem { place, key, text }| {
        let _ = write!(out, "\n  {}", file.display());
        if let Some(place) = place {
            let _ = write!(out, ", {place}");
        }
        if !key.is_empty() {
            let _ = write!(out, ", `{key}`");
        }
        let _ = write!(out, ": {text}");
        out
    })
}

/// Reads a text. `known` lists all keys; the content of arrays is checked by the type.
pub fn read<T: DeserializeOwned>(text: &str, known: &[String]) -> Reading<T> {
    let mut reading = Reading { settings: None, problems: Vec::new(), places: BTreeMap::new() };
    if text.len() > FILE_BYTES_MAX {
        let text = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        reading.problems.push(Problem { place: None, key: String::new(), text });
        return reading;
    }
    let (parsed, errors) = DeTable::parse_recoverable(text);
    reading.problems.extend(
        errors.iter().map(|error| Problem {
            place: error.span().map(|span| place(text, span.start)),
            key: error
                .span()
                .filter(|_| error.message() == DUPLICATE)
                .and_then(|span| named(text, span))
                .unwrap_or_default(),
            text: rewrite_message(error.message()),
        }),
    );
    if !reading.problems.is_empty() {
        reading.problems.sort_by_key(|problem| problem.place);
        return reading;
    }
    locate(text, "", parsed.get_ref(), &mut reading.places);
    let mut table: toml::Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => {
            reading.problems.push(Problem { place: None, key: String::new(), text: one_line(error.message()) });
            return reading;
        }
    };
    let keys = Keys::of(known);
    for (key, text) in keys.refuse("", &mut table) {
        reading.problems.push(Problem { place: reading.places.get(&key).copied(), key, text });
    }
    reading.settings = take(table, &mut reading);
    reading.problems.sort_by_key(|problem| problem.place);
    reading
}

/// Deserializes; notes and drops each invalid value until the rest can be read.
fn take<T: DeserializeOwned, S>(mut table: toml::Table, reading: &mut Reading<S>) -> Option<T> {
    loop {
        let error = match serde_path_to_error::deserialize(toml::Value::Table(table.clone())) {
            Ok(settings) => return Some(settings),
            Err(error) => error,
        };
        let path = error.path();
        let key = path.to_string();
        let whole = key == ".";
        let problem = Problem {
            place: nearest_place(&reading.places, &key),
            key: if whole { String::new() } else { key },
            text: rewrite_message(error.inner().message()),
        };
        reading.problems.push(problem);
        if whole || !remove(&mut table, path) {
            return None;
        }
    }
}

/// Removes the value at the path; `false` if there is none.
fn remove(table: &mut toml::Table, path: &serde_path_to_error::Path) -> bool {
    use serde_path_to_error::Segment;
    let segments: Vec<_> = path.iter().collect();
    let Some((Segment::Map { key: first }, rest)) = segments.split_first() else { return false };
    // Removes the whole array: a part of it would be a different setting.
    let maps = rest.iter().map_while(|segment| match segment {
        Segment::Map { key } => Some(key.as_str()),
        _ => None,
    });
    let keys: Vec<&str> = std::iter::once(first.as_str()).chain(maps).collect();
    let Some((last, parents)) = keys.split_last() else { return false };
    let mut table = table;
    for parent in parents {
        match table.get_mut(*parent) {
            Some(toml::Value::Table(inner)) => table = inner,
            _ => return false,
        }
    }
    table.remove(*last).is_some()
}

fn nearest_place(places: &BTreeMap<String, Place>, key: &str) -> Option<Place> {
    let mut key = key;
    loop {
        if let Some(place) = places.get(key) {
            return Some(*place);
        }
        key = &key[..key.rfind(['.', '['])?];
    }
}

fn locate(text: &str, prefix: &str, table: &DeTable<'_>, places: &mut BTreeMap<String, Place>) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        places.insert(key.clone(), place(text, name.span().start));
        locate_value(text, &key, value.get_ref(), places);
    }
}

fn locate_value(text: &str, key: &str, value: &DeValue<'_>, places: &mut BTreeMap<String, Place>) {
    match value {
        DeValue::Table(inner) => locate(text, &format!("{key}."), inner, places),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let key = format!("{key}[{index}]");
                places.insert(key.clone(), place(text, item.span().start));
                locate_value(text, &key, item.get_ref(), places);
            }
        }
        _ => {}
    }
}

fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Place { line: 1 + before.matches('\n').count(), column: 1 + before[line_start..].chars().count() }
}

/// The parser's message for a duplicate key.
const DUPLICATE: &str = "duplicate key";

/// The key in a part of the text.
fn named(text: &str, span: std::ops::Range<usize>) -> Option<String> {
    let key = text.get(span)?.trim().trim_matches(['"', '\'']);
    (!key.is_empty() && !key.contains(char::is_whitespace)).then(|| key.to_owned())
}

/// A parser message, rewritten for people who edit settings.
fn rewrite_message(message: &str) -> String {
    let message = one_line(message);
    if message == DUPLICATE {
        return "is set twice; keep one".to_owned();
    }
    let Some((found, wanted)) = message.split_once(", expected ") else { return message };
    let Some((_, found)) = found.split_once(": ") else { return message };
    let wanted = match wanted {
        "a string" => "a string in quotes",
        "path string" => "a path in quotes",
        "a boolean" => "`true` or `false`",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list in brackets",
        other => other,
    };
    format!("invalid value {found}: write {wanted}")
}

fn one_line(text: &str) -> String {
    text.trim().replace('\n', " ")
}

/// All keys and their sections.
struct Keys<'a> {
    values: BTreeSet<&'a str>,
    sections: BTreeSet<&'a str>,
}

impl<'a> Keys<'a> {
    fn of(known: &'a [String]) -> Self {
        let values = known.iter().map(String::as_str).collect();
        let sections =
            known.iter().flat_map(|key| key.match_indices('.').map(|(at, _)| &key[..at])).collect::<BTreeSet<_>>();
        Self { values, sections }
    }

    /// Removes every unknown key and returns it with the reason.
    fn refuse(&self, prefix: &str, table: &mut toml::Table) -> Vec<(String, String)> {
        let mut refused = Vec::new();
        table.retain(|name, value| {
            let key = format!("{prefix}{name}");
            if self.values.contains(key.as_str()) {
                return true;
            }
            if !self.sections.contains(key.as_str()) {
                refused.push((key.clone(), self.unknown(&key)));
                return false;
            }
            match value {
                toml::Value::Table(inner) => {
                    refused.extend(self.refuse(&format!("{key}."), inner));
                    true
                }
                _ => {
                    refused.push((key.clone(), format!("is a section, not a value: write `[{key}]` above its keys")));
                    false
                }
            }
        });
        refused
    }

    fn unknown(&self, key: &str) -> String {
        match self.nearest(key) {
            Some(nearest) => format!("unknown setting; did you mean `{nearest}`?"),
            None => {
                let section = key.rfind('.').map(|at| &key[..=at]).unwrap_or_default();
                let temporary: Vec<_> = (self.values.iter().chain(&self.sections))
                    .filter_map(|known| known.strip_prefix(section))
                    .filter(|name| !name.contains('.'))
                    .collect();
                format!(
                    "unknown setting; available here: {}",
                    temporary.iter().fold(String::new(), |list, name| {
                        if list.is_empty() { format!("`{name}`") } else { format!("{list}, `{name}`") }
                    })
                )
            }
        }
    }

    /// The most similar key; the same section is preferred.
    fn nearest(&self, key: &str) -> Option<&'a str> {
        let (section, name) = split(key);
        let distance_max = tolerated(name);
        let scored = self.values.iter().chain(&self.sections).filter_map(|known| {
            let (known_section, known_name) = split(known);
            let part = name.len() >= 3 && (known_name.starts_with(name) || name.starts_with(known_name));
            let names = distance(name, known_name).min(if part { 1 } else { usize::MAX });
            let sections = distance(section, known_section);
            // A wrong section is allowed for an exact name, a nearly right one for any.
            let fits = names <= distance_max && (sections <= 2 || names == 0);
            fits.then_some(((names + sections.min(3), sections), *known))
        });
        scored.min_by_key(|(score, _)| *score).map(|(_, known)| known)
    }
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

#[cfg(test)]
mod tests;
