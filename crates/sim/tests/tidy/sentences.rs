//! Tests find elements by role, label and hooks (docs/testing.md), not by sentences: those stand in the golden files of
//! `crates/server/tests/it/operators/wording`. Sentences that tests still assert may only become fewer.
//!
//! The heuristic: in the integration tests of the server, a line with `contains(`, `has(`, `lacks(`, `says(`,
//! `starts_with(`, `ends_with(`, `split(` or `find(` and with a literal in which two words of letters stand next to each
//! other, where the literal has no hook (`data-`), no attribute (`="`) and no slash; in the browser tests, a line with
//! `getByText(` or `hasText:` and such a literal or regular expression.

use super::{root, tracked};
use std::collections::BTreeMap;

/// Set this to lower the entries of the table to the present counts.
const WRITE: &str = "MARGRAVE_WRITE_SENTENCES";
const TABLE: &str = "crates/sim/tests/tidy/sentences.txt";
const RUST: &str = "crates/server/tests/it";
const BROWSER: &str = "e2e";

/// Calls that look for a part of a page or of a message.
const RUST_CALLS: [&str; 8] = ["contains(", "has(", "lacks(", "says(", "starts_with(", "ends_with(", "split(", "find("];
const BROWSER_CALLS: [&str; 2] = ["getByText(", "hasText:"];

/// Whether two words of letters stand next to each other in it.
fn is_sentence(literal: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| ".,:;!?()`'^$\\".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic())
    };
    let words: Vec<&str> = literal.split_whitespace().collect();
    let in_row = words.windows(2).any(|pair| pair.iter().all(is_word));
    in_row && !["data-", "=\\\"", "=\"", "/"].iter().any(|code| literal.contains(code))
}

/// The literals of a line: between two of the same of these marks, where a backslash hides the next letter.
fn literals<'a>(line: &'a str, marks: &str) -> Vec<&'a str> {
    let (mut found, mut open, mut hidden) = (Vec::new(), None::<(char, usize)>, false);
    for (at, letter) in line.char_indices() {
        match open {
            _ if hidden => hidden = false,
            Some(_) if letter == '\\' => hidden = true,
            Some((mark, start)) if letter == mark => {
                found.push(&line[start..at]);
                open = None;
            }
            None if marks.contains(letter) => open = Some((letter, at + letter.len_utf8())),
            _ => {}
        }
    }
    found
}

/// The part of a line after the first of these calls.
fn after_call<'a>(line: &'a str, calls: &[&str]) -> Option<&'a str> {
    calls.iter().filter_map(|call| line.find(call)).min().map(|at| &line[at..])
}

/// The numbers of the lines that assert a sentence.
fn sentences(text: &str, calls: &[&str], marks: &str) -> Vec<usize> {
    let asserts = |line: &str| {
        after_call(line, calls).is_some_and(|part| {
            // The message of an assertion is for the reader of a failure.
            let part = part.split_once("), \"").map_or(part, |(part, _)| part);
            literals(part, marks).into_iter().any(is_sentence)
        })
    };
    text.lines().zip(1..).filter_map(|(line, number)| asserts(line).then_some(number)).collect()
}

fn read_table() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(root().join(TABLE)).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split_once(' ').map(|(area, count)| (area.to_owned(), count.trim().parse().unwrap())).unwrap())
        .collect()
}

fn write_table(table: &BTreeMap<String, usize>) {
    let head = "# Sentences of pages that tests assert, by folder (sentences.rs). An entry may only fall.\n";
    let rows = table.iter().map(|(area, count)| format!("{area} {count}\n")).collect::<Vec<_>>().concat();
    std::fs::write(root().join(TABLE), head.to_owned() + &rows).unwrap();
}

#[test]
fn sentences_asserted_by_tests_only_become_fewer() {
    let root = root();
    let mut found = BTreeMap::<&str, Vec<String>>::new();
    for (folder, calls, marks, ending) in
        [(RUST, RUST_CALLS.as_slice(), "\"", "rs"), (BROWSER, BROWSER_CALLS.as_slice(), "\"`/", "js")]
    {
        for path in tracked(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == ending)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            let lines = sentences(&text, calls, marks).into_iter().map(|line| format!("\n    {name}:{line}"));
            found.entry(folder).or_default().extend(lines);
        }
    }
    let mut table = read_table();
    if std::env::var_os(WRITE).is_some() {
        for (area, entry) in &mut table {
            *entry = found.get(area.as_str()).map_or(0, Vec::len).min(*entry);
        }
        write_table(&table);
    }
    let mut wrong = Vec::new();
    for (area, lines) in &found {
        let (count, entry) = (lines.len(), table.get(*area).copied().unwrap_or(0));
        if count > entry {
            let lines = lines.concat();
            wrong.push(format!("{area}: tests assert {count} sentences, {entry} allowed; use a hook instead:{lines}"));
        } else if count < entry {
            wrong.push(format!("{area}: lower the entry to {count} in {TABLE} (or set {WRITE}=1)"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn finds_planted_sentences_and_no_hooks() {
    let rust = |line: &str| !sentences(line, &RUST_CALLS, "\"").is_empty();
    assert!(rust("assert!(page.contains(\"Nothing was changed\"), \"{page}\");"));
    assert!(rust("has(&page, &[\"class\", \"1 device is offline.\"]);"));
    for line in [
        "has(&page, &[\"data-reason=\\\"no match\\\"\"]);",
        "assert!(page.contains(\"memory\"), \"only compatible ones: {page}\");",
        "assert!(page.contains(\"href=\\\"/a b/c d\\\"\"));",
        "let said = \"two words\";",
    ] {
        assert!(!rust(line), "{line}");
    }
    let browser = |line: &str| !sentences(line, &BROWSER_CALLS, "\"`/").is_empty();
    assert!(browser("await page.getByText(\"Labels saved.\").waitFor();"));
    assert!(browser("page.getByRole(\"alert\").filter({ hasText: /Must be at most/ });"));
    assert!(!browser("page.getByRole(\"row\").filter({ hasText: \"press-01\" });"));
    assert!(!browser("page.getByRole(\"button\", { name: \"Save labels\" });"));
}
