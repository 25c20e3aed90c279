//! A container image from an archive: an OCI layout in a tar file, as `docker save`, `skopeo` and `podman` write it.

use super::{Artifact, ArtifactKind, Problems};
use crate::manifest::{Manifest, OCI_MANIFEST};
use crate::reference::{Reference, Tag};
use bytes::Bytes;
use margo::Digest;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// It is held in memory as a whole; copy larger ones with `skopeo copy`.
pub const IMAGE_BYTES_MAX: u64 = 1 << 30;
/// The most entries of an archive; an image has a few dozen layers at most.
const ENTRIES_MAX: usize = 10_000;
/// Where tools put the name of the image, the fullest first.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    media_type: String,
    digest: Digest,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The image of an archive, and its full name if the archive has one.
pub fn image(archive: &Bytes) -> Result<(Artifact, Option<Reference>), Problems> {
    read(archive).map_err(|problem| vec![problem])
}

fn read(archive: &Bytes) -> Result<(Artifact, Option<Reference>), String> {
    let files = files(archive)?;
    let index = files.get("index.json").ok_or(
        "it is not an OCI layout (no index.json); old versions of `docker save` do not write one: \
         use `skopeo copy docker-archive:FILE oci-archive:OTHER`",
    )?;
    let index: Index = serde_json::from_slice(index).map_err(|error| format!("index.json cannot be read: {error}"))?;
    let mut images = index.manifests.iter().filter(|entry| entry.media_type == OCI_MANIFEST);
    let (Some(entry), None) = (images.next(), images.next()) else {
        return Err("it must contain exactly one image; save each image for one platform separately".to_owned());
    };
    let manifest = blob(&files, &entry.digest)?;
    let parts = Manifest::read(Some(OCI_MANIFEST), &manifest).map_err(|problem| format!("its manifest {problem}"))?;
    let blobs = parts.blobs.iter().map(|part| Ok((part.digest.clone(), blob(&files, &part.digest)?)));
    let blobs = blobs.collect::<Result<Vec<_>, String>>()?;
    let full = |name: &&String| name.contains('/');
    let name = NAMES.iter().filter_map(|key| entry.annotations.get(*key)).find(full);
    let reference = name.and_then(|name| Reference::parse_image(name).ok());
    let tag = match reference.as_ref().map(|reference| &reference.tag) {
        Some(Tag::Name(tag)) => tag.clone(),
        _ => entry.annotations.get(NAMES[1]).cloned().unwrap_or_else(|| "latest".to_owned()),
    };
    let name = reference.as_ref().map_or_else(|| "image".to_owned(), |reference| reference.repository.clone());
    let artifact = Artifact { kind: ArtifactKind::Image, name, tag, manifest, blobs, warnings: Vec::new() };
    Ok((artifact, reference))
}

fn files(archive: &Bytes) -> Result<HashMap<String, Bytes>, String> {
    let odd = |error: std::io::Error| format!("it is not a tar file: {error}");
    let mut files = HashMap::new();
    for entry in tar::Archive::new(archive.as_ref()).entries().map_err(odd)? {
        let entry = entry.map_err(odd)?;
        if files.len() > ENTRIES_MAX {
            return Err(format!("it holds more than {ENTRIES_MAX} files"));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        let from = usize::try_from(entry.raw_file_position()).unwrap_or(usize::MAX);
        let to = from.saturating_add(usize::try_from(entry.size()).unwrap_or(usize::MAX));
        if to > archive.len() {
            return Err("it is truncated".to_owned());
        }
        files.insert(path, archive.slice(from..to));
    }
    Ok(files)
}

fn blob(files: &HashMap<String, Bytes>, digest: &Digest) -> Result<Bytes, String> {
    let bytes = files.get(&format!("blobs/sha256/{}", digest.hex())).ok_or(format!("{digest} is missing"))?;
    if Digest::of(bytes) == *digest {
        Ok(bytes.clone())
    } else {
        Err(format!("the content of {digest} has another digest"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn archive(change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Bytes {
        let part = |bytes: &[u8]| json!({ "mediaType": "a/b", "digest": Digest::of(bytes), "size": bytes.len() });
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": part(b"{}"), "layers": [part(b"layer")] });
        let manifest = manifest.to_string().into_bytes();
        let index = json!({ "schemaVersion": 2, "manifests": [{ "mediaType": OCI_MANIFEST, "digest": Digest::of(&manifest),
            "size": manifest.len(), "annotations": { "io.containerd.image.name": "registry.example/images/press:1.0" } }] });
        let place = |bytes: &[u8]| format!("./blobs/sha256/{}", Digest::of(bytes).hex());
        let mut files = vec![("./index.json".to_owned(), index.to_string().into_bytes())];
        files.extend([manifest, b"{}".to_vec(), b"layer".to_vec()].map(|bytes| (place(&bytes), bytes)));
        change(&mut files);
        let mut archive = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, path, bytes.as_slice()).unwrap();
        }
        archive.into_inner().unwrap().into()
    }

    #[test]
    fn reads_the_image_and_its_name_from_an_archive() {
        let (artifact, reference) = image(&archive(|_| {})).unwrap();
        assert_eq!(reference.unwrap().image(), "registry.example/images/press:1.0");
        assert_eq!((artifact.tag.as_str(), artifact.blobs.len()), ("1.0", 2));
    }

    #[test]
    fn rejects_incomplete_image_archives() {
        let told = |change: fn(&mut Vec<(String, Vec<u8>)>)| image(&archive(change)).unwrap_err().join("; ");
        assert!(told(|files| files.truncate(3)).contains("is missing"));
        assert!(told(|files| files[3].1 = b"other".to_vec()).contains("has another digest"));
        assert!(told(|files| drop(files.remove(0))).contains("not an OCI layout"));
        assert!(image(&Bytes::from_static(b"not a tar file at all")).is_err());
    }
}
