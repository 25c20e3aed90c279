//! Problems of every kind in one package are reported in one pass.

use super::*;
use crate::reader::{FINDINGS_MAX, FIX_FIRST};

/// The fixture with texts replaced, which must be present.
fn changed(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(DESCRIPTION.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// The problems of a package, in order: line, path, message.
fn problems(files: &[PackageFile]) -> Vec<(Option<usize>, String, String)> {
    let findings = read(files).unwrap_err().0.into_iter().filter(|finding| finding.severity == Severity::Error);
    findings.map(|finding| (finding.line, finding.path, finding.message)).collect()
}

#[test]
fn reports_problems_of_structure_references_and_files_together_by_line() {
    // AP-01, PRM-01, CON-08, CON-11, W-23
    let broken = changed(&[
        ("id: kiln-watch", "id: Kiln"),
        ("icon: resources/kiln.svg", "icon: ../kiln.svg"),
        ("- name: Ardent Ceramics", "- title: Ardent Ceramics"),
        ("revision: 3.0.1", "revision: latest"),
        ("key: /interfaces", "key: interfaces"),
        ("operator: Exists", "operator: Exist"),
        ("type: compose", "type: flatpak"),
        ("id: single", "id: cluster"),
        ("value: 30", "value: {a: 1}"),
        ("components: [watcher, curve-store]", "components: [watcher, absent]"),
        ("- parameter: zones", "- parameter: zone"),
        ("schema: token", "schema: secret"),
        ("options: [top, middle, bottom]", "options: [top, 1, bottom]"),
        ("maxValue: 600", "maxValue: 4"),
        ("dataType: boolean", "dataType: bool"),
        ("  shop: https://shop.ardent.example\n", "  shop: https://shop.ardent.example\nid: again\n"),
    ]);
    let files = [
        file("margo.yaml", broken.as_bytes()),
        file("/abs", b""),
        file("resources/about.md", b""),
        file("resources/kiln.svg", b""),
    ];
    let found = problems(&files);
    let constraints = "deploymentProfiles[0].deviceConstraints.eligibilityRules";
    let expected = [
        (None, "/abs".to_owned(), "is not a path inside the package"),
        (Some(3), "id".to_owned(), "lower-case letters"),
        (Some(11), "metadata.catalog.application.icon".to_owned(), "`../kiln.svg` is not a path inside the package"),
        (
            Some(12),
            "metadata.catalog.application.licenseFile".to_owned(),
            "names `resources/license.txt`, which is not",
        ),
        (Some(13), "metadata.catalog.application.releaseNotes".to_owned(), "names `resources/notes.md`, which is not"),
        (Some(21), "metadata.catalog.organization[0].name".to_owned(), "is missing"),
        (Some(31), "deploymentProfiles[0].components[0].properties.revision".to_owned(), "such as 1.4.2"),
        (Some(50), format!("{constraints}[0].propertySelector.matchExpressions[0].key"), "must begin with `/`"),
        (Some(68), format!("{constraints}[1].labelSelector.matchExpressions[0].operator"), FIX_FIRST),
        (Some(71), "deploymentProfiles[1].type".to_owned(), "write helm, compose or custom"),
        (Some(71), "deploymentProfiles[1]".to_owned(), "ids must be unique"),
        (Some(80), "parameters.interval.value".to_owned(), "or a list of these"),
        (Some(89), "parameters.plant.targets[0].components[1]".to_owned(), "`absent` is not a component"),
        (Some(129), "configuration.sections[0].settings[1].parameter".to_owned(), "`zone` is not a parameter"),
        (Some(143), "configuration.sections[1].settings[2].schema".to_owned(), "`secret` is not the name of a schema"),
        (Some(153), "configuration.schema[1].options".to_owned(), "1 is not of the data type string"),
        (Some(158), "configuration.schema[2].maxValue".to_owned(), "smaller than `minValue`"),
        (Some(173), "configuration.schema[5].dataType".to_owned(), "`bool` is not a data type"),
        (Some(177), "margo.yaml".to_owned(), "the key `id` occurs twice"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, path, message), (expected_line, expected_path, words)) in found.iter().zip(&expected) {
        assert_eq!((line, path), (expected_line, expected_path), "{found:#?}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn reports_blocked_checks_at_their_cause() {
    let nameless = changed(&[("- name: watcher", "- title: watcher")]);
    let found = problems(&[vec![file("margo.yaml", nameless.as_bytes())], files()[1..].to_vec()].concat());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].1, "deploymentProfiles[0].components[1].name");
    assert_eq!(found[0].2, format!("is missing; {FIX_FIRST}: the components that `parameters` target"));
    let untyped = changed(&[("dataType: string\n      multiselect", "dataType: text\n      multiselect")]);
    let found = problems(&[vec![file("margo.yaml", untyped.as_bytes())], files()[1..].to_vec()].concat());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].2.ends_with(&format!("{FIX_FIRST}: the options")), "{found:#?}");
}

#[test]
fn reports_invalid_yaml_with_file_and_line_and_other_problems() {
    let found = problems(&[file("app.yml", b"id: a\nmetadata: [1\n"), file("/abs", b"")]);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(found[0].1, "/abs");
    let (line, path, message) = &found[1];
    assert_eq!((line.is_some(), path.as_str()), (true, "app.yml"), "{found:#?}");
    assert!(message.starts_with("the text is not valid YAML") && message.ends_with(FIX_FIRST), "{message}");
}

#[test]
fn a_truncated_list_counts_the_rest() {
    use std::fmt::Write as _;
    let mut wrong = "parameters:\n".to_owned();
    (0..2 * FINDINGS_MAX + 200).for_each(|n| writeln!(wrong, "  p{n}: 1").unwrap());
    let text = changed(&[("parameters:\n", wrong.as_str())]);
    // Missing files are reported as well.
    let found = read(&[file("margo.yaml", text.as_bytes())]).unwrap_err().0;
    assert_eq!(found.len(), 2 * FINDINGS_MAX + 4 + 1, "{}", found.len());
    let last = found.last().unwrap();
    assert!(last.is_closing() && last.message.ends_with(": 200"), "{last}");
}
