//! Private coinages in the names of the code may only become fewer (docs/glossary.md).

use super::{root, tracked};
use std::collections::BTreeMap;
use std::path::Path;

/// Words that a reader cannot look up. They are counted as parts of identifiers, also where they are ordinary English.
const COINAGES: &[&str] = &[
    "answers",
    "asked",
    "begun",
    "beside",
    "fit",
    "fits",
    "gone",
    "going",
    "heard",
    "held",
    "invited",
    "judge",
    "judged",
    "kept",
    "known",
    "meant",
    "movers",
    "pace",
    "patience",
    "pile",
    "question",
    "questions",
    "reach",
    "said",
    "shelf",
    "sight",
    "silent",
    "takers",
    "tell",
    "told",
    "turn",
    "turns",
    "unfit",
    "unheard",
    "untold",
    "wanted",
    "way",
    "ways",
    "whom",
    "whose",
    "wish",
];

/// Set this to lower the entries of the table to the present counts.
const WRITE: &str = "MARGRAVE_WRITE_VOCABULARY";
const TABLE: &str = "crates/sim/tests/tidy/identifiers.txt";

/// The source without comments and without the contents of literals.
fn code(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = raw_string(rest) {
            raw
        } else if first == '"' {
            string(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(1, |end| end + 2)
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            code.push_str(&rest[..end]);
            end
        } else {
            code.push(' ');
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    code
}

/// The length of the raw string that `text` starts with.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?.chars().take_while(|c| *c == '#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(2 + hashes + body.find(&end).map_or(body.len(), |start| start + end.len()))
}

/// The length of the string that `text` starts with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        if c == '"' && !escaped {
            return index + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The number of listed words in the identifiers of `text`: `Asked`, `ASKED_MAX` and `asked_for` contain one each.
fn count(text: &str) -> usize {
    let mut words = String::new();
    for c in code(text).chars() {
        if c.is_uppercase() && words.ends_with(|last: char| last.is_lowercase()) {
            words.push(' ');
        }
        words.push(if c == '_' { ' ' } else { c });
    }
    words.split_whitespace().filter(|word| COINAGES.contains(&word.to_lowercase().as_str())).count()
}

#[test]
fn coinages_in_identifiers_only_become_fewer() {
    let root = root();
    let mut found = BTreeMap::<String, usize>::new();
    for path in tracked("crates") {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let Some((area, below)) = name.strip_prefix("crates/").and_then(|name| name.split_once('/')) else { continue };
        if below.starts_with("src/") && Path::new(below).extension().is_some_and(|ending| ending == "rs") {
            *found.entry(area.to_owned()).or_default() += count(&std::fs::read_to_string(&path).unwrap());
        }
    }
    let path = root.join(TABLE);
    let text = std::fs::read_to_string(&path).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|row| row.split_once(' '));
    let mut table: BTreeMap<String, usize> =
        rows.map(|(area, count)| (area.to_owned(), count.trim().parse().unwrap())).collect();
    if std::env::var_os(WRITE).is_some() {
        for (area, entry) in &mut table {
            *entry = found.get(area).copied().unwrap_or(0).min(*entry);
        }
        let rows = table.iter().map(|(area, count)| format!("{area} {count}\n")).collect::<Vec<_>>().concat();
        let head = "# Coinages in identifiers per crate (identifiers.rs). An entry may only fall.\n";
        std::fs::write(&path, head.to_owned() + &rows).unwrap();
    }
    let areas: std::collections::BTreeSet<&String> = found.keys().chain(table.keys()).collect();
    let wrong: Vec<String> = areas
        .into_iter()
        .map(|area| (area, found.get(area).copied().unwrap_or(0), table.get(area).copied().unwrap_or(0)))
        .filter(|(_, count, entry)| count != entry)
        .map(|(area, count, entry)| {
            format!("{area}: {count} coinages in identifiers, {entry} in {TABLE}; rename, then set {WRITE}=1")
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn counts_coinages_in_code_only() {
    for (text, expected) in [
        ("let asked = 1;", 1),
        ("struct WasAsked; const ASKED_MAX: u8 = 1;", 2),
        ("// asked\nlet x = \"asked \\\" asked\";", 0),
        ("let x = r#\"asked \" asked\"#; asked()", 1),
        ("let x = '\"'; asked('\"')", 1),
        ("masked, task_ed, unasked", 0),
    ] {
        assert_eq!(count(text), expected, "{text}");
    }
}
