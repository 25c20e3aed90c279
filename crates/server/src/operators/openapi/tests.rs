use super::document;
use std::path::Path;

/// Set this to write the file instead of comparing it.
const WRITE: &str = "MARGRAVE_WRITE_OPENAPI";

#[test]
fn the_committed_openapi_document_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/margrave.json");
    let mut text = document().to_pretty_json().unwrap();
    text.push('\n');
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "openapi/margrave.json differs from the code; rewrite it with\n    {WRITE}=1 cargo test -p margrave-server --lib openapi"
    );
}

#[test]
fn every_operation_has_a_summary_a_tag_and_an_id_of_its_own() {
    let document = serde_json::to_value(document()).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with("/api/"), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{method} {path}");
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "{id} twice");
        }
    }
    assert!(ids.len() > 40, "{}", ids.len());
}

#[test]
fn every_mutating_call_accepts_an_idempotency_key() {
    let document = serde_json::to_value(document()).unwrap();
    let mut posts = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let takes = parameters.iter().any(|one| one["name"] == "Idempotency-Key" && one["in"] == "header");
            assert_eq!(takes, method != "get", "{method} {path}");
            posts += usize::from(method == "post");
        }
    }
    assert!(posts >= 10, "{posts}");
}
