//! Names that a mistyped name most likely means.

/// The known names that a mistyped name most likely means, best first, at most `limit`.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let distance_max = tolerated(name);
    let mut scored: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|known| {
            let part = name.len() >= 3 && (known.starts_with(name) || name.starts_with(known) && known.len() >= 3);
            // The lengths alone rule out most names.
            if !part && known.len().abs_diff(name.len()) > 4 * distance_max {
                return None;
            }
            let score = distance(name, known).min(if part { 1 } else { usize::MAX });
            (known != name && score <= distance_max).then_some((score, known))
        })
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().map(|(_, known)| known).take(limit).collect()
}

/// `; did you mean …?`, or nothing.
pub fn did_you_mean<T: AsRef<str>>(similar: &[T]) -> String {
    let quoted: Vec<String> = similar.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

/// How many edits still count as a typing mistake. Two swapped characters count as two edits.
pub fn tolerated(name: &str) -> usize {
    (name.chars().count() / 3).max(if name.len() > 3 { 2 } else { 1 })
}

/// The edit distance: how many characters to change, add or remove.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, candidate) in other.iter().enumerate() {
            let changed = diagonal + usize::from(character != *candidate);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_changes() {
        for (one, other, expected) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("same", "same", 0)] {
            assert_eq!(distance(one, other), expected);
            assert_eq!(distance(other, one), expected);
        }
    }

    #[test]
    fn finds_the_names_that_were_meant() {
        let known = ["line-monitor", "line-monitor-2", "vibration-analytics", "press-01", "press-02"];
        assert_eq!(similar("lin-monitor", known, 3), ["line-monitor", "line-monitor-2"]);
        assert_eq!(similar("vibration", known, 3), ["vibration-analytics"]);
        assert_eq!(similar("prss-01", known, 1), ["press-01"]);
        assert!(similar("digitron", known, 3).is_empty());
        assert!(similar("press-01", ["press-01"], 3).is_empty());
    }
}
