//! Images from scratch: a static busybox and its names, nothing else.

use crate::registry::Registry;
use crate::tools::tool;
use flate2::Compression;
use flate2::write::GzEncoder;
use margo::Digest;
use serde_json::json;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
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

/// A shell image with so many more bytes in it that cannot be packed.
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

fn build(files: &[(&str, &[u8])]) -> Image {
    let busybox = std::fs::read(tool("busybox")).unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: &str, bytes: &[u8], mode: u32| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        archive.append_data(&mut header, path, bytes).unwrap();
    };
    add("bin/busybox", &busybox, 0o755);
    for (path, bytes) in files {
        add(path, bytes, 0o644);
    }
    for name in NAMES {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        archive.append_link(&mut header, format!("bin/{name}"), "busybox").unwrap();
    }
    let layer = archive.into_inner().unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut packed, &layer).unwrap();
    let packed = packed.finish().unwrap();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        // The shell as first process takes no other signal.
        "config": { "Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "1000000"], "StopSignal": "SIGKILL" },
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(&layer)] },
    })
    .to_string()
    .into_bytes();
    let part = |media_type: &str, bytes: &[u8]| json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": part("application/vnd.oci.image.config.v1+json", &config),
        "layers": [part("application/vnd.oci.image.layer.v1.tar+gzip", &packed)],
    });
    Image { manifest: manifest.to_string().into_bytes(), blobs: vec![config, packed] }
}

impl Image {
    /// The image as an archive that engines load without a registry.
    pub fn archive(&self, name: &str) -> Vec<u8> {
        let index = json!({ "schemaVersion": 2, "manifests": [{
            "mediaType": MANIFEST, "digest": Digest::of(&self.manifest), "size": self.manifest.len(),
            "annotations": { "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name },
        }] });
        let mut archive = tar::Builder::new(Vec::new());
        let mut add = |path: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, bytes).unwrap();
        };
        add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
        add("index.json", index.to_string().as_bytes());
        for blob in self.blobs.iter().chain([&self.manifest]) {
            add(&format!("blobs/sha256/{}", Digest::of(blob).hex()), blob);
        }
        archive.into_inner().unwrap()
    }
}

impl Registry {
    /// Pushes an image; gives the name a compose file uses.
    pub async fn push_image(&self, repository: &str, tag: &str, image: &Image) -> String {
        self.push(repository, tag, MANIFEST, &image.manifest, &image.blobs).await;
        format!("{}/{repository}:{tag}", self.host())
    }
}
