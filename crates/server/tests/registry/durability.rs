//! State after a kill at any instant.

use crate::support::{Fixture, header, image};
use margrave_server::registry::{Digest, Registry, RegistryOptions};
use reqwest::Method;
use serde_json::Value;
use std::fs;
use std::sync::Arc;

#[tokio::test]
async fn keeps_acknowledged_content_after_a_restart() {
    let fixture = Fixture::new().await;
    let (manifest, digest) = fixture.push_image("a/b", "1.0", b"layer").await;
    let mut referrer = image(b"{}", b"layer");
    referrer["subject"] = crate::support::descriptor(crate::support::MANIFEST, manifest.to_string().as_bytes());
    assert_eq!(fixture.put_manifest("a/b", "signature", &referrer).await.status(), 201);
    fixture.push_blob("other", b"layer").await;
    let usage = (fixture.registry.usage(None), fixture.registry.usage(Some(&"a/b".parse().unwrap())));

    let fixture = fixture.restart().await;
    assert_eq!((fixture.registry.usage(None), fixture.registry.usage(Some(&"a/b".parse().unwrap()))), usage);
    assert_eq!(fixture.get("/v2/a/b/manifests/1.0").await.text().await.unwrap(), manifest.to_string());
    let layer = Digest::sha256(b"layer");
    assert_eq!(fixture.get(&format!("/v2/other/blobs/{layer}")).await.text().await.unwrap(), "layer");
    let referrers: Value = fixture.get(&format!("/v2/a/b/referrers/{digest}")).await.json().await.unwrap();
    assert_eq!(referrers["manifests"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn resumes_an_upload_after_a_restart() {
    let fixture = Fixture::new().await;
    let location = fixture.begin("a").await;
    let first = fixture.request(Method::PATCH, &location).header("content-range", "0-4").body("01234").send().await;
    assert_eq!(first.unwrap().status(), 202);

    let fixture = fixture.restart().await;
    let status = fixture.get(&location).await;
    assert_eq!((status.status().as_u16(), header(&status, "range").as_str()), (204, "0-4"));
    let digest = Digest::sha256(b"0123456789");
    let rest = fixture.request(Method::PUT, &format!("{location}?digest={digest}")).header("content-range", "5-9");
    assert_eq!(rest.body("56789").send().await.unwrap().status(), 201);
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{digest}")).await.text().await.unwrap(), "0123456789");
}

#[tokio::test]
async fn cleans_up_after_a_kill() {
    let fixture = Fixture::new().await;
    let (manifest, _) = fixture.push_image("a", "1.0", b"layer").await;
    let location = fixture.begin("a").await;
    let id = location.rsplit('/').next().unwrap().to_owned();
    let root = fixture.path();
    // An incomplete file.
    fs::write(root.join("tmp/half"), b"hal").unwrap();
    // Killed between a blob and its link: the blob was not acknowledged.
    let orphan = Digest::sha256(b"orphan");
    let orphan_path = root.join("blobs/sha256").join(&orphan.hex()[..2]).join(orphan.hex());
    fs::create_dir_all(orphan_path.parent().unwrap()).unwrap();
    fs::write(&orphan_path, b"orphan").unwrap();
    // Killed after the data of an upload became a blob.
    fs::remove_file(root.join("uploads").join(&id).join("data")).unwrap();
    // Killed before an upload was complete.
    fs::create_dir(root.join("uploads").join("00000000-0000-4000-8000-000000000000")).unwrap();

    let fixture = fixture.restart().await;
    assert_eq!(fixture.get("/v2/a/manifests/1.0").await.text().await.unwrap(), manifest.to_string());
    assert_eq!(fs::read_dir(root.join("tmp")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(root.join("uploads")).unwrap().count(), 0);
    assert!(!orphan_path.exists());
    assert_eq!(fixture.get(&location).await.status(), 404);
}

#[tokio::test]
async fn a_damaged_manifest_is_not_served() {
    let fixture = Fixture::new().await;
    let (_, digest) = fixture.push_image("a", "1.0", b"layer").await;
    let path = fixture.path().join("repositories/a/manifests/sha256").join(digest.hex());
    let mut file = fs::read(&path).unwrap();
    *file.last_mut().unwrap() ^= 1;
    fs::write(&path, file).unwrap();
    assert_eq!(fixture.get("/v2/a/manifests/1.0").await.status(), 500);
    let fixture = fixture.restart().await;
    assert_eq!(fixture.get("/v2/a/manifests/1.0").await.status(), 404);
    let (manifest, _) = fixture.push_image("a", "1.0", b"layer").await;
    assert_eq!(fixture.get("/v2/a/manifests/1.0").await.text().await.unwrap(), manifest.to_string());
}

#[tokio::test]
async fn locks_the_registry_folder() {
    let fixture = Fixture::new().await;
    let options = RegistryOptions::new(fixture.path());
    let second = Registry::open(options, Arc::clone(&fixture.clock) as Arc<_>).await;
    assert!(second.err().unwrap().to_string().contains("another process"));
}

#[tokio::test]
async fn a_failed_write_leaves_no_partial_content() {
    let fixture = Fixture::new().await;
    let (_, digest) = fixture.push_image("a", "1.0", b"layer").await;
    let in_the_way = |path: &str| {
        fs::remove_dir_all(fixture.path().join(path)).unwrap();
        fs::write(fixture.path().join(path), b"a file, not a folder").unwrap();
    };
    let left = || fs::read_dir(fixture.path().join("tmp")).unwrap().count();
    in_the_way("repositories/a/tags");
    let put = fixture.request(Method::PUT, "/v2/a/manifests/2.0").header("content-type", crate::support::MANIFEST);
    assert_eq!(put.body(image(b"{}", b"layer").to_string()).send().await.unwrap().status(), 500);
    assert_eq!(left(), 0);
    assert_eq!(fixture.get(&format!("/v2/a/manifests/{digest}")).await.status(), 200);
    in_the_way("blobs");
    assert!(fixture.registry.put_blob(&"a".parse().unwrap(), "new".into()).await.is_err());
    assert_eq!(left(), 0);
}
