//! Hostile input is refused within 100 ms of processor time and 64 MiB of memory.
//!
//! One test in a process of its own, because peak memory is a property of the process.

#![expect(clippy::unwrap_used, clippy::format_collect, reason = "a test that cannot set up its case must fail")]

use margo::archive::{self, Limits};
use margo::bundle::BUNDLE_LIMITS;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::deployment::ApplicationDeployment;
use margo::description::ApplicationDescription;
use margo::manifest::StateManifest;
use margo::problem::Problem;
use margo::status::DeploymentStatus;
use margo::trust_bundle::{Discovery, TrustBundle};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

const CPU_MAX: Duration = Duration::from_millis(100);
const MEMORY_MAX_KIB: u64 = 64 * 1024;

/// Processor time of this thread: unlike wall-clock time it does not depend on other processes.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// A field of /proc/self/status in KiB.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

thread_local! {
    static BROKEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs one rejection and notes what exceeds either limit, so that a failure names every case.
fn refused(name: &str, refuse: impl FnOnce() -> bool) {
    let memory_before = memory("VmRSS:");
    let cpu_before = cpu_time();
    let refused = refuse();
    let cpu = cpu_time().saturating_sub(cpu_before);
    let grown = memory("VmHWM:").saturating_sub(memory_before);
    if !refused || cpu > CPU_MAX || grown > MEMORY_MAX_KIB {
        BROKEN.with_borrow_mut(|broken| broken.push(format!("{name}: refused {refused}, {cpu:?}, {grown} KiB")));
    }
}

fn yaml(name: &str, text: &str) {
    refused(&format!("description: {name}"), || ApplicationDescription::read(text.as_bytes()).is_err());
    refused(&format!("deployment: {name}"), || ApplicationDeployment::read(text.as_bytes()).is_err());
}

fn json(name: &str, text: &str) {
    let bytes = text.as_bytes();
    refused(&format!("manifest: {name}"), || StateManifest::read(bytes).is_err());
    refused(&format!("status: {name}"), || DeploymentStatus::read(bytes).is_err());
    refused(&format!("capabilities: {name}"), || DeviceCapabilities::read(bytes, UnknownTypes::Refuse).is_err());
    refused(&format!("trust bundle: {name}"), || TrustBundle::read(bytes).is_err());
    refused(&format!("discovery: {name}"), || Discovery::read(bytes).is_err());
}

fn gzip(write: impl FnOnce(&mut flate2::write::GzEncoder<Vec<u8>>)) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write(&mut encoder);
    encoder.finish().unwrap()
}

fn header(name: &str, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header
}

fn archive_refused(name: &str, gz: &[u8], limits: Limits) {
    refused(&format!("archive: {name}"), || archive::unpack(gz, limits).is_err());
}

fn yaml_bombs() {
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..20 {
        let before = level - 1;
        let _ = writeln!(laughs, "a{level}: &a{level} [{}]", vec![format!("*a{before}"); 10].join(", "));
    }
    yaml("a billion laughs", &laughs);
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(300_000), vec!["*a"; 1000].join(","));
    yaml("a long text repeated", &long);
    let keys: String = (0..5000).map(|n| format!("k{n}: &k{n} {{a: 1}}\n")).collect();
    yaml("many anchors", &keys);
}

fn yaml_nesting() {
    for (name, unit) in [
        ("lists", "["),
        ("objects", "{a: "),
        ("block lists", "- "),
        ("keys", "? "),
        ("tags", "!!seq ["),
        ("quotes", "\"["),
    ] {
        yaml(&format!("nested {name}"), &unit.repeat(500_000 / unit.len()));
    }
    let mut stairs = String::new();
    for depth in 0..1000 {
        let _ = writeln!(stairs, "{}a:", " ".repeat(depth));
    }
    yaml("nested blocks", &stairs);
}

fn yaml_floods() {
    let largest = margo::node::Limits::DOCUMENT.bytes_max;
    for (name, unit) in [
        ("items", "- a\n"),
        ("members", "a: 1\n"),
        ("comments", "# x\n"),
        ("blank lines", "\n"),
        ("tabs", "\t"),
        ("documents", "---\n"),
        ("directives", "%TAG ! tag:x,2000:\n"),
        ("anchors", "&a "),
        ("aliases", "*a "),
        ("plain text", "word "),
        ("exclamation marks", "! "),
        ("commas", "[,"),
        ("colons", ": "),
        ("folds", "> \n"),
        ("escapes", "\"\\u0041"),
        ("apostrophes", "''"),
        ("dashes", "-"),
        ("carriage returns", "\r"),
    ] {
        yaml(name, &unit.repeat(largest / unit.len()));
    }
    let distinct: String = (0..50_000).map(|n| format!("k{n}: 1\n")).collect();
    yaml("distinct members", &distinct);
    yaml("a document too large", &"a".repeat(largest + 1));
    yaml("one long text", &format!("a: \"{}\"", "x".repeat(largest - 10)));
    yaml("a long block", &format!("a: |\n{}", " x\n".repeat(170_000)));
    let lines = format!("a: {}", "x\n ".repeat(170_000));
    yaml("a text of many lines", &lines);
}

fn numbers() {
    let digits = "9".repeat(400_000);
    for number in
        [digits.as_str(), "1e999999999", "-1e999999999", ".inf", "0xFFFFFFFFFFFFFFFFFF", "18446744073709551616"]
    {
        let text = include_str!("fixtures/description-b.yaml").replacen("value: 30", &format!("value: {number}"), 1);
        refused("description: huge number", || ApplicationDescription::read(text.as_bytes()).is_err());
        let text = include_str!("fixtures/deployment-b.yaml").replacen("value: 45", &format!("value: {number}"), 1);
        refused("deployment: huge number", || ApplicationDeployment::read(text.as_bytes()).is_err());
    }
    for number in [
        digits.as_str(),
        "1e999999999",
        "18446744073709551616",
        "18446744073709551615.0",
        "-18446744073709551615",
        "1.8446744073709551615e19",
    ] {
        let text = include_str!("fixtures/manifest.json").replacen("18446744073709551615", number, 1);
        refused("manifest: huge version", || StateManifest::read(text.as_bytes()).is_err());
        let text = include_str!("fixtures/status.json").replacen("\"4\"", number, 1);
        refused("status: huge version", || DeploymentStatus::read(text.as_bytes()).is_err());
        let text = include_str!("fixtures/status.json").replacen("\"4\"", &format!("\"{number}\""), 1);
        refused("status: huge version as text", || DeploymentStatus::read(text.as_bytes()).is_err());
    }
    let text = include_str!("fixtures/capabilities-b.json").replacen("\"cores\": 4", "\"cores\": 1e999", 1);
    refused("capabilities: huge cores", || DeviceCapabilities::read(text.as_bytes(), UnknownTypes::Refuse).is_err());
}

fn json_floods() {
    let mebibyte = 1 << 20;
    for (name, unit) in [
        ("lists", "["),
        ("objects", "{\"a\":"),
        ("quotes", "\""),
        ("blanks", " "),
        ("escapes", "\"\\"),
        ("digits", "1"),
    ] {
        json(&format!("nested {name}"), &unit.repeat(mebibyte / 2 / unit.len()));
    }
    json("many items", &format!("[{}1]", "1,".repeat(250_000)));
    let members: String = (0..40_000).map(|n| format!("\"k{n}\":1,")).collect();
    json("many members", &format!("{{{members}\"z\":1}}"));
    json("many escapes", &format!("{{\"a\":\"{}\"}}", "\\u0041".repeat(80_000)));
    json("too large", &" ".repeat(5 * mebibyte));
    refused("problem: nested", || Problem::read("[".repeat(mebibyte).as_bytes()).is_err());
    let entry = "{\"deploymentId\":\"x\",\"digest\":\"sha512:0\",\"url\":\"\"}";
    let manifest =
        format!("{{\"manifestVersion\":1,\"bundle\":null,\"deployments\":[{}]}}", vec![entry; 15_000].join(","));
    refused("manifest: nothing but errors", || StateManifest::read(manifest.as_bytes()).is_err());
}

fn patterns() {
    let fixture = include_str!("fixtures/description-b.yaml");
    let schema =
        |n: usize| format!("    - name: s{n}\n      dataType: string\n      regexMatch: (\\w{{200}}){{{}}}\n", n + 2);
    let schemas: String = (0..1500).map(schema).collect();
    let text =
        fixture.replacen("  schema:\n    - name: plantName", &format!("  schema:\n{schemas}    - name: plantName"), 1);
    refused("description: patterns that explode", || ApplicationDescription::read(text.as_bytes()).is_err());
    let value = "ab".repeat(100_000);
    let text = fixture
        .replacen("  plant:\n", &format!("  plant:\n    value: {value}\n"), 1)
        .replacen("regexMatch: ^[A-Z]", "regexMatch: (a|b|ab)*(x+x+)+y", 1)
        .replacen("id: kiln-watch", "id: Kiln", 1);
    refused("description: a text that makes matching slow", || ApplicationDescription::read(text.as_bytes()).is_err());
}

fn archives() {
    let zeros = vec![0; 1 << 20];
    let large = gzip(|out| {
        out.write_all(header("a", tar::EntryType::Regular, 300 << 20).as_bytes()).unwrap();
        (0..300).for_each(|_| out.write_all(&zeros).unwrap());
    });
    archive_refused("one entry of 300 MiB", &large, BUNDLE_LIMITS);
    let many = gzip(|out| {
        for n in 0..100 {
            out.write_all(header(&format!("f{n}"), tar::EntryType::Regular, 1 << 20).as_bytes()).unwrap();
            out.write_all(&zeros).unwrap();
        }
    });
    archive_refused("a hundred entries of 1 MiB", &many, BUNDLE_LIMITS);
    let padding = gzip(|out| (0..300).for_each(|_| out.write_all(&zeros).unwrap()));
    archive_refused("300 MiB of padding", &padding, BUNDLE_LIMITS);
    for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
        let name = gzip(|out| {
            out.write_all(header("x", kind, 300 << 20).as_bytes()).unwrap();
            (0..300).for_each(|_| out.write_all(&zeros).unwrap());
        });
        archive_refused("a name of 300 MiB", &name, BUNDLE_LIMITS);
    }
    let small = Limits { entries_max: 1000, ..BUNDLE_LIMITS };
    let entries = gzip(|out| {
        (0..50_000)
            .for_each(|n| out.write_all(header(&format!("f{n}"), tar::EntryType::Regular, 0).as_bytes()).unwrap());
    });
    archive_refused("50,000 entries", &entries, small);
    let lying =
        gzip(|out| out.write_all(header("a", tar::EntryType::Regular, u64::from(u32::MAX)).as_bytes()).unwrap());
    archive_refused("a size that is a lie", &lying, BUNDLE_LIMITS);
    for name in ["../../etc/cron.d/x", "/etc/passwd"] {
        let escaping = gzip(|out| {
            out.write_all(header(name, tar::EntryType::Regular, 0).as_bytes()).unwrap();
            out.write_all(&zeros[..1024]).unwrap();
        });
        archive_refused("an entry that escapes", &escaping, BUNDLE_LIMITS);
    }
}

#[test]
fn hostile_input_is_refused_quickly_and_in_little_memory() {
    // Use the parsers once, so that lazy initialization is not counted for the first case.
    assert!(ApplicationDescription::read(include_bytes!("fixtures/description-b.yaml")).is_ok());
    assert!(StateManifest::read(include_bytes!("fixtures/manifest.json")).is_ok());
    yaml_bombs();
    yaml_nesting();
    yaml_floods();
    numbers();
    json_floods();
    patterns();
    archives();
    BROKEN.with_borrow(|broken| assert!(broken.is_empty(), "{}", broken.join("\n")));
}
