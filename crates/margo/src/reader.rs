//! A cursor over a parsed document that collects every finding with its path and line.

use crate::description::Extensions;
use crate::finding::{Finding, Findings, Read, ReadResult, Severity};
use crate::node::{Format, Kind, Limits, Member, Node, Scalar, Style, resolve};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::str::FromStr;

pub(crate) mod names;

/// The most findings of one document: people read no more, and a hostile document could produce very many.
pub const FINDINGS_MAX: usize = 500;
/// The message for a problem that prevents other checks.
pub const FIX_FIRST: &str = "fix this first, it blocks further checks";
/// The longest piece of a document repeated in a path or a message.
const SHOWN_CHARS_MAX: usize = 80;

/// Collects the findings of one document.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    findings: RefCell<Vec<Finding>>,
    /// Problems beyond the limit.
    errors_left_out: Cell<usize>,
}

/// A position in a document.
#[derive(Debug, Clone)]
pub struct Cursor<'r> {
    node: &'r Node,
    path: String,
    reader: &'r Reader,
}

/// An object whose members are being read.
#[derive(Debug)]
pub struct Object<'r> {
    cursor: Cursor<'r>,
    members: &'r [Member],
    seen: RefCell<Vec<&'r str>>,
}

/// Parses YAML and passes its root to `read`, which returns `None` if a finding says why.
pub fn read_yaml<T>(bytes: &[u8], read: impl FnOnce(&Cursor<'_>) -> Option<T>) -> ReadResult<T> {
    let (node, found) = crate::yaml::parse_on(bytes, Limits::DOCUMENT)?;
    read_node(&node, Format::Yaml, found, read)
}

/// The same for JSON.
pub fn read_json<T>(bytes: &[u8], limits: Limits, read: impl FnOnce(&Cursor<'_>) -> Option<T>) -> ReadResult<T> {
    read_node(&crate::json::parse(bytes, limits)?, Format::Json, Vec::new(), read)
}

fn read_node<T>(
    node: &Node,
    format: Format,
    found: Vec<Finding>,
    read: impl FnOnce(&Cursor<'_>) -> Option<T>,
) -> ReadResult<T> {
    let reader = Reader { format, findings: RefCell::new(found), errors_left_out: Cell::default() };
    let document = read(&Cursor { node, path: String::new(), reader: &reader });
    let left_out = reader.errors_left_out.get();
    let mut findings = reader.findings.into_inner();
    findings.sort_by_key(|finding| finding.line);
    if left_out > 0 {
        findings.push(Finding::closing(left_out));
    }
    let has_errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    match document {
        Some(document) if !has_errors => Ok(Read { document, warnings: findings }),
        _ if has_errors => Err(Findings(findings)),
        _ => Err(Findings::one("", "the document cannot be read")),
    }
}

/// Text from a document, cut to fit a message.
pub fn shown(text: &str) -> String {
    if text.chars().nth(SHOWN_CHARS_MAX).is_none() {
        return text.to_owned();
    }
    text.chars().take(SHOWN_CHARS_MAX).chain(['…']).collect()
}

impl<'r> Cursor<'r> {
    pub fn path(&self) -> &str {
        &self.path
    }
    pub fn node(&self) -> &'r Node {
        self.node
    }

    pub fn error(&self, message: impl Into<String>) {
        self.note(Severity::Error, &self.path, self.node.line, message.into());
    }
    pub fn warning(&self, message: impl Into<String>) {
        self.note(Severity::Warning, &self.path, self.node.line, message.into());
    }

    fn note(&self, severity: Severity, path: &str, line: usize, message: String) {
        let mut findings = self.reader.findings.borrow_mut();
        // Warnings are dropped first: the error that makes a document unusable must never be lost.
        if findings.len() < FINDINGS_MAX || (severity == Severity::Error && findings.len() < 2 * FINDINGS_MAX) {
            findings.push(Finding { severity, path: path.to_owned(), line: Some(line), message });
        } else if severity == Severity::Error {
            self.reader.errors_left_out.set(self.reader.errors_left_out.get() + 1);
        }
    }

    /// Adds to the problem with this path that `what` can be checked only after it is fixed.
    pub(crate) fn blocks_check(&self, path: &str, what: &str) {
        if self.reader.errors_left_out.get() > 0 {
            // A flood; searching all of it for every position would cost too much.
            return;
        }
        let mut findings = self.reader.findings.borrow_mut();
        let at = |finding: &&mut Finding| finding.severity == Severity::Error && finding.path == path;
        // Usually it is the newest.
        if let Some(finding) = findings.iter_mut().rev().find(at)
            && !finding.message.contains(FIX_FIRST)
        {
            finding.message = format!("{}; {FIX_FIRST}: {what}", finding.message);
        }
    }

    /// A member that is present and not null, without a finding if it is absent.
    pub(crate) fn peek(&self, key: &str) -> Option<Cursor<'r>> {
        let Kind::Mapping(members) = &self.node.kind else { return None };
        let member = members.iter().find(|member| member.key == key && !member.node.is_null())?;
        Some(Cursor { node: &member.node, path: self.path_of(key), reader: self.reader })
    }

    /// The text of such a member.
    pub(crate) fn peek_text(&self, key: &str) -> Option<&'r str> {
        self.peek(key).and_then(|cursor| names::text_of(cursor.node))
    }

    /// The items of a list, empty for any other kind, without a finding.
    pub(crate) fn items(&self) -> Vec<Cursor<'r>> {
        let Kind::Sequence(items) = &self.node.kind else { return Vec::new() };
        let item = |(index, node)| Cursor { node, path: format!("{}[{index}]", self.path), reader: self.reader };
        items.iter().enumerate().map(item).collect()
    }

    /// The path of a member, whether or not it exists.
    fn path_of(&self, key: &str) -> String {
        let key = shown(key);
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }

    fn wrong_kind<T>(&self, expected: &str) -> Option<T> {
        self.error(format!("must be {expected}, not {}", self.node.describe()));
        None
    }

    pub fn object(&self) -> Option<Object<'r>> {
        match &self.node.kind {
            Kind::Mapping(members) => {
                Some(Object { cursor: self.clone(), members, seen: RefCell::new(Vec::with_capacity(members.len())) })
            }
            _ => self.wrong_kind("an object"),
        }
    }

    pub fn list(&self) -> Option<Vec<Cursor<'r>>> {
        match &self.node.kind {
            Kind::Sequence(_) => Some(self.items()),
            _ => self.wrong_kind("a list"),
        }
    }

    /// Every item read by `read`; `None` if one of them failed.
    pub fn list_of<T>(&self, read: impl Fn(&Cursor<'r>) -> Option<T>) -> Option<Vec<T>> {
        let read: Vec<Option<T>> = self.list()?.iter().map(read).collect();
        read.into_iter().collect()
    }

    /// The members of a map with free keys.
    pub fn entries(&self) -> Option<Vec<(&'r str, Cursor<'r>)>> {
        let object = self.object()?;
        Some(object.members.iter().map(|member| (member.key.as_str(), object.at(member))).collect())
    }

    /// Where text is expected, YAML's plain scalars count as written: `1.10` stays `1.10`.
    pub fn text(&self) -> Option<String> {
        match &self.node.kind {
            Kind::Scalar { text, style: Style::Quoted } => Some(text.clone()),
            Kind::Scalar { text, style: Style::Plain }
                if self.reader.format == Format::Yaml && !self.node.is_null() =>
            {
                Some(text.clone())
            }
            _ => self.wrong_kind("text"),
        }
    }

    /// Text with a grammar of its own.
    pub fn parse<T: FromStr<Err: Display>>(&self) -> Option<T> {
        match self.text()?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(error.to_string());
                None
            }
        }
    }

    pub fn boolean(&self) -> Option<bool> {
        match self.scalar() {
            Some(Scalar::Boolean(boolean)) => Some(boolean),
            _ => self.wrong_kind("true or false"),
        }
    }

    /// Also accepts `"true"` and `"false"`, which published examples contain (DEP-04).
    pub fn lenient_boolean(&self) -> Option<bool> {
        match self.scalar() {
            Some(Scalar::Text(text)) if text == "true" || text == "false" => {
                self.warning(format!("is the text \"{text}\"; write {text} without quotes"));
                Some(text == "true")
            }
            _ => self.boolean(),
        }
    }

    /// A whole number from 0 to 2^64-1, exact; rejects `1.0` and `1e3`.
    pub fn unsigned(&self) -> Option<u64> {
        match self.scalar() {
            Some(Scalar::Number(number)) if number.is_u64() => number.as_u64(),
            Some(Scalar::Number(_) | Scalar::OutOfRange) => {
                self.error("must be a whole number from 0 to 18446744073709551615");
                None
            }
            _ => self.wrong_kind("a whole number"),
        }
    }

    pub fn float(&self) -> Option<f64> {
        match self.scalar() {
            Some(Scalar::Number(number)) => number.as_f64(),
            Some(Scalar::OutOfRange) => {
                self.error("is too large or not finite");
                None
            }
            _ => self.wrong_kind("a number"),
        }
    }

    /// The value with its own type.
    pub fn value(&self) -> Option<Value> {
        let value = self.node.to_value().ok();
        if value.is_none() {
            self.unrepresentable_numbers(self.node);
        }
        value
    }

    /// A problem for every number in a value that cannot be represented.
    fn unrepresentable_numbers(&self, node: &Node) {
        match &node.kind {
            Kind::Scalar { text, style } => {
                if resolve(text, *style) == Scalar::OutOfRange {
                    let message = "holds a number of more than 64 bits; put it in quotes if it is text".to_owned();
                    self.note(Severity::Error, &self.path, node.line, message);
                }
            }
            Kind::Sequence(items) => items.iter().for_each(|item| self.unrepresentable_numbers(item)),
            Kind::Mapping(members) => members.iter().for_each(|member| self.unrepresentable_numbers(&member.node)),
        }
    }

    pub fn scalar(&self) -> Option<Scalar> {
        match &self.node.kind {
            Kind::Scalar { text, style } => Some(resolve(text, *style)),
            _ => None,
        }
    }
}

impl<'r> Object<'r> {
    pub fn cursor(&self) -> &Cursor<'r> {
        &self.cursor
    }

    fn at(&self, member: &'r Member) -> Cursor<'r> {
        Cursor { node: &member.node, path: self.path_of(&member.key), reader: self.cursor.reader }
    }

    /// The path of a member, whether or not it exists.
    pub fn path_of(&self, key: &str) -> String {
        self.cursor.path_of(key)
    }

    /// The member, also if it is null.
    pub fn get_or_null(&self, key: &str) -> Option<Cursor<'r>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        self.seen.borrow_mut().push(&member.key);
        Some(self.at(member))
    }

    /// The member, unless it is absent or null.
    pub fn get(&self, key: &str) -> Option<Cursor<'r>> {
        self.get_or_null(key).filter(|cursor| !cursor.node.is_null())
    }

    pub fn required(&self, key: &str) -> Option<Cursor<'r>> {
        let found = self.get(key);
        if found.is_none() {
            self.missing(key, "is missing");
        }
        found
    }

    /// An error at an absent member.
    pub fn missing(&self, key: &str, message: &str) {
        self.cursor.note(Severity::Error, &self.path_of(key), self.cursor.node.line, message.to_owned());
    }

    pub fn required_text(&self, key: &str) -> Option<String> {
        self.required(key)?.text()
    }

    /// An optional member: absent is valid, present but wrong is a finding.
    pub fn optional<T>(&self, key: &str, read: impl FnOnce(&Cursor<'r>) -> Option<T>) -> Option<T> {
        self.get(key).and_then(|cursor| read(&cursor))
    }

    pub fn text(&self, key: &str) -> Option<String> {
        self.optional(key, Cursor::text)
    }

    /// `x-<name>-extensions` members (EXT-01). One that is not an object is ignored with a warning (EXT-02).
    pub fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        for member in self.members.iter().filter(|member| is_extension_key(&member.key)) {
            self.seen.borrow_mut().push(&member.key);
            let cursor = self.at(member);
            match &member.node.kind {
                Kind::Mapping(_) => {
                    if let Some(value) = cursor.value() {
                        extensions.insert(member.key.clone(), value);
                    }
                }
                _ => cursor.warning("is ignored: an extension must be an object"),
            }
        }
        extensions
    }

    /// Members that were not read.
    pub fn unread(&self) -> Vec<Cursor<'r>> {
        let seen = self.seen.borrow();
        let seen: std::collections::HashSet<&str> = seen.iter().copied().collect();
        self.members.iter().filter(|member| !seen.contains(member.key.as_str())).map(|member| self.at(member)).collect()
    }

    /// Warns about members that were not read: otherwise a typing error would go unnoticed.
    pub fn warn_unread(&self) {
        for cursor in self.unread() {
            cursor.warning("is not a field of the standard and is ignored");
        }
    }
}

/// `x-<name>-extensions` with a name of `[a-z][a-z0-9-]*` (EXT-01).
pub fn is_extension_key(key: &str) -> bool {
    key.strip_prefix("x-").and_then(|rest| rest.strip_suffix("-extensions")).is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    })
}
