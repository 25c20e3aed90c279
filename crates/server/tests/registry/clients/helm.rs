//! helm pushes charts and pulls them again.

use super::run;
use crate::support::{CLIENT, Fixture, TOKEN};
use std::fs;

#[tokio::test]
async fn helm_pushes_a_chart_and_a_device_pulls_it() {
    let fixture = Fixture::new().await;
    let chart = fixture.scratch().join("press");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: press\nversion: 1.2.3+build\n").unwrap();
    fs::write(chart.join("values.yaml"), "speed: 1\n").unwrap();
    fs::write(chart.join("templates/config.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: press}\n")
        .unwrap();
    run(&fixture, "helm", &["package", "press"], "").await.ok();
    let address = fixture.address.to_string();
    let target = format!("oci://{address}/charts");

    login(&fixture, "token", "wrong").await.refused();
    login(&fixture, "token", TOKEN).await.ok();
    run(&fixture, "helm", &["push", "--plain-http", "press-1.2.3+build.tgz", &target], "").await.ok();
    // A tag has no `+`: helm writes `_` instead.
    assert_eq!(fixture.head("/v2/charts/press/manifests/1.2.3_build").await.status(), 200);

    login(&fixture, CLIENT, &fixture.pull_password).await.ok();
    let chart = format!("{target}/press");
    let pull = ["pull", "--plain-http", &chart, "--version", "1.2.3+build", "--untar", "--untardir", "pulled"];
    run(&fixture, "helm", &pull, "").await.ok();
    assert_eq!(fs::read_to_string(fixture.scratch().join("pulled/press/values.yaml")).unwrap(), "speed: 1\n");
    let shown =
        run(&fixture, "helm", &["show", "values", "--plain-http", &chart, "--version", "1.2.3+build"], "").await;
    assert!(shown.ok().contains("speed: 1"));
    run(&fixture, "helm", &["package", "--version", "2.0.0", "press"], "").await.ok();
    let refused = run(&fixture, "helm", &["push", "--plain-http", "press-2.0.0.tgz", &target], "").await.refused();
    assert!(refused.contains("denied") || refused.contains("403"), "{refused}");
}

async fn login(fixture: &Fixture, user: &str, password: &str) -> super::Ran {
    let address = fixture.address.to_string();
    let arguments = ["registry", "login", "--insecure", &address, "-u", user, "--password-stdin"];
    run(fixture, "helm", &arguments, password).await
}
