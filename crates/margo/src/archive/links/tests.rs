use super::super::{Limits, unpack, unpack_with_links};
use super::*;
use proptest::prelude::*;
use tar::EntryType;

const LIMITS: Limits = Limits { entries_max: 20, entry_bytes_max: 1024, total_bytes_max: 2048 };

/// `(path, content)` for files, `(path, -> target)` for symbolic and `(path, => target)` for hard links.
fn packed(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_mode(0o4755);
        let links = [("-> ", EntryType::Symlink), ("=> ", EntryType::Link)];
        let link = links.iter().find_map(|(sign, kind)| Some((content.strip_prefix(sign)?, *kind)));
        let data = link.map_or(content.as_bytes(), |_| b"");
        header.set_entry_type(link.map_or(EntryType::Regular, |(_, kind)| kind));
        if let Some((target, _)) = link {
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        }
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &builder.into_inner().unwrap()).unwrap();
    encoder.finish().unwrap()
}

fn files(entries: &[(&str, &str)]) -> Result<BTreeMap<String, String>, ArchiveError> {
    let entries = unpack_with_links(&packed(entries), LIMITS)?;
    Ok(entries.into_iter().map(|entry| (entry.path, String::from_utf8(entry.bytes).unwrap())).collect())
}

#[test]
fn reads_links_inside_the_folder_as_their_targets() {
    // COMP-05
    let found = files(&[
        ("web/compose.yaml", "services"),
        ("web/conf/a.env", "A=1"),
        ("web/conf/deep/b.env", "B=1"),
        ("web/default.env", "-> conf/a.env"),
        ("web/conf/up.env", "-> ../conf/./deep/../a.env"),
        ("web/twice.env", "-> default.env"),
        ("web/same.env", "=> web/conf/a.env"),
        ("web/all", "-> conf"),
    ])
    .unwrap();
    for path in
        ["web/default.env", "web/conf/up.env", "web/twice.env", "web/same.env", "web/all/a.env", "web/all/up.env"]
    {
        assert_eq!(found[path], "A=1", "{path}");
    }
    assert_eq!(found["web/all/deep/b.env"], "B=1");
    assert_eq!(found.len(), 10);
}

#[test]
fn links_that_leave_the_folder_are_refused() {
    // COMP-05
    for target in
        ["-> /etc/shadow", "-> ../x", "-> ../../etc/shadow", "-> conf/../../x", "=> other/x", "=> ../x", "=> /x"]
    {
        let error = files(&[("web/conf/a", "1"), ("other/x", "2"), ("web/link", target)]).unwrap_err();
        assert!(matches!(error, ArchiveError::Escapes(_)), "{target}: {error}");
    }
    // Through another link, whose own target is harmless.
    let error = files(&[("web/a/b/c", "1"), ("web/in", "-> a/b"), ("web/out", "-> in/../../../x")]).unwrap_err();
    assert_eq!(error, ArchiveError::Escapes("web/out".to_owned()));
    // Behind a link, where a careless reader would write through it.
    let error = files(&[("web/in", "-> conf"), ("web/in/x", "1"), ("web/conf/y", "2")]).unwrap_err();
    assert_eq!(error, ArchiveError::BelowLink("web/in/x".to_owned()));
}

#[test]
fn rejects_dangling_and_circular_links() {
    assert_eq!(files(&[("web/a", "-> b")]), Err(ArchiveError::Dangling("web/a".to_owned())));
    for circle in [
        &[("web/a", "-> a")][..],
        &[("web/a", "-> b"), ("web/b", "-> a")],
        &[("web/x", "1"), ("web/a", "-> .")],
        &[("web/d/x", "1"), ("web/d/up", "-> ../e"), ("web/e/y", "1"), ("web/e/up", "-> ../d")],
    ] {
        let error = files(circle).unwrap_err();
        assert!(matches!(error, ArchiveError::Circular(_)), "{circle:?}: {error}");
    }
}

#[test]
fn bounds_link_targets_like_the_archive() {
    let noise = "x".repeat(1000);
    let all = [("web/x", noise.as_str()), ("web/a", "-> x"), ("web/b", "-> x")];
    assert_eq!(files(&all), Err(ArchiveError::TooLarge(2048)));
    let mut many = vec![("web/d/1", ""), ("web/d/2", ""), ("web/d/3", ""), ("web/d/4", "")];
    many.extend(["web/a", "web/b", "web/c", "web/e", "web/f"].map(|path| (path, "-> d")));
    assert_eq!(files(&many), Err(ArchiveError::TooManyEntries(20)));
}

#[test]
fn rejects_links_where_none_are_allowed() {
    let gz = packed(&[("web/a", "1"), ("web/b", "-> a")]);
    assert_eq!(unpack(&gz, LIMITS), Err(ArchiveError::NotAFile("web/b".to_owned())));
}

proptest! {
    #[test]
    fn no_link_leaves_the_folder(
        links in prop::collection::vec(("[ab]{1,2}(/[ab]){0,2}", "(\\.\\.|[ab.])(/(\\.\\.|[ab])){0,4}", any::<bool>()), 0..6),
    ) {
        let links: Vec<_> = links
            .iter()
            .map(|(path, target, hard)| (format!("web/{path}"), format!("{} {target}", if *hard { "=>" } else { "->" })))
            .collect();
        let mut entries = vec![("web/a/b", "1"), ("web/b/a", "2"), ("other", "3")];
        entries.extend(links.iter().map(|(path, target)| (path.as_str(), target.as_str())));
        for (path, text) in files(&entries).unwrap_or_default() {
            prop_assert!(path == "other" || path.starts_with("web/") && text != "3", "{path}: {text}");
            prop_assert!(!path.split('/').any(|part| part == ".."));
        }
    }
}
