//! The life cycle of a component: install, reconfigure, scale, upgrade, remove.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;

#[tokio::test(flavor = "multi_thread")]
async fn installs_a_component_with_all_its_files() {
    // COMP-01, COMP-03, COMP-04, COMP-06
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let compose = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"env; cat /etc/greeting; sleep 1000000\"]\n    \
         env_file: [settings/web.env]\n    configs: [{{ source: greeting, target: /etc/greeting }}]\n    \
         healthcheck: {{ test: [\"CMD\", \"/bin/test\", \"-e\", \"/etc/greeting\"], interval: 1s }}\n\
         configs:\n  greeting: {{ file: ./greeting.txt }}\n"
    );
    let files = [
        ("compose.yaml", compose.as_str()),
        ("settings/web.env", "FROM_FILE=yes\n"),
        ("greeting.txt", "hello plant\n"),
    ];
    device.registry.push_compose(REPOSITORY, "1.0.0", &files).await;
    device.tables = format!(
        "[telemetry]\nhttp_endpoint = \"http://collector.plant:4318\"\ngrpc_endpoint = \"http://collector.plant:4317\"\nprotocol = \"http/protobuf\"\ncertificate = {:?}\n",
        device.path("collector.pem").display().to_string()
    );
    std::fs::write(device.path("collector.pem"), "the collector's authority\n").unwrap();
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    assert_eq!(device.reaches(State::Installed).await.components.len(), 1);
    let states: Vec<State> = device.fake.reported(device.id).iter().map(|status| status.state).collect();
    assert_eq!(states, [State::Pending, State::Installing, State::Installed], "states are reported as they happen");
    let containers = device.containers();
    assert_eq!(containers.len(), 1);
    let output = device.docker.docker(&["logs", &containers[0]]);
    for line in [
        "FROM_FILE=yes",
        "hello plant",
        // OBS-05
        "HTTP_OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.plant:4318",
        "GRPC_OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.plant:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    let certificate = output.lines().find_map(|line| line.strip_prefix("OTEL_EXPORTER_OTLP_CERTIFICATE=")).unwrap();
    assert_eq!(device.read(certificate), "the collector's authority");
    let health = device.docker.docker(&["inspect", "--format", "{{.State.Health.Status}}", &containers[0]]);
    assert_eq!(health, "healthy", "COMP-07: healthy where there is a check");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_reconfigures_and_scales_and_the_volume_keeps_its_data() {
    let mut device = Device::new().await;
    device.install(&[("MODE", "slow")]).await;
    assert_eq!(device.read("/data/mode"), "slow");
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("MODE", "fast")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/data/mode"), "fast");
    assert_eq!(device.read("/data/starts"), "x\nx", "the volume is the same one");
    let before = device.containers();
    let parameters = [("MODE", "fast"), ("COUNT", "3")];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    let after = device.containers();
    assert_eq!(after.len(), 3);
    assert!(after.contains(&before[0]), "only what is missing is added");
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("MODE", "fast")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    assert_eq!(device.containers(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_replaces_only_what_changed_and_keeps_named_volumes() {
    let mut device = Device::new().await;
    let (one, two) = (device.push_image("1").await, device.push_image("2").await);
    let compose = |image: &str| {
        format!(
            "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"cat /mark >> /data/marks; sleep 1000000\"]\n    \
             volumes: [\"data:/data\"]\n  side:\n    image: {one}\n    configs: [{{ source: c, target: /c }}]\n\
             configs: {{ c: {{ file: c.txt }} }}\nvolumes: {{ data: {{}} }}\n"
        )
    };
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &compose(&one)), ("c.txt", "c")]).await;
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &compose(&two)), ("c.txt", "c")]).await;
    device.registry.push_compose(REPOSITORY, "2.0.1", &[("compose.yaml", &compose(&two)), ("c.txt", "d")]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Installed).await;
    let of = |service: &str| {
        let filter = format!("label=com.docker.compose.service={service}");
        device.docker.docker(&["ps", "--no-trunc", "--quiet", "--filter", &device.label(), "--filter", &filter])
    };
    let (web_before, side_before) = (of("web"), of("side"));
    device.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    let of = |service: &str| {
        let filter = format!("label=com.docker.compose.service={service}");
        device.docker.docker(&["ps", "--no-trunc", "--quiet", "--filter", &device.label(), "--filter", &filter])
    };
    let web_after = of("web");
    assert_ne!(web_after, web_before);
    assert_eq!(of("side"), side_before, "unchanged services are not touched");
    assert_eq!(device.docker.docker(&["exec", &web_after, "/bin/cat", "/data/marks"]), "12", "the data survived");
    // A file that is mounted has changed, and nothing else.
    device.publish_document(&DocumentOptions { revision: "2.0.1", ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    let filter = "label=com.docker.compose.service=side";
    let side = device.docker.docker(&["ps", "--no-trunc", "--quiet", "--filter", &device.label(), "--filter", filter]);
    assert_ne!(side, side_before);
    assert_eq!(device.docker.docker(&["exec", &side, "/bin/cat", "/c"]), "d");
    assert!(device.containers().contains(&web_after));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_failed_upgrade_with_its_last_log_lines_and_recovers() {
    // COMP-07
    let mut device = Device::new().await;
    let image = device.install(&[]).await;
    let broken = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"echo no such press; exit 7\"]\n    \
         volumes: [\"data:/data\"]\nvolumes: {{ data: {{}} }}\n"
    );
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &broken)]).await;
    device.publish_document(&DocumentOptions {
        revision: "2.0.0",
        properties: "          timeout: 10m0s\n",
        ..DocumentOptions::default()
    });
    let status = device.reaches(State::Failed).await;
    let error = status.components[0].error.clone().unwrap();
    assert!(error.message.contains("exited with code 7") && error.message.contains("no such press"), "{error:?}");
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/data/starts"), "x\nx", "the data of the first revision is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_keeps_volumes_unless_purge_is_set() {
    let mut device = Device::new().await;
    device.install(&[]).await;
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert_eq!(device.all_containers(), Vec::<String>::new());
    assert_eq!(device.volumes().len(), 1, "data stays");
    let purge = "  x-margrave-extensions:\n    policy:\n      onRemoval: purge\n";
    device.publish_document(&DocumentOptions { revision: "1.0.0", spec: purge, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/data/starts"), "x\nx", "found again");
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert_eq!(device.volumes(), Vec::<String>::new());
    assert!(!device.state_dir.join("compose").join(device.project()).exists());
    assert_eq!(std::fs::read_dir(device.state_dir.join("artifacts/blobs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_package_location_is_accepted() {
    // W-22
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    let location = format!("          packageLocation: {}:1.0.0\n", device.registry.repository(REPOSITORY));
    let served = device.document_from(&location, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn applies_components_in_order_after_the_previous_is_healthy() {
    // AD-01, AD-02, COMP-07
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let slow = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"sleep 2; touch /ready; sleep 1000000\"]\n    \
         healthcheck: {{ test: [\"CMD\", \"/bin/test\", \"-e\", \"/ready\"], interval: 1s, retries: 100 }}\n"
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &slow)]).await;
    device.registry.push_compose("components/panel", "1.0.0", &[("compose.yaml", &web(&image))]).await;
    let panel = format!(
        "      - name: panel\n        properties:\n          repository: {}\n          revision: 1.0.0\n",
        device.registry.repository("components/panel")
    );
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties: &panel, ..DocumentOptions::default() });
    device.start();
    let status = device.reaches(State::Installed).await;
    assert_eq!(status.components.len(), 2);
    let events = device.docker.events(&[&device.label()], "{{.Action}} {{.Actor.Attributes.name}}");
    let at = |action: &str, name: &str| {
        let is_it = |line: &String| line.starts_with(action) && line.split(' ').next_back().unwrap().starts_with(name);
        events.iter().position(is_it).unwrap_or_else(|| panic!("no {action} of {name}: {events:?}"))
    };
    assert!(at("health_status: healthy", "web-") < at("create", "panel-"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_fails_after_its_timeout() {
    // AD-03
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &never_healthy(&image))]).await;
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        properties: "          timeout: 0m10s\n",
        ..DocumentOptions::default()
    });
    device.start();
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("not finished after 10 s"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_without_wait_does_not_block_the_next() {
    // AD-02
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &never_healthy(&image))]).await;
    device.registry.push_compose("components/panel", "1.0.0", &[("compose.yaml", &web(&image))]).await;
    let rest = format!(
        "          wait: false\n      - name: panel\n        properties:\n          repository: {}\n          revision: 1.0.0\n",
        device.registry.repository("components/panel")
    );
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties: &rest, ..DocumentOptions::default() });
    device.start();
    let states = |device: &Device| {
        let components = device.status().map(|status| status.components).unwrap_or_default();
        components.into_iter().map(|component| component.state).collect::<Vec<_>>()
    };
    device.until("the second one is there", || states(&device).get(1) == Some(&State::Installed)).await;
    assert_eq!(states(&device)[0], State::Installing, "and the first is not called installed before it is healthy");
    assert_eq!(device.containers().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_component_takes_over_the_port() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let port = { std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port() };
    let serving = format!(
        "services:\n  web:\n    image: {image}\n    container_name: fixed-{}\n    ports: [\"{port}:80\"]\n",
        device.project()
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &serving)]).await;
    // A failure would stop it: the conflict with the old component must not count as one.
    let spec = "  x-margrave-extensions:\n    policy: { onFailure: stop }\n";
    device.publish_document(&DocumentOptions { revision: "1.0.0", spec, ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Installed).await;
    let before = device.containers();
    let mut renamed = device.document(&DocumentOptions { revision: "1.0.0", spec, ..DocumentOptions::default() });
    let text = String::from_utf8(renamed.yaml).unwrap().replace("- name: web\n", "- name: panel\n");
    renamed.yaml = text.into_bytes();
    renamed.digest = margo::Digest::of(&renamed.yaml);
    device.publish(&[renamed]);
    let status = device.reaches(State::Installed).await;
    assert_eq!(status.components[0].name, "panel");
    device.until("the old one is gone", || device.all_containers().len() == 1).await;
    assert_ne!(device.containers(), before);
    assert!(device.fake.reported(device.id).iter().all(|status| status.state != State::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_is_never_reported_as_installed() {
    // COMP-07: the engine restarts it, and it runs most of the time.
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let falling = format!(
        "services:\n  web:\n    image: {image}\n    restart: always\n    command: [\"/bin/sh\", \"-c\", \"sleep 2; exit 7\"]\n    \
         healthcheck: {{ disable: true }}\n"
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &falling)]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    let failed = device.reaches(State::Failed).await;
    assert!(failed.components[0].error.clone().unwrap().message.contains("exited with code 7"), "{failed:?}");
    let so_far = device.fake.reported(device.id).len();
    let tries = |device: &Device| {
        let reports = device.fake.reported(device.id).into_iter().skip(so_far);
        reports.filter(|status| status.state == State::Failed).count()
    };
    device.until("it was tried again and again", || tries(&device) >= 3).await;
    let later = device.fake.reported(device.id).into_iter().skip(so_far);
    let states: Vec<State> = later.map(|status| status.state).collect();
    assert!(!states.contains(&State::Installed), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resolves_links_inside_an_archive_and_rejects_outside_ones() {
    // COMP-05
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let compose = format!(
        "services:\n  web:\n    image: {image}\n    env_file: [current.env]\n    configs: [{{ source: c, target: /c }}]\n\
         configs: {{ c: {{ file: conf/greeting.txt }} }}\n"
    );
    let files = [
        ("web/compose.yaml", compose.as_str()),
        ("web/settings/v1.env", "FROM_LINK=yes\n"),
        ("web/texts/greeting.txt", "hello"),
    ];
    let inner = [("web/current.env", "settings/v1.env"), ("web/conf", "texts")];
    device.registry.push_compose_layer(REPOSITORY, "1.0.0", &with_links(&files, &inner)).await;
    let outer = [("web/current.env", "settings/v1.env"), ("web/conf", "texts"), ("web/secrets", "../../../../etc")];
    device.registry.push_compose_layer(REPOSITORY, "1.0.1", &with_links(&files, &outer)).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Installed).await;
    let held = device.containers();
    assert_eq!(device.read("/c"), "hello");
    assert!(device.docker.docker(&["exec", &held[0], "/bin/env"]).contains("FROM_LINK=yes"));
    device.publish_document(&DocumentOptions { revision: "1.0.1", ..DocumentOptions::default() });
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("`web/secrets` would leave the folder"), "{message}");
    assert_eq!(device.containers(), held, "and nothing was changed");
}

/// A service whose health check always fails.
fn never_healthy(image: &str) -> String {
    format!(
        "services:\n  web:\n    image: {image}\n    \
         healthcheck: {{ test: [\"CMD\", \"/bin/false\"], interval: 1s, retries: 10000 }}\n"
    )
}

/// A compose archive with symbolic links in it.
fn with_links(files: &[(&str, &str)], links: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    for (path, target) in links {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, path, target).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}
