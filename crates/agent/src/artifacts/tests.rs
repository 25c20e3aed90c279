use super::*;
use margo::DeploymentId;

fn holder<'a>(deployment: &str, document: &'a Digest) -> Holder<'a> {
    Holder { deployment: deployment.parse().unwrap(), component: "web", document }
}

const ONE: &str = "a3e2f5dc-912e-494f-8395-52cf3769bc06";

fn store(folder: &Path) -> Artifacts {
    Artifacts::open(folder, &[], &ArtifactsConfig::default()).unwrap()
}

fn put(store: &Artifacts, holder: &Holder<'_>, source: &str, bytes: &[u8]) -> Digest {
    let digest = Digest::of(bytes);
    store.note(holder, source, &digest).unwrap();
    std::fs::write(store.blob(&digest), bytes).unwrap();
    digest
}

#[tokio::test]
async fn keeps_only_the_running_and_the_previous_revision() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let documents = [Digest::of(b"1"), Digest::of(b"2"), Digest::of(b"3"), Digest::of(b"4")];
    let mut digests = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let holder = holder(ONE, document);
        digests.push(put(&store, &holder, &format!("r:{at}"), &[at as u8; 10]));
        if at < 3 {
            store.settle(&holder).unwrap();
        }
    }
    std::fs::write(store.folder.join(BLOBS).join("stray"), "x").unwrap();
    store.collect();
    let held: Vec<bool> = digests.iter().map(|digest| store.blob(digest).exists()).collect();
    // The last one is being fetched.
    assert_eq!(held, [false, true, true, true]);
    assert!(!store.folder.join(BLOBS).join("stray").exists());
    store.forget(ONE.parse::<DeploymentId>().unwrap(), "web").unwrap();
    assert_eq!(std::fs::read_dir(store.folder.join(BLOBS)).unwrap().count(), 0);
}

#[tokio::test]
async fn stored_content_needs_no_registry() {
    let folder = tempfile::tempdir().unwrap();
    let document = Digest::of(b"1");
    let source = ComponentSource::Oci { repository: "oci://127.0.0.1:1/web".to_owned(), revision: "1.0.0".to_owned() };
    let digest = {
        let store = store(folder.path());
        put(&store, &holder(ONE, &document), &source_name(&source), b"layer")
    };
    let store = store(folder.path());
    let held = store.fetch(&holder(ONE, &document), &source, COMPOSE).await.unwrap();
    assert_eq!(held.digest, digest);
    // Another document with the same source: stored content is used if the registry is unreachable.
    let other = Digest::of(b"2");
    let held = store.fetch(&holder(ONE, &other), &source, COMPOSE).await.unwrap();
    assert_eq!(held.digest, digest);
    // Damaged content is not used.
    std::fs::write(store.blob(&digest), b"other").unwrap();
    assert!(store.fetch(&holder(ONE, &other), &source, COMPOSE).await.is_err());
}

#[test]
fn rejects_a_manifest_of_another_kind_with_the_reason() {
    let reference = Reference::parse("oci://registry.example/web:1.0.0").unwrap();
    let layer_type = margrave_oci::build::COMPOSE_LAYER_TYPE;
    let digest = Digest::of(b"x");
    let part = serde_json::json!({ "mediaType": layer_type, "digest": digest, "size": 1 });
    let manifest = |artifact_type: &str, layers: serde_json::Value| {
        serde_json::json!({ "artifactType": artifact_type, "config": {}, "layers": layers }).to_string()
    };
    let good = margrave_oci::build::COMPOSE_ARTIFACT_TYPE;
    let read = |text: String| layer(text.as_bytes(), &reference, COMPOSE).map_err(|error| error.to_string());
    assert_eq!(read(manifest(good, serde_json::json!([part]))).unwrap(), (digest, 1));
    // COMP-08: what `docker compose publish` makes.
    let published = read(manifest("application/vnd.docker.compose.project", serde_json::json!([part]))).unwrap_err();
    assert!(published.contains("its artifactType is `application/vnd.docker.compose.project`"), "{published}");
    assert!(read(manifest(good, serde_json::json!([]))).unwrap_err().contains("it has 0 layers"));
    assert!(read(manifest(good, serde_json::json!([part, part]))).unwrap_err().contains("it has 2 layers"));
}

#[test]
fn revisions_are_tags_in_stored_form_or_digests() {
    // AD-04
    assert_eq!(
        Reference::of_component("oci://r.example/web", "1.0.0+7").unwrap().to_string(),
        "oci://r.example/web:1.0.0_7"
    );
    let digest = Digest::of(b"x");
    let by_digest = Reference::of_component("r.example/web", digest.as_str()).unwrap();
    assert_eq!(by_digest.to_string(), format!("oci://r.example/web@{digest}"));
    assert!(Reference::of_component("oci://r.example/web", "a b").is_err());
    assert!(Reference::of_component("oci://r.example/Web", "1").is_err());
}
