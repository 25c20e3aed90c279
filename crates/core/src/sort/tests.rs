use super::*;

#[test]
fn writes_a_sort_as_it_was_read() {
    for text in ["device", "-device", "last-seen", "-last-seen", "state", "-site"] {
        assert_eq!(Sort::<DeviceColumn>::parse(text).map(|sort| sort.to_string()).as_deref(), Some(text));
    }
}

#[test]
fn rejects_an_unknown_column() {
    for text in ["", "-", "--device", "Device", "application", "device "] {
        assert_eq!(Sort::<DeviceColumn>::parse(text), None, "{text}");
    }
    assert_eq!(Sort::<RolloutColumn>::names(), "`application`, `started`");
}

#[test]
fn every_state_has_a_position_of_its_own() {
    let mut devices: Vec<i64> = DeviceState::ALL.into_iter().map(device_severity).collect();
    let mut deployments: Vec<i64> = DeploymentState::ALL.into_iter().map(deployment_severity).collect();
    devices.sort_unstable();
    deployments.sort_unstable();
    assert_eq!(devices, (0..DeviceState::ALL.len() as i64).collect::<Vec<_>>());
    assert_eq!(deployments, (0..DeploymentState::ALL.len() as i64).collect::<Vec<_>>());
}
