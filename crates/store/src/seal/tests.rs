use super::{Cell, PREFIX, SEAL_KEY_BYTES, Seal, SealError, Sealing, is_sealed};
use crate::StoreError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::sync::Arc;

const CLEAR: &str = "{\"password\":\"s3cret-value\"}";

fn sealing(key: u8) -> Sealing {
    Sealing(Some(Arc::new(Seal::new(&[key; SEAL_KEY_BYTES]))))
}

fn cell<'a>(row: &'a &'a str) -> Cell<'a> {
    Cell::new("deployments.parameter_values", row)
}

#[track_caller]
fn refused(outcome: crate::Result<String>) -> SealError {
    match outcome {
        Err(StoreError::Sealed { source, .. }) => source,
        other => panic!("expected that it does not open, got {other:?}"),
    }
}

#[test]
fn opens_a_sealed_text_with_its_key_in_its_cell() {
    let sealing = sealing(1);
    let sealed = sealing.text(cell(&"7"), CLEAR).unwrap();
    assert!(is_sealed(&sealed) && !sealed.contains("s3cret"), "{sealed}");
    assert_ne!(sealing.text(cell(&"7"), CLEAR).unwrap(), sealed, "never the same twice");
    assert_eq!(sealing.open_text(cell(&"7"), sealed).unwrap(), CLEAR);
    let (key, bytes) = sealing.bytes(cell(&"7"), b"").unwrap();
    assert_eq!(sealing.open_bytes(cell(&"7"), &key, bytes).unwrap(), b"");
}

#[test]
fn returns_unsealed_text_unchanged() {
    assert!(!is_sealed(CLEAR));
    assert_eq!(sealing(1).open_text(cell(&"7"), CLEAR.to_owned()).unwrap(), CLEAR);
    assert_eq!(Sealing::default().open_text(cell(&"7"), CLEAR.to_owned()).unwrap(), CLEAR);
}

#[test]
fn reports_a_wrong_key_with_both_ids() {
    let sealed = sealing(1).text(cell(&"7"), CLEAR).unwrap();
    let (one, two) = (Seal::new(&[1; SEAL_KEY_BYTES]), Seal::new(&[2; SEAL_KEY_BYTES]));
    let expected = SealError::OtherKey { sealed_with: one.id().to_owned(), held: two.id().to_owned() };
    assert_eq!(refused(sealing(2).open_text(cell(&"7"), sealed.clone())), expected);
    assert_eq!(refused(Sealing::default().open_text(cell(&"7"), sealed.clone())), SealError::NoKey);
    // Under another key's id it does not open either.
    let renamed = sealed.replace(one.id(), two.id());
    assert_eq!(refused(sealing(2).open_text(cell(&"7"), renamed)), SealError::Broken);
}

#[test]
fn rejects_a_moved_value() {
    let sealing = sealing(1);
    let sealed = sealing.text(cell(&"7"), CLEAR).unwrap();
    assert_eq!(refused(sealing.open_text(cell(&"8"), sealed.clone())), SealError::Broken);
    let elsewhere = Cell::new("rollouts.parameter_values", &"7");
    let error = sealing.open_text(elsewhere, sealed).unwrap_err();
    assert_eq!(error.to_string(), "`rollouts.parameter_values` of `7` cannot be opened");
}

#[test]
fn detects_any_changed_byte() {
    let sealing = sealing(1);
    let (key, sealed) = sealing.bytes(cell(&"7"), CLEAR.as_bytes()).unwrap();
    for index in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[index] ^= 1;
        assert!(sealing.open_bytes(cell(&"7"), &key, changed).is_err(), "byte {index}");
    }
}

#[test]
fn detects_any_truncation() {
    let sealing = sealing(1);
    let sealed = sealing.text(cell(&"7"), CLEAR).unwrap();
    for length in PREFIX.len()..sealed.len() {
        refused(sealing.open_text(cell(&"7"), sealed[..length].to_owned()));
    }
    let (key, bytes) = sealing.bytes(cell(&"7"), CLEAR.as_bytes()).unwrap();
    for length in 0..bytes.len() {
        assert!(sealing.open_bytes(cell(&"7"), &key, bytes[..length].to_vec()).is_err(), "{length} bytes");
    }
    refused(sealing.open_text(cell(&"7"), format!("{PREFIX}{key}:{}", STANDARD_NO_PAD.encode([0; 5]))));
}

#[test]
fn writes_nothing_sensitive_without_a_key() {
    let error = Sealing::default().text(cell(&"7"), CLEAR).unwrap_err();
    assert!(matches!(error, StoreError::Misuse(_)), "{error:?}");
}

#[test]
fn debug_output_does_not_show_the_key() {
    let shown = format!("{:?}", sealing(0x41));
    assert!(!shown.contains("65, 65") && !shown.contains("AAAA") && shown.contains("id"), "{shown}");
}
