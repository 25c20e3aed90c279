//! JSON and YAML output for programs.

use crate::support::{Server, margrave};
use serde_json::{Value, json};

#[test]
fn prints_the_certificate_authorities_as_json_and_yaml() {
    let server = Server::start();
    for what in ["bundle", "https-ca"] {
        let pem = server.run(&["trust", what]).stdout;
        assert_eq!(server.json(&["trust", what]), json!({ "pem": pem }), "{what}");
        let yaml = server.run(&["trust", what, "-o", "yaml"]).stdout;
        assert!(yaml.starts_with("pem: "), "{yaml}");
    }
}

#[test]
fn prints_settings_as_json() {
    let home = tempfile::tempdir().unwrap();
    let output = margrave(home.path()).args(["config", "reference", "-o", "json"]).output().unwrap();
    let settings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let data = settings.iter().find(|setting| setting["setting"] == "data_dir").expect("a required setting");
    assert!(data["default"].is_string() && !data["meaning"].as_str().unwrap().is_empty(), "{data}");
}
