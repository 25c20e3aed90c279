//! A dry run as people read it: what would change on each device, line by line.

use super::super::device_name;
use crate::output::{Output, paint};
use indexmap::IndexMap;
use margrave_api::changes::{ChangeKind, DiffLine, DiffSign, Plan, PlannedTarget};
use owo_colors::Style;
use std::fmt::Write as _;

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 2;
/// The most device names in one heading; the rest is counted.
const NAMES_MAX: usize = 12;

/// The whole plan. Devices whose change is the same but for the device's own name share one diff.
pub(crate) fn render(out: Output, plan: &Plan) -> String {
    let mut text = String::new();
    let mut alike: IndexMap<String, (String, Vec<&PlannedTarget>)> = IndexMap::new();
    for target in &plan.targets {
        let shown = diff(out, &target.diff);
        let without_colours = diff(Output { colour: false, ..out }, &target.diff);
        alike.entry(likeness(target, &without_colours)).or_insert_with(|| (shown, Vec::new())).1.push(target);
    }
    for (shown, targets) in alike.values() {
        let _ = writeln!(text, "{}", paint(&heading(plan.kind, targets), Style::new().bold(), out.colour));
        text.push_str(shown);
        text.push('\n');
    }
    if plan.diffs_left_out > 0 {
        let _ = writeln!(text, "The last {} device(s) are counted without their diff.\n", plan.diffs_left_out);
    }
    if !plan.left_out.is_empty() {
        let _ = writeln!(text, "{}", paint("Left out", Style::new().bold(), out.colour));
        for left in &plan.left_out {
            let _ = writeln!(text, "  {}: {}", device_name(&left.device.client, &left.device.device), left.reason);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{} Nothing was changed (dry run).", summary(plan));
    text
}

/// One sentence: what, which version, how many.
pub(crate) fn summary(plan: &Plan) -> String {
    let Plan { kind, application, version, targets, left_out, diffs_left_out: _ } = plan;
    let what = match kind {
        ChangeKind::Create => format!("Installs {application} {version} on"),
        ChangeKind::Reconfigure => format!("Reconfigures {application} on"),
        ChangeKind::Upgrade => format!("Moves {application} to {version} on"),
        ChangeKind::Remove => format!("Removes {application} from"),
    };
    let left = match left_out.len() {
        0 => String::new(),
        count => format!(", leaving out {count} that do not fit"),
    };
    format!("{what} {} device(s){left}.", targets.len())
}

fn heading(kind: ChangeKind, targets: &[&PlannedTarget]) -> String {
    let names: Vec<_> = targets
        .iter()
        .take(NAMES_MAX)
        .map(|target| device_name(&target.device.client, &target.device.device))
        .collect();
    let more = match targets.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = match kind {
        ChangeKind::Create => "new",
        ChangeKind::Reconfigure => "reconfigure",
        ChangeKind::Upgrade => "upgrade",
        ChangeKind::Remove => "remove",
    };
    format!("{}{more}: {what}, profile {}", names.join(", "), targets[0].profile)
}

/// Two changes are alike when they show the same lines, but for those that name the deployment and the device.
fn likeness(target: &PlannedTarget, shown: &str) -> String {
    let mut text = format!("{}\n", target.profile);
    for line in shown.lines() {
        let words = line.trim_start_matches([' ', '+', '-']);
        let own = !line.contains("- name:")
            && ["id:", "deviceId:", "name:", "namespace:"].iter().any(|key| words.starts_with(key));
        text.push_str(if own { words.split(':').next().unwrap_or_default() } else { line });
        text.push('\n');
    }
    text
}

fn diff(out: Output, lines: &[DiffLine]) -> String {
    let near = |index: usize| {
        let from = index.saturating_sub(CONTEXT_LINES);
        let to = (index + CONTEXT_LINES + 1).min(lines.len());
        lines[from..to].iter().any(|line| line.sign != DiffSign::Same)
    };
    let mut text = String::new();
    let mut skipping = false;
    for (index, line) in lines.iter().enumerate() {
        let (sign, style) = match line.sign {
            DiffSign::Added => ("+", Style::new().green()),
            DiffSign::Removed => ("-", Style::new().red()),
            DiffSign::Same if near(index) => (" ", Style::new()),
            DiffSign::Same => {
                if !skipping {
                    text.push_str("    …\n");
                    skipping = true;
                }
                continue;
            }
        };
        skipping = false;
        let _ = writeln!(text, "{}", paint(format!("  {sign} {}", line.text).trim_end(), style, out.colour));
    }
    if lines.iter().all(|line| line.sign == DiffSign::Same) {
        return "    (nothing changes)\n".to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_api::devices::DeviceRef;

    fn target(device: &str, lines: &[(DiffSign, &str)]) -> PlannedTarget {
        PlannedTarget {
            device: DeviceRef { client: device.into(), device: device.into() },
            deployment: None,
            profile: "compose".into(),
            convergence: None,
            diff: lines.iter().map(|(sign, text)| DiffLine { sign: *sign, text: (*text).into() }).collect(),
        }
    }

    fn shown(targets: Vec<PlannedTarget>) -> String {
        let out = Output::plain();
        let plan = Plan {
            kind: ChangeKind::Upgrade,
            application: "a".into(),
            version: "2".into(),
            targets,
            left_out: vec![],
            diffs_left_out: 0,
        };
        render(out, &plan)
    }

    #[test]
    fn devices_with_the_same_change_share_a_diff() {
        use DiffSign::{Added, Removed, Same};
        let text = shown(vec![
            target("one", &[(Same, "  deviceId: one"), (Removed, "v: 1"), (Added, "v: 2")]),
            target("two", &[(Same, "  deviceId: two"), (Removed, "v: 1"), (Added, "v: 2")]),
            target("three", &[(Same, "  deviceId: three"), (Removed, "v: 0"), (Added, "v: 2")]),
        ]);
        assert_eq!(
            text,
            "one, two: upgrade, profile compose\n      deviceId: one\n  - v: 1\n  + v: 2\n\n\
             three: upgrade, profile compose\n      deviceId: three\n  - v: 0\n  + v: 2\n\n\
             Moves a to 2 on 3 device(s). Nothing was changed (dry run).\n"
        );
    }

    #[test]
    fn lines_far_from_a_change_are_left_out() {
        use DiffSign::{Added, Same};
        let text = shown(vec![target(
            "one",
            &[(Same, "a"), (Same, "b"), (Same, "c"), (Same, "d"), (Added, "e"), (Same, "f")],
        )]);
        assert!(text.contains("    …\n    c\n    d\n  + e\n    f\n"), "{text}");
    }
}
