//! `margrave config`: all problems at once, effective settings, a file with every setting.

use crate::support::{CommandOutput, margrave};
use serde_json::Value;
use std::path::Path;

fn config(home: &Path, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(margrave(home).arg("config").args(arguments).output().unwrap())
}

fn json(home: &Path, arguments: &[&str], code: i32) -> Value {
    let output = margrave(home).arg("config").args(arguments).args(["-o", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn reports_all_configuration_problems_with_line_column_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("margrave.toml");
    std::fs::write(folder.path().join("plain"), "").unwrap();
    let text = format!(
        "data_dir = \"{0}/plain/data\"\noffline_befor = \"5m\"\n\n[store]\nurl = \"postgress://me:secret@db/fleet\"\n\
         readers = 0\n[listeners.devices]\naddress = \"127.0.0.1:9443\"\nenabled = \"yes\"\n[listeners.trust]\n\
         address = \"127.0.0.1:9443\"\n[https]\ncertificate_file = \"{0}/none.pem\"\nkey_file = \"{0}/plain\"\n",
        folder.path().display()
    );
    std::fs::write(&file, text).unwrap();
    let seen = config(folder.path(), &["check", file.to_str().unwrap()]);
    assert_eq!((seen.code, &*seen.stdout), (2, ""));
    let name = file.display().to_string();
    for expected in [
        "line 1, column 1: `data_dir` `",
        "line 2, column 1: `offline_befor` unknown setting; did you mean `offline_after`?",
        "line 5, column 1: `store.url` is not a supported database",
        "line 6, column 1: `store.readers` must be between 1 and 64",
        "line 9, column 1: `listeners.devices.enabled` invalid value string \"yes\": write `true` or `false`",
        "line 11, column 1: `listeners.trust.address` port 9443 is also used by `listeners.devices.address`",
        "line 13, column 1: `https.certificate_file` `",
    ] {
        assert!(seen.stderr.contains(&format!("{name}, {expected}")), "{expected}\n{}", seen.stderr);
    }
    assert!(!seen.stderr.contains("secret"), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: `margrave config example`"), "{}", seen.stderr);

    let report = json(folder.path(), &["check", "--config", file.to_str().unwrap()], 2);
    assert_eq!((&report["usable"], report["problems"].as_array().unwrap().len()), (&Value::Bool(false), 7));
    assert_eq!((&report["problems"][1]["line"], &report["problems"][1]["key"]), (&2.into(), &"offline_befor".into()));
}

#[test]
fn reports_a_missing_or_invalid_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let seen = config(folder.path(), &["check", "/nowhere/margrave.toml"]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("read the configuration file `/nowhere/margrave.toml`"), "{}", seen.stderr);
    let file = folder.path().join("margrave.toml");
    std::fs::write(&file, "[store\nreaders = 4\n").unwrap();
    let seen = config(folder.path(), &["check", file.to_str().unwrap()]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("margrave.toml, line 1, column 7: "), "{}", seen.stderr);
}

#[test]
fn flags_are_checked_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let seen = config(folder.path(), &["check", "--data", data]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(!Path::new(data).exists(), "checking creates nothing");
    let seen = config(folder.path(), &["check", "--data", data, "--trust", "127.0.0.1:443"]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("--trust: `listeners.trust.address` port 443 is also used"), "{}", seen.stderr);
}

#[test]
fn shows_effective_settings_with_their_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("margrave.toml");
    std::fs::write(
        &file,
        "offline_after = \"7m\"\n[store]\n  url = \"postgres://me:secret@db/fleet\"\n\
         [listeners.devices]\naddress = \"127.0.0.1:1\"\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let shown = json(folder.path(), &["show", "--config", file, "--devices", "127.0.0.1:9443"], 0);
    let find = |key: &str| {
        let settings = shown.as_array().unwrap();
        settings.iter().find(|setting| setting["setting"] == key).unwrap_or_else(|| panic!("{key}")).clone()
    };
    let check = |key: &str, value: Value, from: &str| {
        assert_eq!((&find(key)["value"], &find(key)["from"]), (&value, &from.into()), "{key}");
    };
    check("offline_after", "7m".into(), &format!("{file}, line 1, column 1"));
    check("store.url", "postgres://me@db/fleet".into(), &format!("{file}, line 3, column 3"));
    check("listeners.devices.address", "127.0.0.1:9443".into(), "--devices");
    check("store.readers", 4.into(), "default");
    check("https.key_file", Value::Null, "default");
    let table = config(folder.path(), &["show", "--config", file]);
    assert!(table.stdout.starts_with("SETTING") && !table.stdout.contains("secret"), "{}", table.stdout);
}

#[test]
fn the_example_configuration_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let output = margrave(folder.path()).args(["config", "example"]).output().unwrap();
    assert!(output.status.success());
    let example = String::from_utf8(output.stdout).unwrap();
    let file = folder.path().join("margrave.toml");
    let text = example.replace("\"margrave-data\"", &format!("\"{}\"", folder.path().join("data").display()));
    std::fs::write(&file, text).unwrap();
    let seen = config(folder.path(), &["check", file.to_str().unwrap()]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    for setting in json(folder.path(), &["reference"], 0).as_array().unwrap() {
        let name = setting["setting"].as_str().unwrap().rsplit('.').next().unwrap();
        assert!(example.contains(&format!("{name} = ")), "{name}");
    }
}
