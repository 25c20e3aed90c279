//! tar.gz: reads within limits and rejects tricks; writes reproducibly.

mod kind;
mod links;

pub use kind::Kind;

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use links::Link;
use std::cell::Cell;
use std::collections::HashSet;
use std::io::Read;
use std::rc::Rc;
use tar::EntryType;

/// Bytes of tar around one entry: its header, a long name, padding.
const ENTRY_OVERHEAD_BYTES: u64 = 4 * 512;
/// Headers before one entry: its own, and those with a long name.
const HEADERS_BYTES_MAX: u64 = 64 * 512;
/// Padding at the end: writers fill up to a record of 20 blocks.
const END_BYTES_MAX: u64 = 64 * 512;
/// The longest path of an entry, as on common file systems.
const PATH_BYTES_MAX: usize = 4096;
const ZEROS: [u8; 4096] = [0; 4096];

/// Limits for unpacking. A hostile archive is rejected before it costs more than these.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub entries_max: usize,
    pub entry_bytes_max: u64,
    pub total_bytes_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative, `/`-separated, without `.` and `..`.
    pub path: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    #[error("archive is damaged: {0}")]
    Damaged(String),
    #[error("archive holds more than {0} entries")]
    TooManyEntries(usize),
    #[error("entry `{path}` is larger than {max} bytes")]
    EntryTooLarge { path: String, max: u64 },
    #[error("archive unpacks to more than {0} bytes")]
    TooLarge(u64),
    #[error("entry `{0}` would leave the folder it is unpacked into")]
    Escapes(String),
    #[error("entry `{0}` is a link or a special file; only plain files and folders are allowed")]
    NotAFile(String),
    #[error("entry `{0}` occurs twice")]
    Duplicate(String),
    #[error("link `{0}` has no target in the archive")]
    Dangling(String),
    #[error("link `{0}` points to itself")]
    Circular(String),
    #[error("entry `{0}` is below a link; store it below the link's target")]
    BelowLink(String),
}

/// All plain files of a tar.gz, in archive order. Exactly one gzip member, nothing before or after it.
pub fn unpack(gz: &[u8], limits: Limits) -> Result<Vec<Entry>, ArchiveError> {
    plain_files(read(gz, limits)?)
}

/// As [`unpack`], for a tar that may be compressed or not.
pub fn unpack_maybe_compressed(bytes: &[u8], limits: Limits) -> Result<Vec<Entry>, ArchiveError> {
    if Kind::of(bytes) != Kind::Tar {
        return unpack(bytes, limits);
    }
    let (unpacked, _) = read_tar(bytes, limits)?;
    plain_files(unpacked)
}

/// As [`unpack`], with links that stay inside their top-level folder: each is read as its target, so that no link
/// is ever created from an archive. A link that leaves its folder, has no target or points to itself is an error.
pub fn unpack_with_links(gz: &[u8], limits: Limits) -> Result<Vec<Entry>, ArchiveError> {
    links::follow(read(gz, limits)?)
}

fn plain_files(unpacked: Unpacked) -> Result<Vec<Entry>, ArchiveError> {
    match unpacked.links.into_iter().next() {
        Some(link) => Err(ArchiveError::NotAFile(link.path)),
        None => Ok(unpacked.files),
    }
}

fn read(gz: &[u8], limits: Limits) -> Result<Unpacked, ArchiveError> {
    let (unpacked, rest) = read_tar(GzDecoder::new(gz), limits)?;
    if rest.into_inner().is_empty() {
        Ok(unpacked)
    } else {
        Err(ArchiveError::Damaged("unexpected data after its end".to_owned()))
    }
}

/// With the stream it was read from, at its end.
fn read_tar<R: Read>(stream: R, limits: Limits) -> Result<(Unpacked, R), ArchiveError> {
    let stream_max = limits
        .total_bytes_max
        .saturating_add(ENTRY_OVERHEAD_BYTES.saturating_mul(limits.entries_max as u64 + 1))
        .saturating_add(END_BYTES_MAX);
    let allowance = Rc::new(Cell::new(0));
    let stream = Bounded { inner: stream, left: stream_max, allowance: Rc::clone(&allowance), ended_in_zeros: false };
    let mut archive = tar::Archive::new(stream);
    let mut unpacked = Unpacked { limits, ..Unpacked::default() };
    let mut entries = archive.entries().map_err(damaged(limits))?;
    loop {
        allowance.set(HEADERS_BYTES_MAX);
        let Some(entry) = entries.next() else { break };
        unpacked.take(entry.map_err(damaged(limits))?, &allowance)?;
    }
    let mut rest = archive.into_inner();
    if !rest.ended_in_zeros {
        return Err(ArchiveError::Damaged("it ends before its end marker".to_owned()));
    }
    allowance.set(END_BYTES_MAX);
    rest.drain().map_err(damaged(limits))?;
    Ok((unpacked, rest.inner))
}

#[derive(Default)]
struct Unpacked {
    limits: Limits,
    files: Vec<Entry>,
    links: Vec<Link>,
    folders: HashSet<String>,
    names: HashSet<String>,
    entries: usize,
    bytes: u64,
}

impl Unpacked {
    fn take<R: Read>(&mut self, mut entry: tar::Entry<'_, R>, allowance: &Cell<u64>) -> Result<(), ArchiveError> {
        let limits = self.limits;
        self.entries += 1;
        if self.entries > limits.entries_max {
            return Err(ArchiveError::TooManyEntries(limits.entries_max));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let raw = entry.path_bytes().into_owned();
        let shown: String = String::from_utf8_lossy(&raw[..raw.len().min(200)]).into_owned();
        let is_link = match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => false,
            EntryType::Symlink | EntryType::Link => true,
            _ => return Err(ArchiveError::NotAFile(shown)),
        };
        let path = safe_path(&raw).ok_or_else(|| ArchiveError::Escapes(shown.clone()))?;
        if kind == EntryType::Directory {
            self.folders.insert(path);
            return Ok(());
        }
        // An empty path is the folder itself, which no file can be.
        if path.is_empty() {
            return Err(ArchiveError::Escapes(shown));
        }
        if !self.names.insert(path.clone()) {
            return Err(ArchiveError::Duplicate(shown));
        }
        if is_link {
            let target = entry.link_name_bytes().unwrap_or_default();
            self.links.push(Link::new(path, &target, kind == EntryType::Link));
            return Ok(());
        }
        // The declared size is checked before anything is read.
        let size = entry.size();
        if size > limits.entry_bytes_max {
            return Err(ArchiveError::EntryTooLarge { path: shown, max: limits.entry_bytes_max });
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > limits.total_bytes_max {
            return Err(ArchiveError::TooLarge(limits.total_bytes_max));
        }
        allowance.set(size);
        let mut bytes = Vec::new();
        entry.by_ref().take(size).read_to_end(&mut bytes).map_err(damaged(limits))?;
        if bytes.len() as u64 != size {
            return Err(ArchiveError::Damaged(format!("entry `{shown}` is cut off")));
        }
        self.files.push(Entry { path, bytes });
        Ok(())
    }
}

/// A relative path without `.`, or `None` if it is absolute, contains `..`, or is not UTF-8.
fn safe_path(raw: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(raw).ok()?;
    if text.len() > PATH_BYTES_MAX || text.starts_with('/') || text.contains(['\\', '\0']) {
        return None;
    }
    let mut segments = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => return None,
            // `C:` would be absolute on some systems.
            _ if segments.is_empty() && segment.contains(':') => return None,
            _ => segments.push(segment),
        }
    }
    Some(segments.join("/"))
}

fn damaged(limits: Limits) -> impl Fn(std::io::Error) -> ArchiveError {
    move |error| match error.get_ref().and_then(|inner| inner.downcast_ref::<StreamTooLong>()) {
        Some(_) => ArchiveError::TooLarge(limits.total_bytes_max),
        // The tar library wraps errors in its own, so only the text is left of the cause.
        None if error.to_string().contains(STREAM_TOO_LONG) => ArchiveError::TooLarge(limits.total_bytes_max),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => ArchiveError::Damaged(CUT_OFF.to_owned()),
        None => ArchiveError::Damaged(error.to_string()),
    }
}

const CUT_OFF: &str = "it ends too early, as if it had not been copied completely";
const STREAM_TOO_LONG: &str = "unpacks to more than is allowed";

#[derive(Debug, thiserror::Error)]
#[error("{STREAM_TOO_LONG}")]
struct StreamTooLong;

/// Stops a stream that unpacks to more than its limit.
struct Bounded<R> {
    inner: R,
    left: u64,
    /// What the current step may read: the headers of one entry, its content, the end.
    allowance: Rc<Cell<u64>>,
    /// The last block read was all zeros, as at the end of a tar.
    ended_in_zeros: bool,
}

impl<R: Read> Bounded<R> {
    /// Reads to the end, so that the checksum is verified; only zeros may come.
    fn drain(&mut self) -> std::io::Result<()> {
        let mut buffer = ZEROS;
        loop {
            let count = self.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            if buffer[..count] != ZEROS[..count] {
                return Err(std::io::Error::other("unexpected data after its end marker"));
            }
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let spend = |left: u64| left.checked_sub(count as u64).ok_or_else(|| std::io::Error::other(StreamTooLong));
        self.left = spend(self.left)?;
        self.allowance.set(spend(self.allowance.get())?);
        if count > 0 {
            self.ended_in_zeros = count <= 512 && buffer[..count] == ZEROS[..count];
        }
        Ok(count)
    }
}

/// A reproducible tar.gz: sorted names, mode 0644, uid/gid 0, time 0, bare gzip header (W-20).
///
/// Paths must be relative and without `..`; anything else is a bug of the caller.
pub fn pack(entries: &[(String, &[u8])]) -> Vec<u8> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    let gz = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    let mut builder = tar::Builder::new(gz);
    for (path, bytes) in sorted {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, path, *bytes).expect("memory takes every write, and the path is relative");
    }
    builder.into_inner().and_then(flate2::write::GzEncoder::finish).expect("memory takes every write")
}

#[cfg(test)]
mod tests;
