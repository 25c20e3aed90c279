//! Binary quantities such as `512Mi` (CAP-10, W-17).

const UNITS: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// More decimals than any device sends; beyond this, single bytes are no longer distinguished.
const FRACTION_DIGITS_MAX: usize = 18;

/// Bytes of a quantity as devices send it: digits, an optional fraction, optional blanks, a binary unit.
/// `None` if it cannot be read: unknown, not wrong.
pub fn parse_bytes(text: &str) -> Option<u128> {
    let (number, shift) = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))?;
    let number = number.trim_end_matches(char::is_whitespace);
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || fraction.is_some_and(|fraction| !digits(fraction)) {
        return None;
    }
    let bytes = whole.parse::<u128>().ok()?.checked_mul(1 << shift)?;
    let Some(fraction) = fraction else { return Some(bytes) };
    if fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let part = fraction.parse::<u128>().ok()?.checked_mul(1 << shift)? / 10_u128.pow(fraction.len() as u32);
    bytes.checked_add(part)
}

/// The largest unit that needs no fraction; bytes below a kibibyte are dropped.
pub fn format_bytes(bytes: u128) -> String {
    let (unit, shift) = UNITS
        .iter()
        .rev()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift))
        .copied()
        .unwrap_or(("Ki", 10));
    format!("{}{unit}", bytes >> shift)
}

/// For people: `1.5 GiB`, with at most two decimals.
pub fn words(bytes: u128) -> String {
    let (unit, shift) = UNITS.iter().rev().find(|(_, shift)| bytes >> shift > 0).copied().unwrap_or(("Ki", 10));
    // Below the largest unit nothing overflows: counts hundredths of it, and truncates.
    let hundredths = (bytes >> (shift - 10)).saturating_mul(100) >> 10;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    let text = format!("{whole}.{rest:02}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {unit}B")
}

/// The text without blanks if it is a quantity, otherwise unchanged (CAP-10).
pub fn without_blanks(text: &str) -> String {
    if parse_bytes(text).is_some() { text.split_whitespace().collect() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_read_with_and_without_blanks_and_fractions() {
        // CAP-10
        for (text, bytes) in [
            ("1Ki", 1 << 10),
            ("59 Gi", 59 << 30),
            ("1024Mi", 1 << 30),
            ("0.5Gi", 1 << 29),
            ("1.25 Ti", 5 << 38),
            ("7Ei", 7 << 60),
            ("0Mi", 0),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_unknown() {
        // W-17
        for text in ["", "64", "Gi", " Gi", "lots", "1 GB", "1gi", "-1Gi", "1.Gi", ".5Gi", "1e3Gi", " 1Gi", "1,5Gi"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
        assert_eq!(parse_bytes(&format!("{}Ei", "9".repeat(40))), None);
        assert_eq!(parse_bytes(&format!("1.{}Ei", "9".repeat(40))), None);
    }

    #[test]
    fn formats_quantities_with_common_units() {
        for (text, words) in [
            ("512Mi", "512 MiB"),
            ("1536Mi", "1.5 GiB"),
            ("2Gi", "2 GiB"),
            ("16315608Ki", "15.55 GiB"),
            ("1024Ei", "1024 EiB"),
            ("0Mi", "0 KiB"),
            ("0.5Ki", "0.5 KiB"),
        ] {
            assert_eq!(parse_bytes(text).map(super::words).as_deref(), Some(words), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_quantity_reads_back(kibibytes in 0_u128..1 << 70) {
            let bytes = kibibytes << 10;
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_read_or_unknown_without_a_panic(text in "[0-9. KMGTPEi]{0,60}") {
            if let Some(bytes) = parse_bytes(&text) {
                prop_assert_eq!(parse_bytes(&without_blanks(&text)), Some(bytes));
            }
        }
    }
}
