//! Version order according to Semantic Versioning.

use std::cmp::Ordering;

/// Whether going from `other` to `one` is a downgrade. Unparseable versions are not older than anything.
pub fn is_older(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (read(one), read(other)) else { return false };
    let by_number = one.0.cmp(&other.0);
    let ordering = by_number.then_with(|| match (one.1, other.1) {
        ("", "") => Ordering::Equal,
        // A pre-release is older than its release.
        ("", _) => Ordering::Greater,
        (_, "") => Ordering::Less,
        (one, other) => before(one, other),
    });
    ordering == Ordering::Less
}

/// Whether this version can be compared with others.
pub fn has_order(version: &str) -> bool {
    read(version).is_some()
}

/// The numbers and the pre-release; the part after `+` (in tags `_`) does not count.
fn read(version: &str) -> Option<(Vec<u64>, &str)> {
    let version = version.split(['+', '_']).next().unwrap_or_default();
    let (numbers, before) = version.split_once('-').unwrap_or((version, ""));
    let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
    Some((numbers?, before))
}

fn before(one: &str, other: &str) -> Ordering {
    for (one, other) in one.split('.').zip(other.split('.')) {
        let ordering = match (one.parse::<u64>(), other.parse::<u64>()) {
            (Ok(one), Ok(other)) => one.cmp(&other),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => one.cmp(other),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    one.split('.').count().cmp(&other.split('.').count())
}

#[cfg(test)]
mod tests {
    use super::{has_order, is_older};

    #[test]
    fn compares_versions_numerically() {
        for (one, other, older) in [
            ("1.0.0", "1.1.0", true),
            ("1.9.0", "1.10.0", true),
            ("1.10.0", "1.9.0", false),
            ("1.0.0", "1.0.0", false),
            ("1.0.0-rc.1", "1.0.0", true),
            ("1.0.0-rc.2", "1.0.0-rc.10", true),
            ("1.0.0-alpha", "1.0.0-alpha.1", true),
            ("1.0.0", "1.0.0-rc.1", false),
            ("1.0.0+1", "1.0.0_2", false),
            ("first", "second", false),
        ] {
            assert_eq!(is_older(one, other), older, "{one} {other}");
        }
    }
    #[test]
    fn knows_which_versions_have_an_order() {
        for (version, ordered) in
            [("1.0.0", true), ("2", true), ("1.0.0-rc.1", true), ("not a version", false), ("", false)]
        {
            assert_eq!(has_order(version), ordered, "{version}");
        }
    }
}
