use super::{Config, Setting};
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
    refused(
        "\n[listeners.devices]\naddress = \"here\"\n",
        "margrave.toml, line 3, column 1, `listeners.devices.address`:",
    );
    refused("offline_after = \"soon\"", "margrave.toml, line 1, column 1, `offline_after`: `soon` is not a duration");
    refused("[listeners\n", "margrave.toml, line 1");
}

#[test]
fn rejects_an_unknown_key_with_the_nearest_valid_one() {
    refused(
        "[listeners.devices]\nadress = \"0.0.0.0:443\"\n",
        "margrave.toml, line 2, column 1, `listeners.devices.adress`: unknown setting; \
         did you mean `listeners.devices.address`?",
    );
}

#[test]
fn rejects_plain_http_except_on_loopback() {
    let text = "[listeners.operators]\naddress = \"0.0.0.0:8080\"\ntls = false\n";
    refused(text, "line 3, column 1, `listeners.operators.tls`: plain HTTP is refused on 0.0.0.0:8080");
    assert!(parse("[listeners.operators]\naddress = \"0.0.0.0:8080\"\n").unwrap().listeners.operators.speaks_tls());
}

#[test]
fn lists_all_invalid_settings_at_once() {
    let text = "offline_after = \"0s\"\n[identity]\nwfm_id = \"a/b\"\n[https]\nkey_file = \"k.pem\"\n\
                [listeners.devices]\npath_prefix = \"margo/\"\n[urls]\ndevices = \"http://wfm\"\n[log]\nfilter = \"a=b=c\"\n";
    let error = parse(text).unwrap_err();
    for key in [
        "line 1, column 1, `offline_after`",
        "line 3, column 1, `identity.wfm_id`",
        "line 5, column 1, `https.key_file`",
        "line 7, column 1, `listeners.devices.path_prefix`",
        "line 9, column 1, `urls.devices`",
        "line 11, column 1, `log.filter`",
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

    // The reference covers every key that can be written.
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

#[test]
fn problems_of_every_kind_are_listed_at_once() {
    let text = "offline_after = 5\ndata = \"x\"\n[store]\nurl = \"postgress://h/d\"\nreaders = 900\n\
                [listeners.trust]\naddress = \"127.0.0.1:443\"\nenabled = \"yes\"\n";
    let error = parse(text).unwrap_err();
    let lines: Vec<_> = error.lines().skip(1).map(str::trim).collect();
    let keys: Vec<_> = lines.iter().map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(
        keys,
        ["offline_after", "data", "store.url", "store.readers", "listeners.trust.address", "listeners.trust.enabled"],
        "{error}"
    );
    assert!(lines[1].contains("did you mean `data_dir`?"), "{error}");
    assert!(lines[4].contains("port 443 is also used by `listeners.devices.address`"), "{error}");
}

#[test]
fn rejects_a_port_used_twice() {
    let two = |one: &str, other: &str| {
        parse(&format!("[listeners.devices]\naddress = \"{one}\"\n[listeners.trust]\naddress = \"{other}\"\n"))
    };
    two("127.0.0.1:9000", "0.0.0.0:9000").unwrap_err();
    two("[::]:9000", "127.0.0.1:9000").unwrap_err();
    two("127.0.0.1:9000", "127.0.0.1:9000").unwrap_err();
    two("127.0.0.1:9000", "127.0.0.2:9000").unwrap();
    two("127.0.0.1:0", "127.0.0.1:0").unwrap();
    parse("[listeners.trust]\nenabled = false\naddress = \"0.0.0.0:443\"\n").unwrap();
}

#[test]
fn rejects_an_invalid_store_url_without_showing_its_password() {
    for (url, expected) in [
        ("mysql://me:secret@host/db", "is not a supported database"),
        ("postgres://me:secret@host", "names no database"),
        ("postgres://me:secret@host:99999/db", "is not a URL (invalid port number)"),
        ("postgres://me:sec/ret@host/db", "is not a URL"),
        ("postgres:///db", "names no host"),
        ("secret", "is not a supported database"),
        ("sqlite://", "names no file"),
    ] {
        let error = parse(&format!("[store]\nurl = \"{url}\"\n")).unwrap_err();
        assert!(error.contains(expected), "{url}: {error}");
        assert!(!error.contains("sec"), "{error}");
    }
    for url in ["sqlite::memory:", "sqlite:///var/db", "postgresql://h/d", "postgres:///db?host=/run/postgresql"] {
        parse(&format!("[store]\nurl = \"{url}\"\n")).unwrap();
    }
}

#[test]
fn the_example_contains_every_setting_with_its_default() {
    let example = Config::example();
    let as_table = |config: Config| toml::Table::try_from(config).unwrap();
    assert_eq!(as_table(parse(&example).unwrap()), as_table(Config::default()));
    assert!(example.lines().all(|line| line.len() <= 120), "{example}");

    // Without the comment signs, every setting is present in a valid form.
    let uncommented: String = example
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => rest,
            _ => line,
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let table: toml::Table = toml::from_str(&uncommented).unwrap();
    let mut keys = Vec::new();
    collect("", &table, &mut keys);
    for Setting { key, kind, default, text } in Config::reference() {
        assert!(keys.contains(&key), "{key} is not in the example");
        let unit =
            if default.is_empty() { format!("({kind}; not set") } else { format!("({kind}; default {default})") };
        assert!(example.contains(&unit), "{key}: {unit}");
        assert!(!text.is_empty());
    }
    parse(&uncommented).unwrap();
}

#[test]
fn reports_what_this_machine_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut config = Config { data_dir: folder.path().join("made/later"), ..Config::default() };
    assert_eq!(config.machine_problems(), []);
    config.data_dir = file.join("data");
    config.https.key_file = Some(folder.path().join("missing.pem"));
    config.identity.anchors_file = Some(folder.path().to_owned());
    config.store.url = Some(format!("sqlite://{}/none/here.db", folder.path().display()));
    config.store.seal_key_file = Some(folder.path().join("made-later.key"));
    // TEST-NET-1 (RFC 5737): an unassigned address.
    config.listeners.trust.address = "192.0.2.1:8443".parse().unwrap();
    let keys: Vec<_> = config.machine_problems().iter().map(|problem| problem.key).collect();
    assert_eq!(keys, ["data_dir", "store.url", "https.key_file", "identity.anchors_file", "listeners.trust.address"]);
    config.store.seal_key_file = Some(folder.path().to_owned());
    assert!(config.machine_problems().iter().any(|problem| problem.key == "store.seal_key_file"));
}

#[test]
fn settings_in_effect_are_shown_without_passwords() {
    let mut config = Config::default();
    config.store.url = Some("postgres://me:secret@host/db".to_owned());
    let shown = config.in_effect();
    let find = |key: &str| shown.iter().find(|(name, _)| name == key).unwrap().1.as_ref().map(ToString::to_string);
    assert_eq!(find("store.url").as_deref(), Some("\"postgres://me@host/db\""));
    assert_eq!(find("store.readers").as_deref(), Some("4"));
    assert_eq!(find("https.key_file"), None);
}
