//! Tags, repositories and referrers, page by page.

use crate::support::{Fixture, INDEX, MANIFEST, assert_error, descriptor, header, image};
use margrave_server::registry::Digest;
use serde_json::{Value, json};

async fn page(fixture: &Fixture, path: &str, key: &str) -> (Vec<String>, Option<String>) {
    let response = fixture.get(path).await;
    assert_eq!(response.status(), 200, "{path}");
    let next = response.headers().get("link").map(|link| {
        let link = link.to_str().unwrap();
        let target = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        target.unwrap_or_else(|| panic!("{link}")).to_owned()
    });
    let body: Value = response.json().await.unwrap();
    let entries = body[key].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap().to_owned()).collect();
    (entries, next)
}

#[tokio::test]
async fn lists_tags_in_order_and_in_pages() {
    let fixture = Fixture::new().await;
    for tag in ["b", "C", "a", "1.10", "1.9"] {
        fixture.push_image("a/b", tag, b"layer").await;
    }
    let all = ["1.10", "1.9", "a", "b", "C"];
    assert_eq!(page(&fixture, "/v2/a/b/tags/list", "tags").await, (all.map(str::to_owned).to_vec(), None));
    let mut next = Some("/v2/a/b/tags/list?n=2".to_owned());
    let mut seen = Vec::new();
    while let Some(path) = next {
        let (tags, following) = page(&fixture, &path, "tags").await;
        assert!(tags.len() <= 2);
        seen.extend(tags);
        next = following;
    }
    assert_eq!(seen, all);
    assert_eq!(page(&fixture, "/v2/a/b/tags/list?n=0", "tags").await.0, Vec::<String>::new());
    assert_eq!(page(&fixture, "/v2/a/b/tags/list?last=aa", "tags").await.0, ["b", "C"]);
    assert_error(fixture.get("/v2/a/b/tags/list?n=-1").await, 400, "PAGINATION_NUMBER_INVALID").await;
    assert_error(fixture.get("/v2/a/tags/list").await, 404, "NAME_UNKNOWN").await;
}

#[tokio::test]
async fn lists_repositories_in_pages() {
    let fixture = Fixture::new().await;
    for name in ["b", "a/z", "a"] {
        fixture.push_blob(name, b"x").await;
    }
    let (first, next) = page(&fixture, "/v2/_catalog?n=2", "repositories").await;
    assert_eq!(first, ["a", "a/z"]);
    assert_eq!(page(&fixture, &next.unwrap(), "repositories").await, (vec!["b".to_owned()], None));
}

#[tokio::test]
async fn lists_referrers_of_a_manifest() {
    let fixture = Fixture::new().await;
    let (subject, digest) = fixture.push_image("a", "1.0", b"layer").await;
    let path = format!("/v2/a/referrers/{digest}");
    let mut signature = image(b"{}", b"layer");
    signature["subject"] = descriptor(MANIFEST, subject.to_string().as_bytes());
    signature["artifactType"] = json!("application/vnd.example.signature");
    signature["annotations"] = json!({ "made": "today" });
    let mut bill = image(b"{}", b"layer");
    bill["subject"] = descriptor(MANIFEST, subject.to_string().as_bytes());
    let index = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": [], "artifactType": "application/vnd.example.index",
        "subject": descriptor(MANIFEST, subject.to_string().as_bytes()),
    });
    for manifest in [&signature, &bill, &index] {
        let own = Digest::sha256(manifest.to_string().as_bytes());
        let put = fixture.put_manifest("a", &own.to_string(), manifest).await;
        assert_eq!(put.status(), 201);
        assert_eq!(header(&put, "oci-subject"), digest.to_string());
    }
    let listed = fixture.get(&path).await;
    assert_eq!(header(&listed, "content-type"), INDEX);
    assert!(!listed.headers().contains_key("oci-filters-applied"));
    let listed: Value = listed.json().await.unwrap();
    assert_eq!((&listed["schemaVersion"], &listed["mediaType"]), (&json!(2), &json!(INDEX)));
    assert_eq!(listed["manifests"].as_array().unwrap().len(), 3);

    let filtered = fixture.get(&format!("{path}?artifactType=application/vnd.example.signature")).await;
    assert_eq!(header(&filtered, "oci-filters-applied"), "artifactType");
    let filtered: Value = filtered.json().await.unwrap();
    let bytes = signature.to_string();
    let own = Digest::sha256(bytes.as_bytes());
    assert_eq!(
        filtered["manifests"],
        json!([{ "mediaType": MANIFEST, "digest": own.to_string(), "size": bytes.len(),
            "artifactType": "application/vnd.example.signature", "annotations": { "made": "today" } }])
    );
    // Without its own artifact type an image is identified by the type of its configuration.
    let by_config = fixture.get(&format!("{path}?artifactType=application/vnd.oci.image.config.v1%2Bjson")).await;
    assert_eq!(by_config.json::<Value>().await.unwrap()["manifests"].as_array().unwrap().len(), 1);

    assert_eq!(fixture.delete(&format!("/v2/a/manifests/{own}")).await.status(), 202);
    let after: Value = fixture.get(&path).await.json().await.unwrap();
    assert_eq!(after["manifests"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn lists_no_referrers_for_an_unknown_manifest() {
    let fixture = Fixture::new().await;
    let path = format!("/v2/nowhere/referrers/{}", Digest::sha256(b""));
    let listed: Value = fixture.get(&path).await.json().await.unwrap();
    assert_eq!(listed["manifests"], json!([]));
    assert_error(fixture.get("/v2/a/referrers/latest").await, 400, "DIGEST_INVALID").await;
}

#[tokio::test]
async fn accepts_a_referrer_before_its_subject() {
    let fixture = Fixture::new().await;
    fixture.push_blob("a", b"{}").await;
    fixture.push_blob("a", b"layer").await;
    let subject = image(b"{}", b"layer").to_string();
    let mut referrer = image(b"{}", b"layer");
    referrer["subject"] = descriptor(MANIFEST, subject.as_bytes());
    assert_eq!(fixture.put_manifest("a", "signature", &referrer).await.status(), 201);
    let path = format!("/v2/a/referrers/{}", Digest::sha256(subject.as_bytes()));
    let listed: Value = fixture.get(&path).await.json().await.unwrap();
    assert_eq!(listed["manifests"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn links_to_the_next_page_of_referrers() {
    let fixture = Fixture::new().await;
    let repository = "a".parse().unwrap();
    fixture.push_blob("a", b"{}").await;
    let subject = Digest::sha256(b"subject");
    for number in 0..1_005 {
        let mut manifest = image(b"{}", b"");
        manifest["layers"] = json!([]);
        manifest["subject"] = descriptor(MANIFEST, b"subject");
        manifest["annotations"] = json!({ "number": number.to_string() });
        let bytes = manifest.to_string();
        let reference = Digest::sha256(bytes.as_bytes()).to_string().parse().unwrap();
        fixture.registry.put_manifest(&repository, &reference, Some(MANIFEST), bytes.into()).await.unwrap();
    }
    let mut next = Some(format!("/v2/a/referrers/{subject}"));
    let mut counts = Vec::new();
    while let Some(path) = next {
        let response = fixture.get(&path).await;
        let link = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        next = link.map(|link| link.trim_start_matches('<').split('>').next().unwrap().to_owned());
        counts.push(response.json::<Value>().await.unwrap()["manifests"].as_array().unwrap().len());
    }
    assert_eq!(counts, [1_000, 5]);
}
