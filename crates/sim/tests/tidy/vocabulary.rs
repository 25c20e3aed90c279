//! The vocabulary of code, API and documents: old names must not return, and unclear phrases may only become fewer.
//!
//! This folder contains the old words, so the checker skips it.

use super::{root, tracked};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

/// The files that are not checked, by the start of the path.
const SKIPPED: &[(&str, &str)] = &[
    ("crates/sim/tests/tidy/", "the lists of this checker"),
    ("CHANGELOG.md", "breaking entries name what they replace"),
    ("LICENSE", "not our text"),
];

/// Old wire values, settings, commands and types in any spelling, alone or in a longer name: `call-off` is also
/// `call_off`, `callOff`, `CallOff` and `CALL_OFF`.
const NAMES: &[&str] = &[
    // States and other values.
    "not-heard-of",
    "shut-out",
    "does-not-fit",
    "client-retired",
    "client-silent",
    "list-silent",
    "told-again",
    "call-off",
    "called-off",
    "retire-client",
    "revert-deployment",
    // Fields.
    "skip-unfit",
    "diffs-left-out",
    "components-asked",
    "would-change-it",
    // Settings and metrics.
    "silent-after",
    "hold-max",
    "finished-changes",
    "ask-registries",
    "collect-every",
    "polls-held",
    "poll-holds",
    "connections-resting",
    // Types.
    "change-kind",
    "change-target",
    "change-progress",
    "create-change",
    "cancel-change",
    "retry-change",
    "device-fit",
    "profile-fit",
    "fit-reason",
    "policy-wish",
    "question-section",
    "reason-args",
    "answer-args",
    "silent-place",
    "shown-silent",
    "status-book",
    "revision-book",
    "seen-deployment",
    "seen-component",
    // Spelling, where a longer word may be right (`enrolled`, `aria-labelledby`).
    "enrol",
    "enrols",
    "labelled",
    "labelling",
    "grey",
    "greyed",
    "centre",
    "centred",
    "modelled",
    "modelling",
    "fulfil",
    "artefact",
    "artefacts",
    "analyse",
    "analysed",
];

/// Parts of words that must not occur in upper or lower case.
const PARTS: &[&str] = &[
    "enrolment",
    "invitation",
    "behaviour",
    "colour",
    "neighbour",
    "favour",
    "honour",
    "licence",
    "catalogue",
    "millimetre",
    "recognis",
    "authoris",
    "synchronis",
    "initialis",
    "normalis",
    "serialis",
    "canonicalis",
    "organis",
    "summaris",
    "optimise",
    "minimise",
    "sanitis",
    "randomis",
    "customis",
];

/// Old paths, commands, event kinds and types, exactly as written.
const EXACT: &[&str] = &[
    "/api/changes",
    "registry/collection",
    "/devices/several",
    "/settings/clients",
    "/settings/invitations",
    "/settings/trust",
    "\"/activity",
    "/activity/audit",
    "margrave change",
    "app fit",
    "app questions",
    "client retire",
    "\"client\", \"retire\"",
    "deployment revert",
    "registry others",
    "registry collect",
    "--reason",
    "limits.holds",
    "poll.hold",
    "\"change/",
    "`change/",
    "\"converged\"",
    "\"silent\"",
    "`silent`",
    "`fine`",
    "`retired`",
    "state=silent",
    "state=retired",
    "ask=retire",
    "change.create",
    "change.created",
    "change.cancel",
    "change.cancelled",
    "change.finished",
    "client.ask",
    "client.asked",
    "client.retire",
    "client.retired",
    "client.invited",
    "client.uninvited",
    "client.silent",
    "client.back",
    "client.heard",
    "manifest.renew",
    "older-revision",
    "OlderRevision",
    "leftOut",
    "LeftOut",
    "Convergence",
    "Beside",
    "Telling",
    "Sight",
    "Strangers",
    "Untold",
    "Shelf",
    "Wish",
    // Not English but HTML: the attribute is `aria-labelledby`.
    "labeledby",
    "client-heard",
    "show-fit",
    "unfit-reason",
    "\"try-again\"",
    "forget-device",
    "device-forgotten",
    "\"wanted-by\"",
    "held-by-technician",
    "lastAskedAt",
    "last_asked_at",
    "ask_application_components",
    "collect_registry",
    "session.refuse",
    "ask=forget",
    "group.changed",
    "`/settings/registry`",
    "\"/settings/registry\"",
    "excluded.answer",
    "rate_limit.rs`)",
    "core/convergence",
];

/// Right uses of a listed name: start of the path, name, reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/core/src/hold.rs", "hold-max", "the longest maintenance hold"),
    ("crates/agent/src/cli/hold.rs", "hold-max", "the longest maintenance hold"),
];

/// Phrases that do not say who does what. They are counted, also where they are ordinary English.
const PHRASES: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "everybody",
    "anybody",
    "heard of",
    "hears of",
    "hear of",
    "is told",
    "are told",
    "was told",
    "were told",
    "be told",
    "been told",
    "being told",
    "told again",
    "by itself",
    "by themselves",
    "fell silent",
    "falls silent",
    "under way",
    "shut out",
    "kept out",
    "let in",
    "lets in",
    "left out",
    "call off",
    "called off",
    "calls off",
    "does not fit",
    "do not fit",
    "taken back",
    "takes away",
    "taken away",
    "make no sense",
    "makes no sense",
    "no such thing",
    "the like",
    "relieved of",
];

/// Set this to lower the entries of the table to the present counts.
const WRITE: &str = "MARGRAVE_WRITE_VOCABULARY";
const TABLE: &str = "crates/sim/tests/tidy/vocabulary.txt";

/// A listed name or phrase in a file.
#[derive(Debug, PartialEq)]
struct Hit {
    path: String,
    /// 0 if the path itself contains it.
    line: usize,
    found: &'static str,
}

impl Display for Hit {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "\n    {}:{}: {}", self.path, self.line, self.found)
    }
}

/// What connects a word to the word before it.
#[derive(Clone, Copy, PartialEq)]
enum Joint {
    /// Both are parts of one name: `under_way`, `under-way`, `underWay`.
    Name,
    /// Both stand in one sentence, possibly on two lines of a comment.
    Prose,
    /// Something else is in between.
    Apart,
}

struct Word<'a> {
    text: &'a str,
    start: usize,
    joint: Joint,
}

impl Word<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The words of a text. `lower` is the same text in lower case.
fn words<'a>(text: &str, lower: &'a str) -> Vec<Word<'a>> {
    let bytes = text.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(b' ');
    let mut words = Vec::<Word<'a>>::new();
    let mut index = 0;
    while index < bytes.len() {
        if at(index) == b'\\' && at(index + 1) == b'n' {
            index += 2; // A line break in a literal.
            continue;
        }
        if !at(index).is_ascii_alphanumeric() {
            index += 1;
            continue;
        }
        let start = index;
        index += 1;
        while at(index).is_ascii_alphanumeric() {
            let upper = at(index).is_ascii_uppercase();
            if upper && (!at(index - 1).is_ascii_uppercase() || at(index + 1).is_ascii_lowercase()) {
                break;
            }
            index += 1;
        }
        let joint = words.last().map_or(Joint::Apart, |last| joint(&text[last.end()..start]));
        words.push(Word { text: &lower[start..index], start, joint });
    }
    words
}

fn joint(gap: &str) -> Joint {
    if matches!(gap, "" | "_" | "-") {
        return Joint::Name;
    }
    let gap = gap.replace("\\n", "\n");
    let blank = |c: char| c.is_whitespace() || c == '+';
    let filler = |c: char| blank(c) || "/!*#>|\\".contains(c);
    if gap.chars().all(blank) || (gap.contains('\n') && gap.chars().all(filler)) { Joint::Prose } else { Joint::Apart }
}

/// The lists, arranged for a search by the first word.
struct Checker {
    names: BTreeMap<&'static str, Vec<&'static str>>,
    phrases: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Checker {
    fn new() -> Self {
        Self { names: by_first_word(NAMES), phrases: by_first_word(PHRASES) }
    }

    /// The places of old names in `text`.
    fn names(&self, text: &str) -> Vec<(usize, &'static str)> {
        let lower = text.to_ascii_lowercase();
        let mut found = Vec::new();
        let all = words(text, &lower);
        for (index, word) in all.iter().enumerate() {
            for name in self.names.get(word.text).into_iter().flatten() {
                if joints(&all[index..], name).is_some_and(|joints| joints.iter().all(|joint| *joint == Joint::Name)) {
                    found.push((word.start, *name));
                }
            }
        }
        for part in PARTS {
            found.extend(lower.match_indices(part).map(|(start, _)| (start, *part)));
        }
        found.sort_unstable();
        found
    }

    /// The places of old paths, commands and types in `text`.
    fn exact(text: &str) -> Vec<(usize, &'static str)> {
        let places = |exact: &'static str| text.match_indices(exact).map(move |(start, _)| (start, exact));
        EXACT.iter().copied().flat_map(places).filter(|(start, exact)| is_whole(text, *start, exact)).collect()
    }

    /// The places of unclear phrases in `text`.
    fn phrases(&self, text: &str) -> Vec<(usize, &'static str)> {
        let lower = text.to_ascii_lowercase();
        let mut found = Vec::new();
        let all = words(text, &lower);
        for (index, word) in all.iter().enumerate() {
            for phrase in self.phrases.get(word.text).into_iter().flatten() {
                let Some(joints) = joints(&all[index..], phrase) else { continue };
                let one_name = joints.iter().all(|joint| *joint == Joint::Name);
                // `let in_progress` is a variable, not a phrase.
                let after = all.get(index + joints.len() + 1);
                let cuts_name = word.joint == Joint::Name || after.is_some_and(|word| word.joint == Joint::Name);
                if one_name || (!cuts_name && joints.iter().all(|joint| *joint == Joint::Prose)) {
                    found.push((word.start, *phrase));
                }
            }
        }
        found
    }
}

fn by_first_word(list: &[&'static str]) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut map = BTreeMap::<_, Vec<_>>::new();
    for entry in list {
        map.entry(split(entry).next().unwrap_or_default()).or_default().push(*entry);
    }
    map
}

fn split(entry: &'static str) -> impl Iterator<Item = &'static str> {
    entry.split([' ', '-'])
}

/// How the words of `entry` are joined, if `words` starts with them.
fn joints(words: &[Word<'_>], entry: &'static str) -> Option<Vec<Joint>> {
    let mut found = Vec::new();
    for (index, part) in split(entry).enumerate() {
        let word = words.get(index).filter(|word| word.text == part)?;
        if index > 0 {
            found.push(word.joint);
        }
    }
    Some(found)
}

/// Whether `entry` at `start` is not a part of a longer word.
fn is_whole(text: &str, start: usize, entry: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric();
    let before = entry.starts_with(inner) && text[..start].ends_with(inner);
    let after = entry.ends_with(inner) && text[start + entry.len()..].starts_with(|c: char| inner(c) || c == '_');
    !before && !after
}

/// The tracked text files with their paths below the root.
fn files() -> Vec<(String, String)> {
    let root = root();
    let mut files = Vec::new();
    for path in tracked(".") {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        if SKIPPED.iter().any(|(start, _)| name.starts_with(start)) {
            continue;
        }
        // Pictures and archives are not text.
        if let Ok(text) = std::fs::read_to_string(&path) {
            files.push((name, text));
        }
    }
    assert!(files.len() > 500, "only {} files were found", files.len());
    files
}

/// The hits of a search in a file: in its path, then in its text.
fn hits(path: &str, text: &str, search: impl Fn(&str) -> Vec<(usize, &'static str)>) -> Vec<Hit> {
    let in_path = search(path).into_iter().map(|(_, found)| Hit { path: path.to_owned(), line: 0, found });
    in_path.chain(located(path, text, search(text))).collect()
}

fn located(path: &str, text: &str, places: Vec<(usize, &'static str)>) -> impl Iterator<Item = Hit> {
    let line = |start: usize| text[..start].matches('\n').count() + 1;
    places.into_iter().map(move |(start, found)| Hit { path: path.to_owned(), line: line(start), found })
}

/// The row of the table for a file: its crate, or its folder.
fn area(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some(folder @ ("e2e" | "openapi" | "packaging" | "samples" | "scripts")), Some(_)) => folder,
        _ => "docs",
    }
}

fn show(hits: &[Hit]) -> String {
    hits.iter().map(ToString::to_string).collect()
}

#[test]
fn old_names_do_not_occur() {
    let checker = Checker::new();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (path, text) in files() {
        let exact = located(&path, &text, Checker::exact(&text));
        for hit in hits(&path, &text, |text| checker.names(text)).into_iter().chain(exact) {
            let allowed = ALLOWED.iter().position(|(start, name, _)| path.starts_with(start) && *name == hit.found);
            match allowed {
                Some(entry) => drop(used.insert(entry)),
                None => wrong.push(hit),
            }
        }
    }
    assert!(wrong.is_empty(), "{} old names; docs/glossary.md says which words to use:{}", wrong.len(), show(&wrong));
    for (index, (path, name, _)) in ALLOWED.iter().enumerate() {
        assert!(used.contains(&index), "`{name}` no longer occurs in {path}: remove its entry from ALLOWED");
    }
}

#[test]
fn unclear_phrases_only_become_fewer() {
    let checker = Checker::new();
    let mut found = BTreeMap::<String, Vec<Hit>>::new();
    for (path, text) in files() {
        let area = found.entry(area(&path).to_owned()).or_default();
        area.extend(hits(&path, &text, |text| checker.phrases(text)));
    }
    let mut table = read_table();
    if std::env::var_os(WRITE).is_some() {
        for (area, entry) in &mut table {
            *entry = found.get(area).map_or(0, Vec::len).min(*entry);
        }
        write_table(&table);
    }
    let mut wrong = Vec::new();
    for (area, hits) in &found {
        let (count, entry) = (hits.len(), table.get(area).copied().unwrap_or(0));
        if count > entry {
            wrong.push(format!("{area}: {count} unclear phrases, {entry} allowed; reword one of these:{}", show(hits)));
        } else if count < entry {
            wrong.push(format!("{area}: lower the entry to {count} in {TABLE} (or set {WRITE}=1)"));
        }
    }
    let gone = table.keys().filter(|area| !found.contains_key(*area));
    wrong.extend(gone.map(|area| format!("{area}: no such folder; remove the entry from {TABLE}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn read_table() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(root().join(TABLE)).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split_once(' ').map(|(area, count)| (area.to_owned(), count.trim().parse().unwrap())).unwrap())
        .collect()
}

fn write_table(table: &BTreeMap<String, usize>) {
    let head = "# Unclear phrases per crate or folder (vocabulary.rs). An entry may only fall.".to_owned();
    let rows = table.iter().map(|(area, count)| format!("{area} {count}"));
    let text = std::iter::once(head).chain(rows).map(|line| line + "\n").collect::<String>();
    std::fs::write(root().join(TABLE), text).unwrap();
}

#[test]
fn finds_a_planted_name_in_every_spelling() {
    let checker = Checker::new();
    let all = |text: &str| checker.names(text).into_iter().chain(Checker::exact(text));
    let found = |text: &str| all(text).map(|(_, name)| name).collect::<Vec<_>>();
    for text in ["\"call-off\"", "fn call_off_now()", "callOff", "struct CallOffQuery", "CALL_OFF", "x/Call-Off?y"] {
        assert_eq!(found(text), ["call-off"], "{text}");
    }
    for text in ["its behaviour", "Misbehaviour", "BEHAVIOUR_MAX"] {
        assert_eq!(found(text), ["behaviour"], "{text}");
    }
    assert_eq!(found("margrave-agent enrol --pin, then Enrol"), ["enrol", "enrol"]);
    assert_eq!(found("GET /api/changes?limit=1"), ["/api/changes"]);
    assert_eq!(found("HTTPNotHeardOf, --reason x"), ["not-heard-of", "--reason"]);
    for text in ["call (off)", "enrolled, enrollment", "--reasons", "poll.hold_back", "aria-labelledby", "Besides"] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn finds_a_planted_phrase_in_every_spelling() {
    let checker = Checker::new();
    let found = |text: &str| checker.phrases(text).into_iter().map(|(_, phrase)| phrase).collect::<Vec<_>>();
    for text in ["the agent is told", "Is Told", "IS TOLD", "fn sim_is_told_once()", "isTold", "is+told", "is-told"] {
        assert_eq!(found(text), ["is told"], "{text}");
    }
    for text in ["// it is\n    /// told", "\"it is \\\n   told\"", "\"it is\\ntold\"", "> it is\n> told"] {
        assert_eq!(found(text), ["is told"], "{text}");
    }
    for text in ["Nobody", "const NOBODY: &str", "nobody's", "x-nobody-x"] {
        assert_eq!(found(text), ["nobody"], "{text}");
    }
    for text in ["let in_progress = 1", "let InUse { .. }", "is; told", "this told", "is\n\n- told", "nobodys"] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn a_hit_names_its_file_and_line() {
    let checker = Checker::new();
    let found = hits("docs/enrol.md", "one\ntwo\nan Enrolment\n", |text| checker.names(text));
    let hit = |line, found| Hit { path: "docs/enrol.md".to_owned(), line, found };
    assert_eq!(found, [hit(0, "enrol"), hit(3, "enrolment")]);
    assert_eq!(show(&found[1..]), "\n    docs/enrol.md:3: enrolment");
    let areas = ["crates/agent/src/lib.rs", "e2e/fleet.test.js", "docs/adr/0001.md", "README.md"].map(area);
    assert_eq!(areas, ["agent", "e2e", "docs", "docs"]);
}
