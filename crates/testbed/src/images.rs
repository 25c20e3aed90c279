//! Images from scratch: a static busybox and its names, or programs of this machine, nothing else.

use crate::registry::Registry;
use crate::tools::tool;
use flate2::Compression;
use flate2::write::GzEncoder;
use margo::Digest;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// The names busybox is called by.
const NAMES: [&str; 14] =
    ["sh", "httpd", "sleep", "cat", "echo", "wget", "test", "true", "false", "touch", "mkdir", "ls", "env", "date"];

/// An image ready to be pushed.
pub struct Image {
    manifest: Vec<u8>,
    blobs: Vec<Vec<u8>>,
}

impl Image {
    /// Its configuration, then its layers.
    pub fn blobs(&self) -> &[Vec<u8>] {
        &self.blobs
    }

    /// Of its manifest, as `name@digest` names it.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }
}

/// A shell image; `mark` makes its content, and so its digest, differ from others.
pub fn busybox(mark: &str) -> Image {
    build(&[("mark", mark.as_bytes())])
}

/// A shell image with this many additional incompressible bytes.
pub fn large(mark: &str, bytes: usize) -> Image {
    // Digests of a counter look like noise.
    let mut noise = Vec::with_capacity(bytes + 64);
    let mut counter = 0_u64;
    while noise.len() < bytes {
        noise.extend_from_slice(Digest::of(format!("{mark}{counter}").as_bytes()).hex().as_bytes());
        counter += 1;
    }
    noise.truncate(bytes);
    build(&[("mark", mark.as_bytes()), ("noise", &noise)])
}

/// Programs of this machine with the libraries they ask for; the first is what the image runs.
pub fn programs(programs: &[(&str, &Path)]) -> Image {
    let mut archive = Archive::new();
    let mut libraries = BTreeSet::new();
    for (place, program) in programs {
        archive.file(place.trim_start_matches('/'), &std::fs::read(program).unwrap(), 0o755);
        // A static program has none.
        let output = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        libraries.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned));
    }
    for library in libraries.iter().filter(|library| Path::new(library).is_file()) {
        archive.file(library.trim_start_matches('/'), &std::fs::read(library).unwrap(), 0o755);
    }
    let settings = json!({ "Env": ["PATH=/usr/bin"], "Entrypoint": [programs[0].0] });
    // Packing what is loaded once takes longer than it saves.
    archive.image(&settings, LAYER, |layer| layer)
}

fn build(files: &[(&str, &[u8])]) -> Image {
    let mut archive = Archive::new();
    archive.file("bin/busybox", &std::fs::read(tool("busybox")).unwrap(), 0o755);
    for (path, bytes) in files {
        archive.file(path, bytes, 0o644);
    }
    for name in NAMES {
        archive.link(&format!("bin/{name}"), "busybox");
    }
    // The shell as first process takes no other signal.
    let settings = json!({ "Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "1000000"], "StopSignal": "SIGKILL" });
    archive.image(&settings, &format!("{LAYER}+gzip"), |layer| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        std::io::Write::write_all(&mut packed, &layer).unwrap();
        packed.finish().unwrap()
    })
}

/// A tar archive: the one layer of an image, or the image as a whole.
struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        self.0.append_data(&mut header, path, bytes).unwrap();
    }

    fn link(&mut self, path: &str, target: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        self.0.append_link(&mut header, path, target).unwrap();
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn image(self, settings: &Value, layer_type: &str, pack: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Image {
        let layer = self.bytes();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": settings,
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(&layer)] },
        });
        let config = config.to_string().into_bytes();
        let packed = pack(layer);
        let part = |media_type: &str, bytes: &[u8]| json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": part("application/vnd.oci.image.config.v1+json", &config),
            "layers": [part(layer_type, &packed)],
        });
        Image { manifest: manifest.to_string().into_bytes(), blobs: vec![config, packed] }
    }
}

impl Image {
    /// The image as an archive that engines load without a registry.
    pub fn archive(&self, name: &str) -> Vec<u8> {
        let index = json!({ "schemaVersion": 2, "manifests": [{
            "mediaType": MANIFEST, "digest": Digest::of(&self.manifest), "size": self.manifest.len(),
            "annotations": { "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name },
        }] });
        let mut archive = Archive::new();
        archive.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644);
        archive.file("index.json", index.to_string().as_bytes(), 0o644);
        for blob in self.blobs.iter().chain([&self.manifest]) {
            archive.file(&format!("blobs/sha256/{}", Digest::of(blob).hex()), blob, 0o644);
        }
        archive.bytes()
    }
}

impl Registry {
    /// Pushes an image; gives the name a compose file uses.
    pub async fn push_image(&self, repository: &str, tag: &str, image: &Image) -> String {
        self.push(repository, tag, MANIFEST, &image.manifest, &image.blobs).await;
        format!("{}/{repository}:{tag}", self.host())
    }
}
