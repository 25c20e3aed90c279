//! Lines in the format of `diff -u`.

use margrave_api::rollouts::{DiffLine, DiffSign};
use std::fmt::Write as _;
use std::ops::Range;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Empty when nothing differs.
pub(crate) fn unified(from: &str, to: &str, lines: &[DiffLine]) -> String {
    let mut text = String::new();
    for hunk in hunks(lines) {
        if text.is_empty() {
            let _ = write!(text, "--- {from}\n+++ {to}\n");
        }
        let count = |lines: &[DiffLine], other: DiffSign| lines.iter().filter(|line| line.sign != other).count();
        let (head, body) = (&lines[..hunk.start], &lines[hunk]);
        let place = |before: usize, count: usize| if count == 0 { before } else { before + 1 };
        let (removed, added) = (count(body, DiffSign::Added), count(body, DiffSign::Removed));
        let from_line = place(count(head, DiffSign::Added), removed);
        let to_line = place(count(head, DiffSign::Removed), added);
        let _ = writeln!(text, "@@ -{from_line},{removed} +{to_line},{added} @@");
        for line in body {
            let sign = match line.sign {
                DiffSign::Same => ' ',
                DiffSign::Added => '+',
                DiffSign::Removed => '-',
            };
            let _ = writeln!(text, "{sign}{}", line.text);
        }
    }
    text
}

/// Changes with their context; adjacent ones are merged.
fn hunks(lines: &[DiffLine]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| line.sign != DiffSign::Same) {
        let (start, end) = (index.saturating_sub(CONTEXT), (index + CONTEXT + 1).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::unified;
    use crate::app::diff::lines;

    fn check(before: &str, after: &str, expected: &str) {
        assert_eq!(unified("one", "two", &lines(before, after)), expected);
    }

    #[test]
    fn returns_nothing_for_equal_texts() {
        check("a\nb", "a\nb", "");
    }

    #[test]
    fn shows_changed_lines_with_context() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9",
            "1\n2\n3\n4\nfive\n6\n7\n8\n9",
            "--- one\n+++ two\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        );
    }

    #[test]
    fn splits_distant_changes_into_hunks() {
        let before = "a\n1\n2\n3\n4\n5\n6\n7\nb";
        let after = "A\n1\n2\n3\n4\n5\n6\n7\nB";
        check(
            before,
            after,
            "--- one\n+++ two\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n",
        );
    }

    #[test]
    fn starts_the_hunk_of_a_new_file_at_zero() {
        check("", "a\nb", "--- one\n+++ two\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    }
}
