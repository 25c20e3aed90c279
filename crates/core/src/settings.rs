//! Settings files (TOML): every problem at once, each with line, column, key and what to write instead.

use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A settings file is written by people; more than this is another file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Where a key stands in the file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// One thing that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Nothing for what is not in the file.
    pub place: Option<Place>,
    /// Dotted, such as `listeners.devices.address`; empty for what is wrong with the file as a whole.
    pub key: String,
    /// What is wrong and what to do.
    pub text: String,
}

/// What was read, as far as it could be.
#[derive(Debug)]
pub struct Reading<T> {
    /// Everything that can be used; keys with problems are left out, as if they were not in the file.
    pub settings: Option<T>,
    pub problems: Vec<Problem>,
    /// Where each key stands.
    pub places: BTreeMap<String, Place>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// All problems of a file, one a line.
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

/// Reads a text. `known` are all keys there are; what lies inside an array is left to the type.
pub fn read<T: DeserializeOwned>(text: &str, known: &[String]) -> Reading<T> {
    let mut reading = Reading { settings: None, problems: Vec::new(), places: BTreeMap::new() };
    if text.len() > FILE_BYTES_MAX {
        let text = format!("the file has more than {FILE_BYTES_MAX} bytes, which no settings file needs");
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
            text: plainly(error.message()),
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

/// Deserialises; a value that cannot be used is noted and left out, until the rest can be.
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
            text: plainly(error.inner().message()),
        };
        reading.problems.push(problem);
        if whole || !remove(&mut table, path) {
            return None;
        }
    }
}

/// Takes the value at the path away; `false` when there is none.
fn remove(table: &mut toml::Table, path: &serde_path_to_error::Path) -> bool {
    use serde_path_to_error::Segment;
    let segments: Vec<_> = path.iter().collect();
    let Some((Segment::Map { key: first }, rest)) = segments.split_first() else { return false };
    // An array loses all of itself: what is left of it would be another setting.
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

/// The parser's word for a key that is there twice.
const DUPLICATE: &str = "duplicate key";

/// The key that stands in a stretch of the text.
fn named(text: &str, span: std::ops::Range<usize>) -> Option<String> {
    let key = text.get(span)?.trim().trim_matches(['"', '\'']);
    (!key.is_empty() && !key.contains(char::is_whitespace)).then(|| key.to_owned())
}

/// What a parser says, in words for people who write settings.
fn plainly(message: &str) -> String {
    let message = one_line(message);
    if message == DUPLICATE {
        return "is there twice; keep one".to_owned();
    }
    let Some((found, wanted)) = message.split_once(", expected ") else { return message };
    let Some((_, found)) = found.split_once(": ") else { return message };
    let wanted = match wanted {
        "a string" => "a text in quotes",
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
    format!("{found} is not what belongs here: write {wanted}")
}

fn one_line(text: &str) -> String {
    text.trim().replace('\n', " ")
}

/// The keys there are, and the sections they are in.
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

    /// Takes every key out that is none, and says why.
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
            Some(nearest) => format!("there is no such setting; did you mean `{nearest}`?"),
            None => {
                let section = key.rfind('.').map(|at| &key[..=at]).unwrap_or_default();
                let beside: Vec<_> = (self.values.iter().chain(&self.sections))
                    .filter_map(|known| known.strip_prefix(section))
                    .filter(|name| !name.contains('.'))
                    .collect();
                format!(
                    "there is no such setting; here are: {}",
                    beside.iter().fold(String::new(), |list, name| {
                        if list.is_empty() { format!("`{name}`") } else { format!("{list}, `{name}`") }
                    })
                )
            }
        }
    }

    /// The key that was probably meant: nearly the same name, here rather than elsewhere.
    fn nearest(&self, key: &str) -> Option<&'a str> {
        let (section, name) = split(key);
        // Two characters swapped are two changes.
        let distance_max = (name.chars().count() / 3).max(if name.len() > 3 { 2 } else { 1 });
        let scored = self.values.iter().chain(&self.sections).filter_map(|known| {
            let (known_section, known_name) = split(known);
            let part = name.len() >= 3 && (known_name.starts_with(name) || name.starts_with(known_name));
            let names = distance(name, known_name).min(if part { 1 } else { usize::MAX });
            let sections = distance(section, known_section);
            // A wrong section is allowed for a name that is right, a nearly right one for any.
            let fits = names <= distance_max && (sections <= 2 || names == 0);
            fits.then_some(((names + sections.min(3), sections), *known))
        });
        scored.min_by_key(|(score, _)| *score).map(|(_, known)| known)
    }
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// How many characters to change, add or take away to make one text the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, candidate) in other.iter().enumerate() {
            let changed = diagonal + usize::from(character != *candidate);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
