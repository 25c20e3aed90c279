use super::*;
use proptest::prelude::*;
use std::io::Write as _;

const LIMITS: Limits = Limits { entries_max: 8, entry_bytes_max: 1024, total_bytes_max: 2048 };

/// Packs by hand whatever an honest writer would not.
fn tar(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    gzip(&builder.into_inner().unwrap())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An entry with a raw name, past the checks of the tar library.
fn raw(builder: &mut tar::Builder<Vec<u8>>, name: &[u8], kind: EntryType, size: u64, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

#[test]
fn returns_files_in_archive_order() {
    let gz = tar(|builder| {
        raw(builder, b"b/", EntryType::Directory, 0, b"");
        raw(builder, b"./b/two", EntryType::Regular, 3, b"two");
        raw(builder, b"a", EntryType::Regular, 0, b"");
    });
    let paths: Vec<_> = unpack(&gz, LIMITS).unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, ["b/two", "a"]);
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    for name in ["/etc/passwd", "../up", "a/../../b", "a\\..\\b", "C:/x", "..", "./"] {
        let gz = tar(|builder| raw(builder, name.as_bytes(), EntryType::Regular, 1, b"x"));
        let refused = unpack(&gz, LIMITS).unwrap_err();
        assert!(matches!(refused, ArchiveError::Escapes(_)), "{name}: {refused}");
    }
    let gz = tar(|builder| raw(builder, b"bad\xff", EntryType::Regular, 1, b"x"));
    assert!(matches!(unpack(&gz, LIMITS), Err(ArchiveError::Escapes(_))));
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let gz = tar(|builder| raw(builder, b"a", kind, 0, b""));
        assert!(matches!(unpack(&gz, LIMITS), Err(ArchiveError::NotAFile(_))), "{kind:?}");
    }
}

#[test]
fn rejects_duplicate_paths_in_any_spelling() {
    let gz = tar(|builder| {
        raw(builder, b"a/b", EntryType::Regular, 1, b"1");
        raw(builder, b"./a//b", EntryType::Regular, 1, b"2");
    });
    assert!(matches!(unpack(&gz, LIMITS), Err(ArchiveError::Duplicate(_))));
}

#[test]
fn sizes_and_counts_are_bounded_before_anything_is_read() {
    let declared = tar(|builder| raw(builder, b"a", EntryType::Regular, 1025, &[0; 1025]));
    assert_eq!(unpack(&declared, LIMITS), Err(ArchiveError::EntryTooLarge { path: "a".to_owned(), max: 1024 }));
    let total = tar(|builder| {
        for name in [b"a", b"b", b"c"] {
            raw(builder, name, EntryType::Regular, 1000, &[0; 1000]);
        }
    });
    assert_eq!(unpack(&total, LIMITS), Err(ArchiveError::TooLarge(2048)));
    let many = tar(|builder| (0..9).for_each(|n| raw(builder, format!("f{n}").as_bytes(), EntryType::Regular, 0, b"")));
    assert_eq!(unpack(&many, LIMITS), Err(ArchiveError::TooManyEntries(8)));
}

#[test]
fn bounds_long_entry_names() {
    let gz = tar(|builder| raw(builder, b"././@LongLink", EntryType::GNULongName, 1 << 20, &vec![b'a'; 1 << 20]));
    assert_eq!(unpack(&gz, LIMITS), Err(ArchiveError::TooLarge(2048)));
}

#[test]
fn padding_without_end_is_refused() {
    let mut bytes = vec![0; 1024];
    bytes.resize(10 << 20, 0);
    assert_eq!(unpack(&gzip(&bytes), LIMITS), Err(ArchiveError::TooLarge(2048)));
}

#[test]
fn damaged_archives_are_refused() {
    let whole = pack(&[("a".to_owned(), b"text of some length to be cut in the middle")]);
    for cut in 0..whole.len() {
        assert!(unpack(&whole[..cut], LIMITS).is_err(), "cut at {cut}");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(unpack(&longer, LIMITS), Err(ArchiveError::Damaged(_))), "one byte too many");
    assert!(unpack(&[whole.clone(), whole].concat(), LIMITS).is_err(), "a second member");
    assert!(unpack(b"not a gzip", LIMITS).is_err());
    let mut headless = tar::Builder::new(Vec::new());
    raw(&mut headless, b"a", EntryType::Regular, 3, b"abc");
    let bytes = headless.into_inner().unwrap();
    assert!(unpack(&gzip(&bytes[..512 + 3]), LIMITS).is_err(), "tar cut inside an entry");
    let followed = [bytes, b"more".to_vec()].concat();
    assert!(unpack(&gzip(&followed), LIMITS).is_err(), "something after the end marker");
}

#[test]
fn reports_a_truncated_archive() {
    let whole = pack(&[("a".to_owned(), &[7; 1000])]);
    let Err(ArchiveError::Damaged(why)) = unpack(&whole[..whole.len() / 2], LIMITS) else { panic!("unpacked") };
    assert_eq!(why, CUT_OFF);
}

#[test]
fn reads_a_plain_tar_within_the_same_limits() {
    let plain = |size: u64| {
        let mut builder = tar::Builder::new(Vec::new());
        raw(&mut builder, b"a", EntryType::Regular, size, &vec![1; size as usize]);
        builder.into_inner().unwrap()
    };
    let files = unpack_maybe_compressed(&plain(5), LIMITS).unwrap();
    assert_eq!(files, [Entry { path: "a".to_owned(), bytes: vec![1; 5] }]);
    assert!(unpack(&plain(5), LIMITS).is_err(), "components are compressed");
    assert!(matches!(unpack_maybe_compressed(&plain(1025), LIMITS), Err(ArchiveError::EntryTooLarge { .. })));
    let whole = plain(5);
    for cut in [0, 3, 400, 514, 1000] {
        assert!(unpack_maybe_compressed(&whole[..cut], LIMITS).is_err(), "cut at {cut}");
    }
    assert!(unpack_maybe_compressed(&[whole, b"more".to_vec()].concat(), LIMITS).is_err());
    assert_eq!(unpack_maybe_compressed(&pack(&[("a".to_owned(), b"1")]), LIMITS).unwrap().len(), 1);
}

#[test]
fn packing_is_reproducible_and_plain() {
    // W-20
    let one = pack(&[("b".to_owned(), b"2"), ("a".to_owned(), b"1")]);
    let other = pack(&[("a".to_owned(), b"1"), ("b".to_owned(), b"2")]);
    assert_eq!(one, other);
    assert_eq!(one[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255], "no name, no comment, no time");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&one[..]));
    for (entry, name) in archive.entries().unwrap().zip(["a", "b"]) {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!(entry.path_bytes(), name.as_bytes());
        assert_eq!((header.mode().unwrap(), header.mtime().unwrap()), (0o644, 0));
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
    }
}

proptest! {
    #[test]
    fn unpacks_packed_files_in_sorted_order(files in prop::collection::btree_map("[a-z]{1,8}(/[a-z]{1,120}){0,2}", prop::collection::vec(any::<u8>(), 0..300), 0..6)) {
        let entries: Vec<_> = files.iter().map(|(path, bytes)| (path.clone(), bytes.as_slice())).collect();
        let unpacked = unpack(&pack(&entries), LIMITS).unwrap();
        let expected: Vec<_> = files.into_iter().map(|(path, bytes)| Entry { path, bytes }).collect();
        prop_assert_eq!(unpacked, expected);
    }

    #[test]
    fn detects_flipped_bytes_without_a_panic(place in 0_usize..200, flip in 1_u8..) {
        let mut gz = pack(&[("a".to_owned(), b"some text"), ("b".to_owned(), b"other text")]);
        let honest = unpack(&gz, LIMITS).unwrap();
        let place = place % gz.len();
        gz[place] ^= flip;
        if let Ok(files) = unpack(&gz, LIMITS) {
            prop_assert_eq!(files, honest, "only bytes without meaning may change");
        }
    }
}
