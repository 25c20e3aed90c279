//! How operators name things: by the beginning of an id.

use uuid::Uuid;

/// Where the hyphens of a UUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// All UUIDs that begin with a text, as the first and the last of them. Both have the full length, so that a database
/// compares them alike in every collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    pub first: Uuid,
    pub last: Uuid,
}

impl IdRange {
    /// `None` if no UUID begins with the text, and for an empty text.
    pub fn starting_with(prefix: &str) -> Option<Self> {
        let fits = |(place, byte): (usize, u8)| {
            if HYPHENS.contains(&place) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        };
        let length = Uuid::nil().hyphenated().to_string().len();
        if prefix.is_empty() || prefix.len() > length || !prefix.bytes().enumerate().all(|(at, byte)| fits((at, byte)))
        {
            return None;
        }
        let filled = |filler: char| {
            let rest = (prefix.len()..length).map(|place| if HYPHENS.contains(&place) { '-' } else { filler });
            Uuid::try_parse(&prefix.chars().chain(rest).collect::<String>()).ok()
        };
        Some(Self { first: filled('0')?, last: filled('f')? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_range_of_ids_that_begin_with_it() {
        let range = |prefix: &str| {
            IdRange::starting_with(prefix).map(|IdRange { first, last }| (first.to_string(), last.to_string()))
        };
        let (first, last) = range("3F2a").unwrap();
        assert_eq!(first, "3f2a0000-0000-0000-0000-000000000000");
        assert_eq!(last, "3f2affff-ffff-ffff-ffff-ffffffffffff");
        let (first, last) = range("3f2a0000-1").unwrap();
        assert_eq!(first, "3f2a0000-1000-0000-0000-000000000000");
        assert_eq!(last, "3f2a0000-1fff-ffff-ffff-ffffffffffff");
        assert_eq!(range(&last).unwrap(), (last.clone(), last.clone()));
        for text in ["", "x", "3f2a00001", "3f2a-", "3f2a0000-0000-0000-0000-0000000000000", "3f2ä"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
