//! Gateways: children that are reported, selected, unknown, unreachable, gone.

use super::bench::*;
use crate::machine::Settings;
use crate::machine::io::*;
use margo::status::State;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

fn gateway() -> Bench {
    Bench::with(Settings::default(), vec![device("gw", "8Gi"), device("gw/small", "1Gi"), device("gw/large", "16Gi")])
}

#[test]
fn the_gateway_is_reported_before_its_children() {
    // GW-02
    let (mut bench, mut server) = (gateway(), Server::new());
    bench.converge(&mut server);
    let reported: Vec<_> = server.devices.iter().map(margo::DeviceId::as_str).collect();
    assert_eq!(reported, ["gw", "gw/small", "gw/large"]);
}

#[test]
fn reports_everything_again_when_the_server_lost_the_gateway() {
    // GW-02
    let (mut bench, mut server) = (gateway(), Server::new());
    bench.converge(&mut server);
    server.devices.clear();
    bench.inputs.push_back(Input::Devices(vec![
        device("gw", "8Gi"),
        device("gw/small", "2Gi"),
        device("gw/large", "16Gi"),
    ]));
    bench.run_for(MINUTE, &mut server);
    let reported: Vec<_> = server.devices.iter().map(margo::DeviceId::as_str).collect();
    assert_eq!(reported, ["gw", "gw/small", "gw/large"]);
}

#[test]
fn deletes_a_vanished_child_even_after_a_restart() {
    // GW-02
    let (mut bench, mut server) = (gateway(), Server::new());
    bench.converge(&mut server);
    bench.devices.pop();
    bench.crash();
    bench.run_for(MINUTE, &mut server);
    assert!(!server.devices.iter().any(|device| device.as_str() == "gw/large"));
    bench.crash();
    server.requests.clear();
    bench.run_for(MINUTE, &mut server);
    assert!(!server.requests.iter().any(|request| matches!(request, Request::DeleteDevice { .. })));
}

#[test]
fn a_server_without_delete_does_not_block_the_rest() {
    // W-19
    let (mut bench, mut server) = (gateway(), Server::new());
    bench.converge(&mut server);
    bench.devices.pop();
    bench.crash();
    server.twist =
        Some(Box::new(|request| matches!(request, Request::DeleteDevice { .. }).then(|| response(405, b""))));
    server.publish(vec![yaml(1, "gw/small", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    assert!(server.requests.iter().filter(|request| matches!(request, Request::DeleteDevice { .. })).count() <= 3);
}

#[test]
fn changed_capabilities_are_reported_again_and_unchanged_ones_are_not() {
    // CAP-01
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    server.devices.clear();
    bench.inputs.push_back(Input::Devices(vec![device("gw", "8Gi")]));
    bench.run_for(MINUTE, &mut server);
    assert!(server.devices.is_empty());
    bench.inputs.push_back(Input::Devices(vec![device("gw", "4Gi")]));
    bench.run_for(MINUTE, &mut server);
    assert_eq!(server.devices.len(), 1);
}

#[test]
fn a_report_about_a_child_names_it_and_one_about_the_gateway_does_not() {
    // GW-05
    let (mut bench, mut server) = (gateway(), Server::new());
    server.publish(vec![yaml(1, "gw/small", &["web"], "1.0.0"), yaml(2, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    assert_eq!(server.last_status(1).device_id.as_ref().unwrap().as_str(), "gw/small");
    assert_eq!(server.last_status(2).device_id, None);
    assert_eq!(bench.world.deployments[&id(1)].device.as_str(), "gw/small");
}

#[test]
fn places_an_autonomous_deployment_on_a_compatible_child_and_keeps_it() {
    // GW-04, GW-05
    let needs = "    deviceConstraints:\n      capacityRequirements:\n        memory: 4Gi\n";
    let (mut bench, mut server) = (gateway(), Server::new());
    server.publish(vec![yaml_with(1, "gw/*", &["web"], "1.0.0", needs)]);
    bench.converge(&mut server);
    assert_eq!(bench.world.deployments[&id(1)].device.as_str(), "gw/large");
    assert_eq!(server.last_status(1).device_id.as_ref().unwrap().as_str(), "gw/large");
    server.publish(vec![yaml_with(1, "gw/*", &["web"], "2.0.0", needs)]);
    bench.converge(&mut server);
    assert_eq!(bench.world.deployments[&id(1)].device.as_str(), "gw/large");
}

#[test]
fn gateway_errors_carry_the_reserved_codes_and_the_gateways_id() {
    // ST-07, ST-08, GW-04
    let huge = "    deviceConstraints:\n      capacityRequirements:\n        memory: 999Gi\n";
    let (mut bench, mut server) = (gateway(), Server::new());
    bench.script = toml::from_str("unreachable = [\"gw/small\"]").unwrap();
    server.publish(vec![
        yaml(1, "gw/absent", &["web"], "1.0.0"),
        yaml(2, "gw/small", &["web"], "1.0.0"),
        yaml_with(3, "gw/*", &["web"], "1.0.0", huge),
        yaml(4, "elsewhere", &["web"], "1.0.0"),
    ]);
    bench.run_for(MINUTE, &mut server);
    for (number, code, device) in [(1, "101", Some("gw/absent")), (2, "102", Some("gw/small")), (3, "103", None)] {
        let status = server.last_status(number);
        let error = status.error.as_ref().unwrap();
        assert_eq!((status.state, error.code.as_str(), error.source.as_str()), (State::Failed, code, "gw"));
        assert_eq!(status.device_id.as_ref().map(margo::DeviceId::as_str), device);
        assert_eq!(status.components[0].error.as_ref().unwrap().source, "gw");
    }
    let other = server.last_status(4).error.as_ref().unwrap();
    assert_eq!((other.code.as_str(), other.source.as_str()), ("206", "app-4"));
}

#[test]
fn an_unreachable_child_keeps_its_last_status() {
    // invariant 9: unknown is neither failed nor gone
    let (mut bench, mut server) = (gateway(), Server::new());
    server.publish(vec![yaml(1, "gw/small", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.script = toml::from_str("unreachable = [\"gw/small\"]").unwrap();
    let count_before = server.statuses.len();
    bench.run_for(20 * MINUTE, &mut server);
    assert_eq!(server.statuses.len(), count_before);
    assert_eq!(bench.world.deployments[&id(1)].components["web"].starts, 1);
}

#[test]
fn a_deployment_directed_to_another_child_moves() {
    let (mut bench, mut server) = (gateway(), Server::new());
    server.publish(vec![yaml(1, "gw/small", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw/large", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    assert_eq!(bench.world.deployments[&id(1)].device.as_str(), "gw/large");
    let removed =
        bench.trace.iter().any(|effect| matches!(effect, Effect::Remove(work) if work.device.as_str() == "gw/small"));
    assert!(removed);
}
