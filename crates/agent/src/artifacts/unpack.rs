//! A component's archive as files (COMP-03 to COMP-05): checked whole before anything is written.

use margo::archive::{self, Entry, Limits};
use std::collections::BTreeMap;

/// The limits of the component builder.
const LIMITS: Limits = margrave_oci::images::LIMITS;
/// The first bytes of every gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The files of a component, by path below its one folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unpacked {
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Unpacks a compose archive; older packages may be a bare compose file.
pub fn unpack_component(layer: &[u8]) -> Result<Unpacked, String> {
    if !layer.starts_with(&GZIP) {
        let text = std::str::from_utf8(layer).map_err(|_| "it is neither a tar.gz nor a compose file".to_owned())?;
        return Ok(Unpacked { files: BTreeMap::from([("compose.yaml".to_owned(), text.as_bytes().to_vec())]) });
    }
    let files = unpack_folder(layer)?;
    if files.contains_key("compose.yaml") {
        Ok(Unpacked { files })
    } else {
        Err("it has no `compose.yaml` in its folder; no other spelling is valid".to_owned())
    }
}

/// The files of an archive with one folder, by path below it.
pub fn unpack_folder(layer: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let entries = archive::unpack_with_links(layer, LIMITS).map_err(|error| error.to_string())?;
    let mut folder: Option<String> = None;
    let mut files = BTreeMap::new();
    for Entry { path, bytes } in entries {
        let Some((top, rest)) = path.split_once('/') else {
            return Err(format!("`{path}` is outside the top-level folder of the archive"));
        };
        match &folder {
            None => folder = Some(top.to_owned()),
            Some(known) if known != top => {
                return Err(format!("it has more than one top-level folder: `{known}` and `{top}`"));
            }
            Some(_) => {}
        }
        files.insert(rest.to_owned(), bytes);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[(&str, &str)]) -> Vec<u8> {
        let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes())).collect();
        archive::pack(&files)
    }

    #[test]
    fn keeps_all_files_next_to_the_compose_file() {
        // COMP-03: the name of the folder means nothing; COMP-04: siblings are part of the component.
        let layer = packed(&[("any/compose.yaml", "services: {}"), ("any/web.env", "A=1"), ("any/conf/x.txt", "x")]);
        let unpacked = unpack_component(&layer).unwrap();
        assert_eq!(unpacked.files.keys().collect::<Vec<_>>(), ["compose.yaml", "conf/x.txt", "web.env"]);
    }

    #[test]
    fn rejects_invalid_archives_with_the_reason() {
        for (files, reason) in [
            (&[("compose.yaml", "")][..], "outside the top-level folder"),
            (&[("a/compose.yaml", ""), ("b/x", "")], "more than one top-level folder"),
            (&[("a/docker-compose.yml", "")], "no `compose.yaml`"),
        ] {
            let error = unpack_component(&packed(files)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn an_older_package_may_be_a_bare_compose_file() {
        assert_eq!(unpack_component(b"services: {}").unwrap().files["compose.yaml"], b"services: {}");
        assert!(unpack_component(&[0xff, 0xfe]).is_err());
    }
}
