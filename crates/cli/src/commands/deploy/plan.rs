//! Renders a dry run: what would change on each device, line by line.

use super::super::device_name;
use crate::output::{Output, paint, plural};
use indexmap::IndexMap;
use margrave_api::rollouts::{DiffLine, DiffSign, Plan, PlannedTarget, RolloutKind};
use owo_colors::Style;
use std::fmt::Write as _;

/// Unchanged lines shown around a changed line.
const CONTEXT_LINES: usize = 2;
/// Most device names in one heading; the rest is counted.
const NAMES_MAX: usize = 12;

/// The whole plan. Devices whose diffs differ only in the device name share one diff.
pub(crate) fn render(out: Output, plan: &Plan) -> String {
    let mut text = String::new();
    let mut alike: IndexMap<String, (String, Vec<&PlannedTarget>)> = IndexMap::new();
    for target in &plan.targets {
        let shown = diff(out, &target.diff);
        let without_colors = diff(Output { color: false, ..out }, &target.diff);
        alike.entry(likeness(target, &without_colors)).or_insert_with(|| (shown, Vec::new())).1.push(target);
    }
    for (shown, targets) in alike.values() {
        let _ = writeln!(text, "{}", paint(&heading(plan.kind, targets), Style::new().bold(), out.color));
        text.push_str(shown);
        text.push('\n');
    }
    if plan.diffs_skipped > 0 {
        let _ = writeln!(text, "Diffs of {} are not shown.\n", plural(plan.diffs_skipped, "more device"));
    }
    if !plan.skipped.is_empty() {
        let _ = writeln!(text, "{}", paint("Skipped", Style::new().bold(), out.color));
        for left in &plan.skipped {
            let _ = writeln!(text, "  {}: {}", device_name(&left.device.client, &left.device.device), left.reason);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{} Nothing was changed (dry run).", summary(plan));
    text
}

/// One sentence: action, version, number of devices.
pub(crate) fn summary(plan: &Plan) -> String {
    let Plan { kind, application, version, targets, skipped, diffs_skipped: _ } = plan;
    let what = match kind {
        RolloutKind::Create => format!("Installs {application} {version} on"),
        RolloutKind::Reconfigure => format!("Reconfigures {application} on"),
        RolloutKind::Upgrade if all_back(targets) => format!("Downgrades {application} to {version} on"),
        RolloutKind::Upgrade => format!("Upgrades {application} to {version} on"),
        RolloutKind::Remove => format!("Removes {application} from"),
    };
    let left = match skipped.len() {
        0 => String::new(),
        count => format!(", skipping {count} incompatible"),
    };
    format!("{what} {}{left}.", plural(targets.len() as u64, "device"))
}

/// Whether every device goes back to an older version.
fn all_back(targets: &[PlannedTarget]) -> bool {
    !targets.is_empty() && targets.iter().all(|target| target.downgrade)
}

fn heading(kind: RolloutKind, targets: &[&PlannedTarget]) -> String {
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
        RolloutKind::Create => "new",
        RolloutKind::Reconfigure => "reconfigure",
        RolloutKind::Upgrade if targets[0].downgrade => "downgrade",
        RolloutKind::Upgrade => "upgrade",
        RolloutKind::Remove => "remove",
    };
    format!("{}{more}: {what}, profile {}", names.join(", "), targets[0].profile)
}

/// The diff without the lines that name the deployment and the device, to group equal diffs.
fn likeness(target: &PlannedTarget, shown: &str) -> String {
    let mut text = format!("{} {}\n", target.profile, target.downgrade);
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
        let _ = writeln!(text, "{}", paint(format!("  {sign} {}", line.text).trim_end(), style, out.color));
    }
    if lines.iter().all(|line| line.sign == DiffSign::Same) {
        return "    (no changes)\n".to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_api::devices::DeviceName;

    fn target(device: &str, lines: &[(DiffSign, &str)]) -> PlannedTarget {
        PlannedTarget {
            device: DeviceName { client: device.into(), device: device.into() },
            deployment: None,
            profile: "compose".into(),
            state: None,
            downgrade: false,
            diff: lines.iter().map(|(sign, text)| DiffLine { sign: *sign, text: (*text).into() }).collect(),
        }
    }

    fn shown(targets: Vec<PlannedTarget>) -> String {
        let out = Output::plain();
        let plan = Plan {
            kind: RolloutKind::Upgrade,
            application: "a".into(),
            version: "2".into(),
            targets,
            skipped: vec![],
            diffs_skipped: 0,
        };
        render(out, &plan)
    }

    #[test]
    fn devices_with_equal_diffs_share_one_diff() {
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
             Upgrades a to 2 on 3 devices. Nothing was changed (dry run).\n"
        );
    }

    #[test]
    fn names_a_downgrade() {
        use DiffSign::{Added, Removed};
        let back = PlannedTarget { downgrade: true, ..target("one", &[(Removed, "v: 3"), (Added, "v: 2")]) };
        let text = shown(vec![back.clone()]);
        assert!(text.starts_with("one: downgrade, profile compose\n"), "{text}");
        assert!(text.contains("Downgrades a to 2 on 1 device."), "{text}");
        let text = shown(vec![back, target("two", &[(Removed, "v: 1"), (Added, "v: 2")])]);
        assert!(text.contains("two: upgrade, profile compose\n"), "{text}");
        assert!(text.contains("Upgrades a to 2 on 2 devices."), "{text}");
    }

    #[test]
    fn hides_unchanged_lines_far_from_a_changed_line() {
        use DiffSign::{Added, Same};
        let text = shown(vec![target(
            "one",
            &[(Same, "a"), (Same, "b"), (Same, "c"), (Same, "d"), (Added, "e"), (Same, "f")],
        )]);
        assert!(text.contains("    …\n    c\n    d\n  + e\n    f\n"), "{text}");
    }
}
