use super::{Problem, Reading, read};
use serde::Deserialize;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sample {
    data_dir: String,
    listeners: Listeners,
    child: Vec<Child>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Listeners {
    address: String,
    port: u16,
    enabled: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Child {
    id: String,
}

fn known() -> Vec<String> {
    ["data_dir", "listeners.address", "listeners.port", "listeners.enabled", "child"].map(str::to_owned).to_vec()
}

fn reading(text: &str) -> Reading<Sample> {
    read(text, &known())
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let shown: Vec<_> = reading(text)
        .problems
        .iter()
        .map(|Problem { place, key, text }| match place {
            Some(place) => format!("{}:{} {key}: {text}", place.line, place.column),
            None => format!("{key}: {text}"),
        })
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn reads_valid_settings_with_their_positions() {
    let reading = reading("data_dir = \"a\"\n[listeners]\n  port = 3\n[[child]]\nid = \"x\"\n");
    assert_eq!(reading.problems, []);
    let settings = reading.settings.unwrap();
    assert_eq!((settings.listeners.port, settings.child.len()), (3, 1));
    let port = reading.places["listeners.port"];
    assert_eq!((port.line, port.column), (3, 3));
    assert_eq!(reading.places["child[0].id"].line, 5);
}

#[test]
fn suggests_the_nearest_known_key() {
    check("dat_dir = 1", &["1:1 dat_dir: unknown setting; did you mean `data_dir`?"]);
    check("data = 1", &["1:1 data: unknown setting; did you mean `data_dir`?"]);
    check("[listeners]\nadress = 1", &["2:1 listeners.adress: unknown setting; did you mean `listeners.address`?"]);
    check("[listener]\nport = 1", &["1:2 listener: unknown setting; did you mean `listeners`?"]);
    check("port = 1", &["1:1 port: unknown setting; did you mean `listeners.port`?"]);
    check(
        "[listeners]\nzzzz = 1",
        &["2:1 listeners.zzzz: unknown setting; available here: `address`, `enabled`, `port`"],
    );
}

#[test]
fn reports_every_problem_and_reads_the_rest() {
    let text = "data_dir = 7\n[listeners]\naddress = \"kept\"\nport = 99999\nenabled = \"yes\"\nprot = 1\n";
    check(
        text,
        &[
            "1:1 data_dir: invalid value integer `7`: write a string in quotes",
            "4:1 listeners.port: invalid value integer `99999`: write a whole number from 0 to 65535",
            "5:1 listeners.enabled: invalid value string \"yes\": write `true` or `false`",
            "6:1 listeners.prot: unknown setting; did you mean `listeners.port`?",
        ],
    );
    assert_eq!(reading(text).settings.unwrap().listeners.address, "kept");
}

#[test]
fn checks_sections_and_array_items() {
    check("listeners = 1", &["1:1 listeners: is a section, not a value: write `[listeners]` above its keys"]);
    check("[[child]]\nid = 3\n", &["2:1 child[0].id: invalid value integer `3`: write a string in quotes"]);
    check("[[child]]\n", &["1:1 child[0]: missing field `id`"]);
    let settings = reading("[[child]]\nid = 3\n").settings.unwrap();
    assert!(settings.child.is_empty());
}

#[test]
fn reports_invalid_toml_with_its_position() {
    let problems = reading("a = \nb = [1\n").problems;
    assert!(!problems.is_empty());
    assert_eq!(problems[0].place.unwrap().line, 1, "{problems:?}");
    check("data_dir = \"a\"\ndata_dir = \"b\"\n", &["2:1 data_dir: is set twice; keep one"]);
    assert!(reading(&"#".repeat(super::FILE_BYTES_MAX + 1)).settings.is_none());
}
