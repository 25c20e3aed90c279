//! Binary quantities such as `512Mi` (CAP-10, W-17).

/// Bytes of a quantity as devices send it: digits, an optional fraction, optional blanks, a binary unit.
/// `None` when it cannot be read: unknown, not wrong.
pub fn parse_bytes(text: &str) -> Option<u128> {
    let _ = text;
    todo!()
}
