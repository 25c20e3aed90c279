//! oras pushes artifacts, attaches others to them, and finds those.

use super::run;
use crate::support::{CLIENT, Fixture, TOKEN};
use serde_json::Value;
use std::fs;

async fn login(fixture: &Fixture, user: &str, password: &str) -> super::Ran {
    let address = fixture.address.to_string();
    run(fixture, "oras", &["login", &address, "-u", user, "--password-stdin", "--plain-http"], password).await
}

#[tokio::test]
async fn oras_pushes_an_artifact_and_attaches_another_to_it() {
    let fixture = Fixture::new().await;
    login(&fixture, "token", "wrong").await.refused();
    login(&fixture, "token", TOKEN).await.ok();
    fs::write(fixture.scratch().join("margo.yaml"), "kind: ApplicationDescription\n").unwrap();
    fs::write(fixture.scratch().join("bill.json"), "{}").unwrap();
    let reference = format!("{}/apps/press:1.0", fixture.address);
    let app = "application/vnd.margo.app.v1+json";
    let file = "margo.yaml:application/vnd.margo.app.description.v1+yaml";
    run(&fixture, "oras", &["push", "--plain-http", "--artifact-type", app, &reference, file], "").await.ok();
    for kind in ["application/vnd.example.bill", "application/vnd.example.other"] {
        let attach = ["attach", "--plain-http", "--artifact-type", kind, &reference, "bill.json:application/json"];
        run(&fixture, "oras", &attach, "").await.ok();
    }
    let discover = ["discover", "--plain-http", "--format", "json", &reference];
    let found: Value = serde_json::from_str(&run(&fixture, "oras", &discover, "").await.ok()).unwrap();
    assert_eq!(referrers(&found).len(), 2, "{found}");
    let one =
        ["discover", "--plain-http", "--format", "json", "--artifact-type", "application/vnd.example.bill", &reference];
    let found: Value = serde_json::from_str(&run(&fixture, "oras", &one, "").await.ok()).unwrap();
    assert_eq!(referrers(&found).len(), 1, "{found}");
    // No fallback tag: oras detected the referrers API.
    let tags = run(&fixture, "oras", &["repo", "tags", "--plain-http", reference.trim_end_matches(":1.0")], "").await;
    assert_eq!(tags.ok().trim(), "1.0");
    let repositories = run(&fixture, "oras", &["repo", "ls", "--plain-http", &fixture.address.to_string()], "").await;
    assert_eq!(repositories.ok().trim(), "apps/press");
}

fn referrers(found: &Value) -> &Vec<Value> {
    let list = found.get("referrers").or_else(|| found.get("manifests"));
    list.and_then(Value::as_array).unwrap_or_else(|| panic!("{found}"))
}

#[tokio::test]
async fn oras_copies_between_repositories_and_a_device_pulls() {
    let fixture = Fixture::new().await;
    login(&fixture, "token", TOKEN).await.ok();
    fs::write(fixture.scratch().join("data"), "content").unwrap();
    let (one, two) = (format!("{}/one:1", fixture.address), format!("{}/two/deep:1", fixture.address));
    run(&fixture, "oras", &["push", "--plain-http", &one, "data:text/plain"], "").await.ok();
    run(&fixture, "oras", &["cp", "--from-plain-http", "--to-plain-http", &one, &two], "").await.ok();
    run(&fixture, "oras", &["manifest", "delete", "--plain-http", "--force", &one], "").await.ok();
    run(&fixture, "oras", &["manifest", "fetch", "--plain-http", &one], "").await.refused();

    login(&fixture, CLIENT, &fixture.pull_password).await.ok();
    run(&fixture, "oras", &["pull", "--plain-http", "-o", "pulled", &two], "").await.ok();
    assert_eq!(fs::read_to_string(fixture.scratch().join("pulled/data")).unwrap(), "content");
    let refused = run(&fixture, "oras", &["push", "--plain-http", &two, "data:text/plain"], "").await.refused();
    assert!(refused.contains("devices only pull"), "{refused}");
}
