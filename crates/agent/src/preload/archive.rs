//! The file: a tar archive whose entries are named by their digests.

use super::PreloadError;
use aws_lc_rs::digest::{Context, SHA256};
use margo::Digest;
use margrave_core::preload::{HEAD, HEAD_BYTES_MAX, Head, Image, entry};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

fn broken(path: &Path) -> impl Fn(std::io::Error) -> PreloadError + '_ {
    move |error| PreloadError::Read { path: path.to_owned(), reason: error.to_string() }
}

/// The first entry.
pub(super) fn head(path: &Path) -> Result<Head, PreloadError> {
    let refused = |reason: &str| PreloadError::Refused(reason.to_owned());
    let mut archive = tar::Archive::new(File::open(path).map_err(broken(path))?);
    let mut entries = archive.entries().map_err(broken(path))?;
    let first = entries.next().ok_or_else(|| refused("it is empty"))?.map_err(broken(path))?;
    if first.path_bytes().as_ref() != HEAD.as_bytes() || first.size() > HEAD_BYTES_MAX {
        return Err(refused("it does not begin with `preload.json`: this is not a preloaded desired state"));
    }
    let mut bytes = Vec::new();
    first.take(HEAD_BYTES_MAX).read_to_end(&mut bytes).map_err(broken(path))?;
    serde_json::from_slice(&bytes).map_err(|error| PreloadError::Refused(format!("its head cannot be read: {error}")))
}

/// The contents with these digests, each verified, with a limit on their total size.
pub(super) fn contents(
    path: &Path,
    desired: &HashSet<Digest>,
    bytes_max: u64,
) -> Result<HashMap<Digest, Vec<u8>>, PreloadError> {
    let names: HashMap<String, &Digest> = desired.iter().map(|digest| (entry(digest), digest)).collect();
    let mut found = HashMap::new();
    let mut left = bytes_max;
    let mut archive = tar::Archive::new(File::open(path).map_err(broken(path))?);
    // Other entries are skipped: images are large.
    for item in archive.entries_with_seek().map_err(broken(path))? {
        let item = item.map_err(broken(path))?;
        let name = String::from_utf8_lossy(&item.path_bytes()).into_owned();
        let Some(digest) = names.get(&name) else { continue };
        left = left.checked_sub(item.size()).ok_or_else(|| {
            PreloadError::Refused(format!("its contents other than images are larger than {bytes_max} bytes"))
        })?;
        let mut bytes = Vec::new();
        let size = item.size();
        item.take(size).read_to_end(&mut bytes).map_err(broken(path))?;
        let actual = Digest::of(&bytes);
        if actual != **digest {
            return Err(PreloadError::Refused(format!("{digest} has digest {actual}; it is damaged or tampered with")));
        }
        found.insert((*digest).clone(), bytes);
    }
    Ok(found)
}

/// Writes one image as an archive for engines, under this name; every layer is verified.
pub(crate) fn image_archive(path: &Path, image: &Image, name: &str, out: impl Write) -> std::io::Result<()> {
    let mut writer = ImageWriter::new(out, name, &image.config, &image.layers)?;
    let desired: HashMap<String, &Digest> =
        image.layers.iter().chain([&image.config]).map(|digest| (entry(digest), digest)).collect();
    let mut archive = tar::Archive::new(File::open(path)?);
    for item in archive.entries_with_seek()? {
        let item = item?;
        let name = String::from_utf8_lossy(&item.path_bytes()).into_owned();
        let Some(digest) = desired.get(&name) else { continue };
        let size = item.size();
        writer.add(digest, size, item)?;
    }
    writer.finish()
}

/// An archive of one image for engines, from parts in any order.
pub(crate) struct ImageWriter<W: Write> {
    builder: tar::Builder<W>,
    missing: HashSet<Digest>,
}

impl<W: Write> ImageWriter<W> {
    pub(crate) fn new(out: W, name: &str, config: &Digest, layers: &[Digest]) -> std::io::Result<Self> {
        let files: Vec<String> = layers.iter().map(blob_name).collect();
        let index =
            serde_json::json!([{ "Config": blob_name(config), "RepoTags": [name], "Layers": files }]).to_string();
        let mut builder = tar::Builder::new(out);
        builder.append_data(&mut header(index.len() as u64), "manifest.json", index.as_bytes())?;
        Ok(Self { builder, missing: layers.iter().chain([config]).cloned().collect() })
    }

    /// Adds a part unless it was added already; fails if it does not match its digest.
    pub(crate) fn add(&mut self, digest: &Digest, size: u64, content: impl Read) -> std::io::Result<()> {
        if !self.missing.remove(digest) {
            return Ok(());
        }
        let mut verified = Verified { hasher: Context::new(&SHA256), inner: content };
        self.builder.append_data(&mut header(size), blob_name(digest), &mut verified)?;
        if margo::digest::hex(verified.hasher.finish().as_ref()) == digest.hex() {
            return Ok(());
        }
        Err(std::io::Error::other(format!("layer {digest} is damaged or tampered with")))
    }

    pub(crate) fn finish(self) -> std::io::Result<()> {
        match self.missing.iter().next() {
            Some(missing) => Err(std::io::Error::other(format!("layer {missing} is missing"))),
            None => self.builder.into_inner()?.flush(),
        }
    }
}

fn blob_name(digest: &Digest) -> String {
    format!("{}.blob", digest.hex())
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header
}

struct Verified<R> {
    hasher: Context,
    inner: R,
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}
