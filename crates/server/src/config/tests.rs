use super::Config;
use std::path::Path;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("margrave.toml"), text).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = parse(text).unwrap_err();
    assert!(error.contains(expected), "`{error}` does not contain `{expected}`");
}

#[test]
fn an_empty_file_means_the_defaults() {
    let config = parse("").unwrap();
    assert_eq!(config.listeners.devices.address.port(), 443, "GEN-04");
    assert!(config.listeners.operators.address.ip().is_loopback());
    assert!(!config.listeners.operators.speaks_tls());
    assert!(!config.clients.accept_any, "WID-05: a wildcard is an explicit choice");
    assert!(config.problems().is_empty(), "{:?}", config.problems());
}

#[test]
fn errors_name_file_line_and_key() {
    refused("\n[listeners.devices]\naddress = \"here\"\n", "margrave.toml, line 3, `listeners.devices.address`:");
    refused("silent_after = \"soon\"", "margrave.toml, line 1, `silent_after`: `soon` is not a length of time");
    refused("[listeners\n", "margrave.toml, line 1");
}

#[test]
fn an_unknown_key_is_refused_with_the_known_ones() {
    refused("[listeners.devices]\nadress = \"0.0.0.0:443\"\n", "margrave.toml, line 2");
    refused("[listeners.devices]\nadress = \"0.0.0.0:443\"\n", "unknown field `adress`, expected one of");
}

#[test]
fn plain_http_for_operators_is_refused_away_from_loopback() {
    let text = "[listeners.operators]\naddress = \"0.0.0.0:8080\"\ntls = false\n";
    refused(text, "line 3, `listeners.operators.tls`: plain HTTP is refused on 0.0.0.0:8080");
    assert!(parse("[listeners.operators]\naddress = \"0.0.0.0:8080\"\n").unwrap().listeners.operators.speaks_tls());
}

#[test]
fn settings_that_cannot_work_are_all_listed_at_once() {
    let text = "silent_after = \"0s\"\n[identity]\nwfm_id = \"a/b\"\n[https]\nkey_file = \"k.pem\"\n\
                [listeners.devices]\npath_prefix = \"margo/\"\n[urls]\ndevices = \"http://wfm\"\n[log]\nfilter = \"a=b=c\"\n";
    let error = parse(text).unwrap_err();
    for key in [
        "line 1, `silent_after`",
        "line 3, `identity.wfm_id`",
        "line 5, `https.key_file`",
        "line 7, `listeners.devices.path_prefix`",
        "line 9, `urls.devices`",
        "line 11, `log.filter`",
    ] {
        assert!(error.contains(key), "`{error}` does not name {key}");
    }
}

#[test]
fn the_reference_names_every_key_with_default_and_text() {
    let reference = Config::reference();
    let find = |key: &str| reference.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(find("listeners.devices.address").default, "\"0.0.0.0:443\"");
    assert_eq!(find("store.url").default, "");
    assert_eq!(find("limits.connection_age_max").default, "\"1h\"");
    assert!(reference.iter().all(|setting| setting.text.ends_with('.')), "every text is a sentence");

    // Nothing that can be written is missing from the reference.
    let table = toml::Table::try_from(Config::default()).unwrap();
    let mut keys = Vec::new();
    collect("", &table, &mut keys);
    for key in keys {
        find(&key);
    }
}

fn collect(prefix: &str, table: &toml::Table, keys: &mut Vec<String>) {
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => collect(&format!("{prefix}{name}."), inner, keys),
            _ => keys.push(format!("{prefix}{name}")),
        }
    }
}
