//! The kind of a file by its first bytes, for messages about unexpected input.

use flate2::bufread::GzDecoder;
use std::io::Read as _;

/// How many bytes are inspected: one block of a tar, more than any signature needs.
const LOOKED_AT_BYTES: usize = 512;
const TAR_MARK: (usize, &[u8]) = (257, b"ustar");
/// Signatures of files and their kinds.
const MARKS: [(&[u8], Kind); 14] = [
    (b"\x1f\x8b", Kind::Gzip),
    (b"PK\x03\x04", Kind::Zip),
    (b"PK\x05\x06", Kind::Zip),
    (b"7z\xbc\xaf\x27\x1c", Kind::Other("a 7z archive")),
    (b"Rar!", Kind::Other("a RAR archive")),
    (b"\xfd7zXZ\x00", Kind::Other("an xz archive")),
    (b"BZh", Kind::Other("a bzip2 archive")),
    (b"\x28\xb5\x2f\xfd", Kind::Other("a zstd archive")),
    (b"!<arch>\n", Kind::Other("a Debian package")),
    (b"\xed\xab\xee\xdb", Kind::Other("an RPM package")),
    (b"\x7fELF", Kind::Other("a program")),
    (b"%PDF", Kind::Other("a PDF document")),
    (b"\x89PNG", Kind::Other("a picture")),
    (b"\xff\xd8\xff", Kind::Other("a picture")),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Empty,
    Gzip,
    Tar,
    Zip,
    /// A web page.
    Html,
    Text,
    /// Another known kind, with its article.
    Other(&'static str),
    Unknown,
}

impl Kind {
    pub fn of(bytes: &[u8]) -> Self {
        let start = &bytes[..bytes.len().min(LOOKED_AT_BYTES)];
        if start.is_empty() {
            return Self::Empty;
        }
        if start.get(TAR_MARK.0..).is_some_and(|rest| rest.starts_with(TAR_MARK.1)) {
            return Self::Tar;
        }
        if let Some((_, kind)) = MARKS.iter().find(|(mark, _)| start.starts_with(mark)) {
            return *kind;
        }
        text(start).unwrap_or(Self::Unknown)
    }

    /// The kind of the content of a gzip; `None` if its beginning cannot be unpacked.
    pub fn inside(gz: &[u8]) -> Option<Self> {
        let mut start = Vec::new();
        GzDecoder::new(gz).take(LOOKED_AT_BYTES as u64).read_to_end(&mut start).ok()?;
        Some(Self::of(&start))
    }
}

fn text(start: &[u8]) -> Option<Kind> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // A character may be cut at the end of the inspected bytes.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&start[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    if text.chars().any(|letter| letter.is_control() && !letter.is_whitespace()) {
        return None;
    }
    let begins = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let is_page = ["<!doctype html", "<html", "<head"].iter().any(|mark| begins.starts_with(mark));
    Some(if is_page { Kind::Html } else { Kind::Text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_file_kinds_by_signature() {
        let tar = [&[b'a'; 257][..], b"ustar\0", &[0; 249]].concat();
        for (bytes, kind) in [
            (&b""[..], Kind::Empty),
            (b"\x1f\x8b\x08\0", Kind::Gzip),
            (&tar, Kind::Tar),
            (b"PK\x03\x04\x14\0", Kind::Zip),
            (b"\n<!DOCTYPE html>\n<html>", Kind::Html),
            (b"apiVersion: v1\n", Kind::Text),
            ("größer".as_bytes(), Kind::Text),
            (b"\x28\xb5\x2f\xfd", Kind::Other("a zstd archive")),
            (b"\0\x01\x02", Kind::Unknown),
            (b"\xff\xfe\xfd", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(bytes), kind, "{bytes:?}");
        }
    }

    #[test]
    fn detects_text_with_a_truncated_character() {
        let long = "ö".repeat(LOOKED_AT_BYTES);
        assert_eq!(Kind::of(&[b"a", long.as_bytes()].concat()), Kind::Text);
    }

    #[test]
    fn detects_the_kind_inside_a_gzip() {
        let packed = super::super::pack(&[("a".to_owned(), b"1")]);
        assert_eq!(Kind::inside(&packed), Some(Kind::Tar));
        assert_eq!(Kind::inside(b"\x1f\x8b\x08"), None);
    }
}
