//! Renders differences in the format of `diff -u`, in color at a terminal.

use crate::output::{Output, paint};
use margrave_api::diff::{ApplicationDiff, DeploymentDiff, DiffSideKind};
use owo_colors::Style;
use std::fmt::Write as _;

pub(crate) fn deployment(out: Output, diff: &DeploymentDiff) -> String {
    let mut text = unified(out, &diff.unified);
    if let Some(side) = [&diff.from, &diff.to].into_iter().find(|side| side.kind == DiffSideKind::Unknown) {
        let _ = writeln!(text, "cannot be compared: {}", side.name);
    } else if diff.unified.is_empty() {
        let _ = writeln!(text, "no differences between {} and {}", diff.from.name, diff.to.name);
    }
    for component in &diff.components {
        let reported = component.reported.as_deref().unwrap_or("not reported");
        let _ = writeln!(text, "component {}: {reported}, desired {}", component.name, component.desired);
    }
    text
}

pub(crate) fn application(out: Output, diff: &ApplicationDiff) -> String {
    if diff.same {
        return format!("{}: no differences between {} and {}\n", diff.application, diff.from, diff.to);
    }
    unified(out, &diff.unified)
}

fn unified(out: Output, text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("--- ") || line.starts_with("+++ ") => Style::new().bold(),
            Some(b'+') => Style::new().green(),
            Some(b'-') => Style::new().red(),
            Some(b'@') => Style::new().cyan(),
            _ => Style::new(),
        };
        let _ = writeln!(shown, "{}", paint(line, style, out.color));
    }
    shown
}
