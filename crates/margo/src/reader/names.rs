//! Names that other parts of a document refer to, collected from all readable parts.
//!
//! A reference is checked against the existing names, even if the objects with these names are invalid in other ways.
//! Only if a name itself is unreadable, the check of a reference is undecided; then the finding about
//! that name says that further checks wait for it.

use super::{Cursor, FINDINGS_MAX};
use crate::node::{Kind, Node};
use std::cell::Cell;
use std::collections::HashSet;

/// Whether a name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Yes,
    No,
    /// Some names are unreadable, and it may be one of them.
    Unsure,
}

#[derive(Debug, Default)]
pub(crate) struct Names<'r> {
    read: HashSet<&'r str>,
    /// Paths of unreadable names; each has a finding.
    unread: Vec<String>,
    /// Whether a lookup was undecided because of an unreadable name.
    wanted: Cell<bool>,
}

impl<'r> Names<'r> {
    /// The keys of an object, which may be absent.
    pub(crate) fn of_keys(object: Option<&Cursor<'r>>) -> Self {
        let mut names = Self::default();
        match object.map(|cursor| (cursor, &cursor.node.kind)) {
            None => {}
            Some((_, Kind::Mapping(members))) => names.read.extend(members.iter().map(|member| member.key.as_str())),
            Some((cursor, _)) => names.unread.push(cursor.path.clone()),
        }
        names
    }

    /// The items of the list under a key, which must exist.
    pub(crate) fn items(&mut self, at: &Cursor<'r>, key: &str) -> Vec<Cursor<'r>> {
        match self.member(at, key) {
            Some(cursor) if matches!(cursor.node.kind, Kind::Sequence(_)) => cursor.items(),
            Some(cursor) => {
                self.unread.push(cursor.path);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Takes the name under a key, which must exist.
    pub(crate) fn take(&mut self, at: &Cursor<'r>, key: &str) {
        if let Some(cursor) = self.member(at, key) {
            match text_of(cursor.node) {
                Some(text) => {
                    self.read.insert(text);
                }
                None => self.unread.push(cursor.path),
            }
        }
    }

    fn member(&mut self, at: &Cursor<'r>, key: &str) -> Option<Cursor<'r>> {
        let found = at.peek(key);
        if found.is_none() {
            let whole = matches!(at.node.kind, Kind::Mapping(_));
            self.unread.push(if whole { at.path_of(key) } else { at.path.clone() });
        }
        found
    }

    pub(crate) fn holds(&self, name: &str) -> Known {
        if self.read.contains(name) {
            return Known::Yes;
        }
        if self.unread.is_empty() {
            return Known::No;
        }
        self.wanted.set(true);
        Known::Unsure
    }

    /// Adds to the findings about unreadable names that further checks wait for them, if a lookup was undecided.
    pub(crate) fn report_unused(&self, root: &Cursor<'_>, what: &str) {
        if self.wanted.get() {
            self.unread.iter().take(FINDINGS_MAX).for_each(|path| root.blocks_check(path, what));
        }
    }
}

/// A name as written.
pub(super) fn text_of(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar { text, .. } if !node.is_null() => Some(text),
        _ => None,
    }
}
