//! Two agents on one device: two state folders, one engine.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_on_one_engine_do_not_touch_each_other() {
    let (mut one, mut other) = (Device::new().await, Device::new().await);
    assert_eq!(one.docker.socket(), other.docker.socket());
    // Short, so that a wrong repair would happen.
    (one.observe_period, other.observe_period) = ("200ms", "200ms");
    one.install(&[]).await;
    other.install(&[]).await;
    let started = |device: &Device| {
        let container = device.containers().remove(0);
        device.docker.docker(&["inspect", "--format", "{{.Id}} {{.State.StartedAt}}", &container])
    };
    let before = started(&other);
    let reports_before = other.fake.reported(other.id).len();

    one.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("COUNT", "3")],
        ..DocumentOptions::default()
    });
    one.reaches(State::Installed).await;
    assert_eq!(one.containers().len(), 3);

    // A port of the other agent is a conflict that names its container, and no workload is stopped for it.
    let image = other.push_image("1").await;
    let port = { std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port() };
    let ports = format!("    ports: [\"{port}:80\"]\n    scale");
    let taking = web(&image).replacen("    scale", &ports, 1);
    other.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &taking)]).await;
    other.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    other.reaches(State::Installed).await;
    let image = one.push_image("1").await;
    let taking = web(&image).replacen("    scale", &ports, 1);
    one.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &taking)]).await;
    one.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    let refused = one.reaches(State::Failed).await;
    let message = refused.components[0].error.clone().unwrap().message;
    let holder = format!("port {port}/tcp is in use by container `{}-web-1`", other.project());
    assert!(message.contains(&holder), "{message}");
    assert_eq!(one.containers().len(), 3, "running workloads continue");

    let mine = started(&other);
    assert_ne!(mine, before, "its own upgrade");
    one.publish(&[]);
    one.reaches(State::Removed).await;
    assert_eq!(started(&other), mine);
    assert_eq!(other.volumes().len(), 1);
    let repairs = other.fake.reported(other.id).into_iter().skip(reports_before);
    let codes: Vec<_> = repairs.filter_map(|status| status.error).map(|error| error.code).collect();
    assert!(codes.is_empty(), "changes of the other agent are not drift: {codes:?}");
}
