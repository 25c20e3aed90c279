//! Names that other parts of a document refer to, gathered from whatever could be read of them.
//!
//! A reference is held against the names that are there, also when the things that bear them are broken in other ways.
//! Only where a name itself cannot be read it cannot be told whether a reference leads anywhere; then the finding about
//! that name says that further checks wait for it.

use super::{Cursor, FINDINGS_MAX};
use crate::node::{Kind, Node};
use std::cell::Cell;
use std::collections::HashSet;

/// Whether a name is one of those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Yes,
    No,
    /// Some names cannot be read, and it may be one of them.
    Unsure,
}

#[derive(Debug, Default)]
pub(crate) struct Names<'r> {
    read: HashSet<&'r str>,
    /// Paths of what keeps names from being read; a finding stands at each.
    unread: Vec<String>,
    /// Whether somebody asked for a name that may be an unread one.
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

    /// The items of the list under a key, which must be there.
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

    /// Takes the name under a key, which must be there.
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

    /// Says at what could not be read that further checks wait for it, where one did.
    pub(crate) fn tell(&self, root: &Cursor<'_>, what: &str) {
        if self.wanted.get() {
            self.unread.iter().take(FINDINGS_MAX).for_each(|path| root.needed_for(path, what));
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
