use super::*;
use margo::capabilities::UnknownTypes;

fn read(extensions: &Value) -> DeviceCapabilities {
    let mut document = json!({"properties": {"id": "gw", "vendor": "v", "modelNumber": "m", "serialNumber": "s"}});
    for (name, value) in extensions.as_object().unwrap() {
        document[name] = value.clone();
    }
    DeviceCapabilities::read(document.to_string().as_bytes(), UnknownTypes::Refuse).unwrap().document
}

#[test]
fn reads_announcements_of_the_runtime() {
    let (name, announcement) = simulated_announcement();
    assert!(is_simulated(&read(&json!({ name: announcement }))));
    let (name, announcement) = none_announcement();
    let read = read(&json!({ name: announcement }));
    assert!(has_none(&read) && !is_simulated(&read));
}

#[test]
fn ignores_unknown_announcements() {
    // CAP-09: extensions of others, and values of later versions of ours, are never an error.
    for extensions in [
        json!({}),
        json!({"x-margrave-extensions": {}}),
        json!({"x-margrave-extensions": {"runtime": "compose"}}),
        json!({"x-margrave-extensions": {"runtime": ["simulated"]}}),
        json!({"x-margrave-extensions": {"runtime": {"simulated": true}}}),
        json!({"x-margrave-extensions": {"hold": {"reason": "fan"}}}),
        json!({"x-acme-extensions": {"runtime": "simulated"}}),
    ] {
        assert!(!is_simulated(&read(&extensions)) && !has_none(&read(&extensions)), "{extensions}");
    }
}

#[test]
fn trusts_hosting_fields_over_the_announcement() {
    let document = json!({
        "properties": {"id": "gw", "vendor": "v", "modelNumber": "m", "serialNumber": "s", "supportedDeploymentTypes": ["helm"]},
        "x-margrave-extensions": {"runtime": "none"},
    });
    let read = DeviceCapabilities::read(document.to_string().as_bytes(), UnknownTypes::Refuse).unwrap().document;
    assert!(!has_none(&read));
}
