//! Errors for uploads that are not packages, with help: the same text for the API, the command line and the pages.

use super::UPLOAD_BYTES_MAX;
use crate::app::error::{AppError, Code};
use margo::archive::{ArchiveError, Entry, Kind};
use serde::Deserialize;

const HOW_TO_PACK: &str = "pack the folder that contains `margo.yaml`: `tar -czf package.tar.gz -C FOLDER .`, or use `margrave app import FOLDER`";
const IMAGE: &str = "this is a container image archive, not an application package; \
    `margrave app push IMAGE.tar` pushes an image to the registry of this server";

/// The upload is too large.
pub(crate) fn too_large() -> AppError {
    AppError::refused(Code::TooLarge, too_large_words())
}

/// Also shown by pages, before anything is sent.
pub(crate) fn too_large_words() -> String {
    let max = UPLOAD_BYTES_MAX >> 20;
    format!(
        "the upload is larger than {max} MiB; a package contains its description and a few texts and pictures; \
         push container images to the registry with `margrave app push IMAGE.tar`"
    )
}

/// The upload cannot be unpacked.
pub(super) fn archive(bytes: &[u8], error: &ArchiveError) -> AppError {
    match Kind::of(bytes) {
        Kind::Empty => no_package("the upload is empty"),
        Kind::Zip => broken(&format!("this is a ZIP archive; unpack it, then {HOW_TO_PACK}")),
        Kind::Html => no_package("this is a web page, perhaps the sign-in page of the download site"),
        Kind::Text => no_package("this is a text file, not an archive"),
        Kind::Other(what) => no_package(&format!("this is {what}, not a tar.gz archive")),
        Kind::Unknown => no_package("this is not a tar.gz archive"),
        Kind::Gzip if Kind::inside(bytes).is_some_and(|inside| inside != Kind::Tar) => {
            no_package("this is a compressed file without a tar archive inside")
        }
        Kind::Gzip | Kind::Tar => match error {
            ArchiveError::EntryTooLarge { path, .. } if is_image_layer(path) => broken(IMAGE),
            ArchiveError::Damaged(why) => no_package(&format!("the archive is damaged: {why}")),
            other => broken(&format!("the archive cannot be unpacked: {other}")),
        },
    }
}

/// An archive of something other than an application, recognized by its files.
pub(super) fn content(entries: &[Entry]) -> Option<AppError> {
    if entries.is_empty() {
        return Some(no_package("the package contains no files"));
    }
    let file = |name: &str| entries.iter().find(|entry| entry.path == name);
    if file("manifest.json").is_some_and(is_image_list) {
        return Some(broken(IMAGE));
    }
    let in_root =
        |entry: &&Entry| !entry.path.contains('/') && entry.bytes.windows(MARK.len()).any(|part| part == MARK);
    if entries.iter().any(|entry| in_root(&entry)) || file("oci-layout").is_some() {
        return None;
    }
    let part = [("Chart.yaml", "a Helm chart"), ("compose.yaml", COMPOSE), ("compose.yml", COMPOSE)]
        .into_iter()
        .chain([("docker-compose.yaml", COMPOSE), ("docker-compose.yml", COMPOSE)])
        .find(|(name, _)| file(name).is_some());
    if let Some((_, what)) = part {
        return Some(broken(&format!(
            "this is {what}, one component of an application; a package has a `margo.yaml` that names its components"
        )));
    }
    let folder = entries.iter().find_map(|entry| entry.path.strip_suffix("/margo.yaml"))?;
    Some(no_package(&format!("`margo.yaml` is in the folder `{folder}` of this archive, next to other files")))
}

/// The manifest of a container image, or of several.
pub(in crate::catalog) fn image(manifest: &[u8]) -> Option<AppError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Config {
        media_type: String,
    }
    #[derive(Deserialize)]
    struct Manifest {
        config: Option<Config>,
        manifests: Option<serde_json::Value>,
    }
    let Manifest { config, manifests } = serde_json::from_slice(manifest).ok()?;
    let types = ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
    let is_image = manifests.is_some() || config.is_some_and(|config| types.contains(&config.media_type.as_str()));
    is_image.then(|| broken(IMAGE))
}

/// Every description contains this line.
const MARK: &[u8] = b"deploymentProfiles:";
const COMPOSE: &str = "a Compose file";

/// As written by `docker save`.
fn is_image_list(entry: &Entry) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Image {
        #[serde(rename = "Config")]
        _config: String,
        #[serde(rename = "Layers")]
        _layers: Vec<String>,
    }
    serde_json::from_slice::<Vec<Image>>(&entry.bytes).is_ok()
}

/// Layers are the only large files of an image, and come before its list.
fn is_image_layer(path: &str) -> bool {
    path.starts_with("blobs/sha256/") || path.ends_with("/layer.tar")
}

fn no_package(what: &str) -> AppError {
    broken(&format!("{what}; {HOW_TO_PACK}"))
}

fn broken(detail: &str) -> AppError {
    AppError::refused(Code::BrokenPackage, detail)
}

#[cfg(test)]
mod tests {
    use crate::app::error::{AppError, Code};
    use margo::archive::pack;

    fn words(bytes: &[u8]) -> String {
        match super::super::read(bytes, None) {
            Err(AppError::Refused { code: Code::BrokenPackage, detail, .. }) => detail,
            other => panic!("{other:?}"),
        }
    }

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        pack(&files.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)).collect::<Vec<_>>())
    }

    #[test]
    fn identifies_uploads_that_are_not_archives() {
        for (bytes, what) in [
            (&b""[..], "the upload is empty"),
            (b"hello", "this is a text file"),
            (b"PK\x03\x04abc", "this is a ZIP archive; unpack it, then pack the folder"),
            (b"<!doctype html><title>Sign in</title>", "this is a web page"),
            (b"\x89PNG\r\n", "this is a picture"),
            (b"\0\x01\x02\x03", "this is not a tar.gz archive"),
        ] {
            let message = words(bytes);
            assert!(message.starts_with(what), "{message}");
            assert!(message.contains("tar -czf package.tar.gz -C FOLDER ."), "{message}");
        }
    }

    #[test]
    fn reports_truncated_and_empty_archives() {
        let whole = packed(&[("margo.yaml", &[b'a'; 3000])]);
        assert!(words(&whole[..whole.len() / 2]).starts_with("the archive is damaged: it ends too early"));
        assert!(words(&packed(&[])).starts_with("the package contains no files"));
    }

    #[test]
    fn points_container_images_to_the_push_command() {
        let list = br#"[{"Config":"blobs/sha256/a","RepoTags":["a:1"],"Layers":["blobs/sha256/b"]}]"#;
        let image: [(&str, &[u8]); 3] = [("manifest.json", list), ("oci-layout", b"{}"), ("index.json", b"{}")];
        assert!(words(&packed(&image)).contains("container image archive"));
        let manifest = br#"{"config":{"mediaType":"application/vnd.oci.image.config.v1+json"},"layers":[]}"#;
        let digest = margo::digest::Digest::of(manifest);
        let index = format!(r#"{{"manifests":[{{"digest":"{digest}"}}]}}"#);
        let blob = format!("blobs/sha256/{}", digest.hex());
        let files: [(&str, &[u8]); 3] = [("oci-layout", b"{}"), ("index.json", index.as_bytes()), (&blob, manifest)];
        assert!(words(&packed(&files)).contains("container image archive"));
        let layer = vec![0; (8 << 20) + 1];
        assert!(words(&packed(&[("blobs/sha256/b", &layer)])).contains("margrave app push IMAGE.tar"));
    }

    #[test]
    fn recognizes_a_component_that_is_not_a_package() {
        assert!(words(&packed(&[("web/Chart.yaml", b"name: web"), ("web/values.yaml", b"")])).contains("a Helm chart"));
        assert!(words(&packed(&[("compose.yaml", b"services: {}")])).contains("a Compose file"));
    }

    #[test]
    fn finds_a_description_in_a_subfolder() {
        let message = words(&packed(&[("app/margo.yaml", b"deploymentProfiles:\n"), ("notes.txt", b"x")]));
        assert!(message.starts_with("`margo.yaml` is in the folder `app` of this archive"), "{message}");
    }
}
