//! Differences: by line, by field, and as text.

mod application;
mod deployment;
mod fields;
mod unified;

pub use application::{VersionsQuery, application};
pub use deployment::{DiffQuery, deployment};
pub(crate) use unified::unified;

use margrave_api::rollouts::{DiffLine, DiffSign};

/// Longest texts compared by line; the document of a deployment has a few hundred lines at most. Longer texts show as
/// fully replaced, because the comparison table grows quadratically.
const LINES_MAX: usize = 2000;

/// The smallest set of added and removed lines that leads from `before` to `after`.
pub(crate) fn lines(before: &str, after: &str) -> Vec<DiffLine> {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let start = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let tail = before[start..].iter().rev().zip(after[start..].iter().rev()).take_while(|(one, other)| one == other);
    let tail = tail.count();
    let (middle_before, middle_after) = (&before[start..before.len() - tail], &after[start..after.len() - tail]);

    let mut lines: Vec<DiffLine> = before[..start].iter().map(|text| line(DiffSign::Same, text)).collect();
    if middle_before.len().max(middle_after.len()) > LINES_MAX {
        lines.extend(middle_before.iter().map(|text| line(DiffSign::Removed, text)));
        lines.extend(middle_after.iter().map(|text| line(DiffSign::Added, text)));
    } else {
        compare(middle_before, middle_after, &mut lines);
    }
    lines.extend(before[before.len() - tail..].iter().map(|text| line(DiffSign::Same, text)));
    lines
}

/// Walks the table of longest common subsequences.
fn compare(before: &[&str], after: &[&str], lines: &mut Vec<DiffLine>) {
    let width = after.len() + 1;
    let mut common = vec![0_u32; (before.len() + 1) * width];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i * width + j] = if before[i] == after[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            lines.push(line(DiffSign::Same, before[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == after.len() || (i < before.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            lines.push(line(DiffSign::Removed, before[i]));
            i += 1;
        } else {
            lines.push(line(DiffSign::Added, after[j]));
            j += 1;
        }
    }
}

fn line(sign: DiffSign, text: &str) -> DiffLine {
    DiffLine { sign, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &str) {
        let shown: Vec<String> = lines(before, after)
            .into_iter()
            .map(|line| {
                let sign = match line.sign {
                    DiffSign::Same => ' ',
                    DiffSign::Added => '+',
                    DiffSign::Removed => '-',
                };
                format!("{sign}{}", line.text)
            })
            .collect();
        assert_eq!(shown.join("\n"), expected);
    }

    #[test]
    fn shows_a_changed_line_as_removed_and_added() {
        check("a\nb\nc", "a\nx\nc", " a\n-b\n+x\n c");
    }

    #[test]
    fn shows_new_lines_as_added() {
        check("", "a\nb", "+a\n+b");
    }

    #[test]
    fn shows_missing_lines_as_removed() {
        check("a\nb", "", "-a\n-b");
    }

    #[test]
    fn equal_texts_have_only_equal_lines() {
        check("a\nb\n", "a\nb\n", " a\n b");
    }

    #[test]
    fn keeps_common_lines() {
        check("a\nb\nc\nd", "b\nd\ne", "-a\n b\n-c\n d\n+e");
    }

    #[test]
    fn replaces_a_section_that_is_too_long_to_compare() {
        let before = "x\n".repeat(LINES_MAX + 1);
        let shown = lines(&before, "y");
        assert_eq!(shown.len(), LINES_MAX + 2);
    }
}
