//! Garbage collection, alone and during pushes.

use crate::support::{Fixture, assert_error, image};
use margrave_server::registry::{Collected, Digest};
use reqwest::Method;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DAY: Duration = Duration::from_hours(25);

#[tokio::test]
async fn removes_unreferenced_blobs_after_the_grace_period() {
    let fixture = Fixture::new().await;
    let (manifest, digest) = fixture.push_image("a", "1.0", b"kept").await;
    fixture.push_blob("a", b"never referred to").await;
    assert_eq!(
        fixture.registry.collect().await.unwrap(),
        Collected::default(),
        "everything is within its grace period"
    );
    fixture.clock.advance(DAY);
    let collected = fixture.registry.collect().await.unwrap();
    assert_eq!((collected.blobs, collected.bytes), (1, 17));
    let gone = Digest::sha256(b"never referred to");
    assert_error(fixture.get(&format!("/v2/a/blobs/{gone}")).await, 404, "BLOB_UNKNOWN").await;
    assert_eq!(fixture.get("/v2/a/manifests/1.0").await.text().await.unwrap(), manifest.to_string());
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{}", Digest::sha256(b"kept"))).await.text().await.unwrap(), "kept");

    // Deleting a tag removes nothing else; deleting a manifest releases its blobs.
    fixture.delete("/v2/a/manifests/1.0").await;
    assert_eq!(fixture.registry.collect().await.unwrap(), Collected::default());
    fixture.delete(&format!("/v2/a/manifests/{digest}")).await;
    let collected = fixture.registry.collect().await.unwrap();
    assert_eq!((collected.blobs, collected.bytes, collected.repositories), (2, 6, 1));
    assert_eq!(fixture.registry.usage(None).unwrap().bytes, 0);
    assert_eq!(std::fs::read_dir(fixture.path().join("repositories")).unwrap().count(), 0);
}

#[tokio::test]
async fn checking_a_blob_restarts_its_grace_period() {
    let fixture = Fixture::new().await;
    let digest = fixture.push_blob("a", b"old").await;
    fixture.clock.advance(DAY);
    // A push begins by checking which blobs exist.
    assert_eq!(fixture.head(&format!("/v2/a/blobs/{digest}")).await.status(), 200);
    assert_eq!(fixture.registry.collect().await.unwrap(), Collected::default());
    fixture.clock.advance(DAY);
    assert_eq!(fixture.registry.collect().await.unwrap().blobs, 1);
}

#[tokio::test]
async fn keeps_a_blob_that_another_repository_uses() {
    let fixture = Fixture::new().await;
    fixture.push_image("a", "1.0", b"shared").await;
    fixture.push_blob("b", b"shared").await;
    fixture.clock.advance(DAY);
    let collected = fixture.registry.collect().await.unwrap();
    assert_eq!((collected.blobs, collected.bytes), (1, 0));
    let shared = Digest::sha256(b"shared");
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{shared}")).await.text().await.unwrap(), "shared");
    assert_error(fixture.get(&format!("/v2/b/blobs/{shared}")).await, 404, "BLOB_UNKNOWN").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pushes_continue_during_garbage_collection() {
    // Without a grace period the collector is most aggressive: everything that a manifest refers to must still be safe.
    let fixture = Arc::new(Fixture::with(|options| options.grace = Duration::ZERO).await);
    let done = Arc::new(AtomicBool::new(false));
    let collector = {
        let (registry, done) = (fixture.registry.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut collected = 0;
            while !done.load(Ordering::SeqCst) {
                collected += registry.collect().await.unwrap().blobs;
            }
            collected
        })
    };
    let pushers = (0..4).map(|pusher| {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move {
            for number in 0..15 {
                push_until_taken(&fixture, &format!("r{}", pusher % 2), &format!("t{pusher}-{number}")).await;
            }
        })
    });
    for pusher in futures_util::future::join_all(pushers).await {
        pusher.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    assert!(collector.await.unwrap() > 0, "the collector had work");
    for pusher in 0..4 {
        for number in 0..15 {
            let tag = format!("t{pusher}-{number}");
            let got = fixture.get(&format!("/v2/r{}/manifests/{tag}", pusher % 2)).await;
            assert_eq!(got.text().await.unwrap(), image(b"{}", tag.as_bytes()).to_string());
            let layer = Digest::sha256(tag.as_bytes());
            let got = fixture.get(&format!("/v2/r{}/blobs/{layer}", pusher % 2)).await;
            assert_eq!(got.text().await.unwrap(), tag, "a manifest refers to it");
        }
    }
}

/// Repeats pushing blobs and manifest until the collector did not interfere.
async fn push_until_taken(fixture: &Fixture, repository: &str, tag: &str) {
    for _ in 0..1_000 {
        for content in [b"{}".as_slice(), tag.as_bytes()] {
            fixture.push_blob(repository, content).await;
        }
        let put = fixture.put_manifest(repository, tag, &image(b"{}", tag.as_bytes())).await;
        if put.status() == 201 {
            return;
        }
        assert_error(put, 400, "MANIFEST_BLOB_UNKNOWN").await;
    }
    panic!("the collector won every time");
}

#[tokio::test]
async fn a_download_in_progress_survives_garbage_collection() {
    let fixture = Fixture::new().await;
    let content = vec![9; 20_000_000];
    let digest = fixture.push_blob("a", &content).await;
    let mut response = fixture.get(&format!("/v2/a/blobs/{digest}")).await;
    let mut got = response.chunk().await.unwrap().unwrap().to_vec();
    fixture.clock.advance(DAY);
    assert_eq!(fixture.registry.collect().await.unwrap().blobs, 1);
    while let Some(chunk) = response.chunk().await.unwrap() {
        got.extend_from_slice(&chunk);
    }
    assert_eq!(got, content);
    let refused = fixture.request(Method::GET, &format!("/v2/a/blobs/{digest}")).send().await.unwrap();
    assert_error(refused, 404, "BLOB_UNKNOWN").await;
}

#[tokio::test]
async fn a_damaged_manifest_keeps_the_blobs_of_its_repository() {
    let fixture = Fixture::new().await;
    let (manifest, digest) = fixture.push_image("a", "1.0", b"layer").await;
    fixture.push_blob("b", b"absent's").await;
    let path = fixture.path().join("repositories/a/manifests/sha256").join(digest.hex());
    std::fs::write(&path, b"damaged").unwrap();

    let fixture = fixture.restart().await;
    fixture.clock.advance(DAY);
    let collected = fixture.registry.collect().await.unwrap();
    assert_eq!((collected.blobs, collected.repositories), (1, 1), "only those of the other repository go");
    let put = fixture.put_manifest("a", &digest.to_string(), &manifest).await;
    assert_eq!(put.status(), 201, "its blobs are still there");
    assert_eq!(fixture.get("/v2/a/manifests/1.0").await.text().await.unwrap(), manifest.to_string());

    // Once repaired, it is collected like any other; so it is when the damaged one is deleted instead.
    std::fs::write(&path, b"damaged").unwrap();
    let fixture = fixture.restart().await;
    assert_eq!(fixture.delete(&format!("/v2/a/manifests/{digest}")).await.status(), 202);
    fixture.clock.advance(DAY);
    let collected = fixture.registry.collect().await.unwrap();
    assert_eq!((collected.blobs, collected.repositories), (2, 1));
}

#[tokio::test]
async fn an_unknown_folder_keeps_every_blob_on_disk() {
    let fixture = Fixture::new().await;
    fixture.push_image("a", "1.0", b"layer").await;
    let blob = |root: &std::path::Path, content: &[u8]| {
        let hex = Digest::sha256(content).hex();
        root.join("blobs/sha256").join(&hex[..2]).join(&hex)
    };
    let root = fixture.path();
    // Its blobs are not shared with any repository known to this version.
    std::fs::rename(root.join("repositories/a"), root.join("repositories/Not A Name")).unwrap();
    let fixture = fixture.restart().await;
    assert!(blob(&root, b"layer").exists());
    // Removing the last known repository does not delete the file either.
    let shared = fixture.push_blob("b", b"layer").await;
    assert_eq!(fixture.delete(&format!("/v2/b/blobs/{shared}")).await.status(), 202);
    assert!(blob(&root, b"layer").exists());

    std::fs::rename(root.join("repositories/Not A Name"), root.join("repositories/a")).unwrap();
    let fixture = fixture.restart().await;
    assert_eq!(fixture.get(&format!("/v2/a/blobs/{shared}")).await.text().await.unwrap(), "layer");
}
