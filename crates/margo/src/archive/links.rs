//! Links inside an archive, read as their targets (COMP-05): no link is ever followed on a disk.

use super::{ArchiveError, Entry, PATH_BYTES_MAX, Unpacked};
use std::collections::{BTreeMap, HashSet};

/// How many links one path may pass through, as on common systems.
const STEPS_MAX: usize = 40;

/// A link in an archive.
pub(super) struct Link {
    pub(super) path: String,
    /// `None` if it is absolute or not UTF-8, which has no target inside.
    target: Option<String>,
    /// Whether the target is relative to the root of the archive, not to the folder of the link.
    hard: bool,
}

impl Link {
    pub(super) fn new(path: String, target: &[u8], hard: bool) -> Self {
        let odd = |target: &&str| target.is_empty() || target.len() > PATH_BYTES_MAX || target.starts_with('/');
        let target = std::str::from_utf8(target).ok().filter(|target| !odd(target) && !target.contains(['\\', '\0']));
        Self { path, target: target.map(str::to_owned), hard }
    }
}

/// The files of an archive and, at the path of each link, its target.
pub(super) fn follow(unpacked: Unpacked) -> Result<Vec<Entry>, ArchiveError> {
    let Unpacked { limits, files, links, folders, bytes, .. } = unpacked;
    if links.is_empty() {
        return Ok(files);
    }
    let tree = Tree {
        files: files.iter().map(|entry| (entry.path.as_str(), entry.bytes.as_slice())).collect(),
        links: links.iter().map(|link| (link.path.as_str(), link)).collect(),
        folders: &folders,
    };
    let paths = files.iter().map(|entry| &entry.path).chain(links.iter().map(|link| &link.path)).chain(&folders);
    if let Some(path) = paths.into_iter().find(|path| tree.is_below_link(path)) {
        return Err(ArchiveError::BelowLink(path.clone()));
    }
    let mut found = Found { entries: Vec::new(), left: limits.entries_max.saturating_sub(files.len()), bytes, limits };
    for link in &links {
        tree.place(link, &link.path, &mut Vec::new(), &mut found)?;
    }
    let entries = found.entries;
    Ok(files.into_iter().chain(entries).collect())
}

/// Limits for link targets, the same as for the archive itself: links to links to folders multiply.
struct Found {
    entries: Vec<Entry>,
    left: usize,
    bytes: u64,
    limits: super::Limits,
}

impl Found {
    fn add(&mut self, path: String, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.left = self.left.checked_sub(1).ok_or(ArchiveError::TooManyEntries(self.limits.entries_max))?;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limits.total_bytes_max {
            return Err(ArchiveError::TooLarge(self.limits.total_bytes_max));
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(ArchiveError::Escapes(path.chars().take(200).collect()));
        }
        self.entries.push(Entry { path, bytes: bytes.to_vec() });
        Ok(())
    }
}

struct Tree<'a> {
    files: BTreeMap<&'a str, &'a [u8]>,
    links: BTreeMap<&'a str, &'a Link>,
    folders: &'a HashSet<String>,
}

impl<'a> Tree<'a> {
    fn is_below_link(&self, path: &str) -> bool {
        path.match_indices('/').any(|(at, _)| self.links.contains_key(&path[..at]))
    }

    /// Puts the target of `link` at `path`. `open` are the links to folders that are being placed.
    fn place(
        &self,
        link: &'a Link,
        path: &str,
        open: &mut Vec<&'a str>,
        found: &mut Found,
    ) -> Result<(), ArchiveError> {
        let target = self.resolve(link)?;
        if let Some(bytes) = self.files.get(target.as_str()) {
            return found.add(path.to_owned(), bytes);
        }
        let below = format!("{target}/");
        if open.contains(&link.path.as_str()) || link.path.starts_with(&below) {
            return Err(ArchiveError::Circular(link.path.clone()));
        }
        let inside = |path: &str| path.strip_prefix(&below).map(str::to_owned);
        let mut seen = self.folders.contains(&target) || self.folders.iter().any(|folder| folder.starts_with(&below));
        open.push(&link.path);
        for (rest, bytes) in self.files.iter().filter_map(|(path, bytes)| Some((inside(path)?, bytes))) {
            seen = true;
            found.add(format!("{path}/{rest}"), bytes)?;
        }
        for (rest, inner) in self.links.iter().filter_map(|(path, inner)| Some((inside(path)?, inner))) {
            seen = true;
            self.place(inner, &format!("{path}/{rest}"), open, found)?;
        }
        open.pop();
        if seen { Ok(()) } else { Err(ArchiveError::Dangling(link.path.clone())) }
    }

    /// The path a link points to, through other links if needed, never out of its top-level folder.
    fn resolve(&self, link: &Link) -> Result<String, ArchiveError> {
        let escapes = || ArchiveError::Escapes(link.path.clone());
        let top = link.path.split_once('/').map(|(top, _)| top);
        let mut place: Vec<&str> = Vec::new();
        let mut ahead: Vec<&str> = Vec::new();
        let mut steps = 0;
        let mut next = Some(link);
        loop {
            if let Some(link) = next.take() {
                steps += 1;
                if steps > STEPS_MAX {
                    return Err(ArchiveError::Circular(link.path.clone()));
                }
                // From the folder of the link as written: no entry is below a link.
                place = if link.hard { Vec::new() } else { link.path.split('/').collect() };
                place.pop();
                ahead.extend(link.target.as_deref().ok_or_else(escapes)?.rsplit('/'));
            }
            match ahead.pop() {
                None => break,
                Some("" | ".") => continue,
                Some("..") if place.len() > usize::from(top.is_some()) => {
                    place.pop();
                }
                Some("..") => return Err(escapes()),
                Some(name) if place.is_empty() && top.is_some_and(|top| top != name) => return Err(escapes()),
                Some(name) => place.push(name),
            }
            next = self.links.get(place.join("/").as_str()).copied();
        }
        Ok(place.join("/"))
    }
}

#[cfg(test)]
mod tests;
