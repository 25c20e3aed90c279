//! Valid and invalid manifests.

use super::{Digest, OCI_INDEX, OCI_MANIFEST, read};
use serde_json::{Value, json};

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::sha256(content).to_string(), "size": content.len() })
}

fn image() -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": descriptor("application/vnd.example.config", b"{}"),
        "layers": [
            descriptor("application/vnd.oci.image.layer.v1.tar", b"layer"),
            descriptor("application/vnd.oci.image.layer.nondistributable.v1.tar", b"elsewhere"),
        ],
    })
}

fn refusal(content_type: Option<&str>, document: &Value) -> String {
    read(content_type, document.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn an_image_needs_its_configuration_and_the_layers_that_are_distributed() {
    let document = read(Some(OCI_MANIFEST), image().to_string().as_bytes()).unwrap();
    assert_eq!(document.blobs, [(Digest::sha256(b"{}"), 2), (Digest::sha256(b"layer"), 5)]);
    assert_eq!(document.artifact_type.as_deref(), Some("application/vnd.example.config"));
    assert_eq!(document.subject, None);
}

#[test]
fn an_index_needs_its_manifests() {
    let index = json!({
        "schemaVersion": 2,
        "manifests": [descriptor(OCI_MANIFEST, b"one")],
        "subject": descriptor(OCI_MANIFEST, b"subject"),
        "artifactType": "application/vnd.example",
        "annotations": { "a": "b" },
    });
    let document = read(Some(&format!("{OCI_INDEX}; charset=utf-8")), index.to_string().as_bytes()).unwrap();
    assert_eq!(document.media_type, OCI_INDEX);
    assert_eq!(document.manifests, [(Digest::sha256(b"one"), 3)]);
    assert_eq!(document.subject, Some(Digest::sha256(b"subject")));
    assert_eq!(document.artifact_type.as_deref(), Some("application/vnd.example"));
    assert_eq!(document.annotations["a"], "b");
}

#[test]
fn rejects_a_manifest_that_is_also_an_index() {
    let mut both = image();
    both["manifests"] = json!([]);
    assert!(refusal(None, &both).contains("no `manifests`"));
    assert!(refusal(Some(OCI_INDEX), &image()).contains("but its `mediaType`"));
    both["mediaType"] = json!(OCI_INDEX);
    assert!(refusal(None, &both).contains("neither `config` nor `layers`"));
}

#[test]
fn rejects_unsupported_manifests() {
    let without = |key: &str| {
        let mut image = image();
        image.as_object_mut().unwrap().remove(key);
        image
    };
    assert!(refusal(None, &without("mediaType")).contains("nor `mediaType` is given"));
    assert!(refusal(None, &without("schemaVersion")).contains("schemaVersion"));
    assert!(refusal(None, &without("config")).contains("`config` is missing"));
    let mut other = image();
    other["mediaType"] = json!("application/vnd.docker.distribution.manifest.v1+json");
    assert!(refusal(None, &other).contains("is not supported"));
    let mut bad = image();
    bad["layers"][0]["digest"] = json!("md5:0");
    assert!(refusal(None, &bad).contains("not a digest"));
    assert!(read(Some(OCI_MANIFEST), b"not json").is_err());
    assert!(read(Some(OCI_MANIFEST), b"[]").is_err());
}
