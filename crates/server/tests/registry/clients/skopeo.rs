//! skopeo copies OCI layouts to the registry and back.

use super::{operator, run};
use crate::support::{CLIENT, Fixture, MANIFEST, descriptor, image};
use margrave_server::registry::Digest;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// A layout with one image, tagged `1.0`.
pub(crate) fn write_layout(folder: &Path) -> Value {
    let config = json!({ "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [Digest::sha256(&archive()).to_string()] } })
    .to_string();
    let mut manifest = image(config.as_bytes(), &layer());
    manifest["layers"][0]["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+gzip");
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    for content in [config.as_bytes(), &layer(), manifest.to_string().as_bytes()] {
        fs::write(blobs.join(Digest::sha256(content).hex()), content).unwrap();
    }
    let mut entry = descriptor(MANIFEST, manifest.to_string().as_bytes());
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": "1.0" });
    fs::write(folder.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
    fs::write(folder.join("index.json"), json!({ "schemaVersion": 2, "manifests": [entry] }).to_string()).unwrap();
    manifest
}

/// A layer large enough for several frames, and compressed, because skopeo compresses uncompressed ones.
fn layer() -> Vec<u8> {
    let archive = archive();
    let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    compressed.write_all(&archive).unwrap();
    compressed.finish().unwrap()
}

fn archive() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    let content = vec![b'x'; 3_000_000];
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, "data", content.as_slice()).unwrap();
    archive.into_inner().unwrap()
}

#[tokio::test]
async fn skopeo_copies_an_image_in_and_out() {
    let fixture = Fixture::new().await;
    let source = fixture.scratch().join("source");
    let manifest = write_layout(&source);
    let image = format!("docker://{}/images/press:1.0", fixture.address);
    let from = format!("oci:{}:1.0", source.display());
    let push = ["--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds", &operator(), &from, &image];
    run(&fixture, "skopeo", &push, "").await.ok();
    let stored = fixture.get("/v2/images/press/manifests/1.0").await.text().await.unwrap();
    assert_eq!(stored, manifest.to_string(), "the manifest is stored byte for byte");

    // A device copies it out with its own credentials.
    let target = fixture.scratch().join("target");
    let to = format!("oci:{}:1.0", target.display());
    let device = format!("{CLIENT}:{}", fixture.pull_password);
    let pull = ["--insecure-policy", "copy", "--src-tls-verify=false", "--src-creds", &device, &image, &to];
    run(&fixture, "skopeo", &pull, "").await.ok();
    let copied = fs::read(target.join("blobs/sha256").join(Digest::sha256(&layer()).hex())).unwrap();
    assert_eq!(copied, layer());

    let list = format!("docker://{}/images/press", fixture.address);
    let tags = run(&fixture, "skopeo", &["list-tags", "--tls-verify=false", "--creds", &operator(), &list], "").await;
    assert_eq!(serde_json::from_str::<Value>(&tags.ok()).unwrap()["Tags"], json!(["1.0"]));
    run(&fixture, "skopeo", &["delete", "--tls-verify=false", "--creds", &operator(), &image], "").await.ok();
    assert_eq!(fixture.get("/v2/images/press/manifests/1.0").await.status(), 404);
}

#[tokio::test]
async fn skopeo_is_refused_with_the_wrong_password() {
    let fixture = Fixture::new().await;
    let source = fixture.scratch().join("source");
    write_layout(&source);
    let (from, to) =
        (format!("oci:{}:1.0", source.display()), format!("docker://{}/images/press:1.0", fixture.address));
    let push = |credentials: String| {
        let arguments = ["--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds"].map(str::to_owned);
        let arguments: Vec<String> = arguments.into_iter().chain([credentials, from.clone(), to.clone()]).collect();
        let fixture = &fixture;
        async move {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run(fixture, "skopeo", &arguments, "").await.refused()
        }
    };
    let wrong = push("token:wrong".to_owned()).await;
    assert!(wrong.contains("unauthorized") || wrong.contains("authentication required"), "{wrong}");
    let device = push(format!("{CLIENT}:{}", fixture.pull_password)).await;
    assert!(device.contains("denied"), "{device}");
    let address = fixture.address.to_string();
    let login = ["login", "--tls-verify=false", "-u", "token", "--password-stdin", &address];
    run(&fixture, "skopeo", &login, "wrong").await.refused();
    run(&fixture, "skopeo", &login, crate::support::TOKEN).await.ok();
}
