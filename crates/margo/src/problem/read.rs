//! Reads problem documents: no member is required, because the reader already handles an error.

use super::{BackoffStrategy, FieldError, Problem};
use crate::reader::{Cursor, Object};

pub(super) fn problem(root: &Cursor<'_>) -> Option<Problem> {
    let object = root.object()?;
    // Generation A sends {"error", "message"}, the reference {"Error"} (PRB-05, W-35).
    let title = text(&object, "title").or_else(|| text(&object, "error")).or_else(|| text(&object, "Error"));
    let detail = text(&object, "detail").or_else(|| text(&object, "message"));
    Some(Problem {
        problem_type: text(&object, "type").unwrap_or_else(|| "about:blank".to_owned()),
        title: title.unwrap_or_default(),
        status: lenient(&object, "status", number).and_then(|status| u16::try_from(status).ok()),
        detail,
        instance: text(&object, "instance"),
        retryable: lenient(&object, "retryable", |cursor| match cursor.scalar()? {
            crate::node::Scalar::Boolean(boolean) => Some(boolean),
            _ => None,
        }),
        retry_after_seconds: lenient(&object, "retryAfterSeconds", number),
        backoff_strategy: lenient(&object, "backoffStrategy", |cursor| backoff(&quoted(cursor)?)),
        errors: object.get("errors").map(|cursor| errors(&cursor)).unwrap_or_default(),
    })
}

/// A member in an unexpected form counts as absent.
fn lenient<'r, T>(object: &Object<'r>, key: &str, read: impl FnOnce(&Cursor<'r>) -> Option<T>) -> Option<T> {
    let cursor = object.get(key)?;
    let value = read(&cursor);
    if value.is_none() {
        cursor.warning("is ignored: it is not in the form of RFC 9457");
    }
    value
}

fn text(object: &Object<'_>, key: &str) -> Option<String> {
    lenient(object, key, quoted)
}

fn quoted(cursor: &Cursor<'_>) -> Option<String> {
    match cursor.scalar()? {
        crate::node::Scalar::Text(text) => Some(text),
        _ => None,
    }
}

fn number(cursor: &Cursor<'_>) -> Option<u64> {
    match cursor.scalar()? {
        crate::node::Scalar::Number(number) => number.as_u64(),
        _ => None,
    }
}

fn backoff(text: &str) -> Option<BackoffStrategy> {
    BackoffStrategy::ALL.into_iter().find(|strategy| strategy.as_str() == text)
}

fn errors(cursor: &Cursor<'_>) -> Vec<FieldError> {
    let crate::node::Kind::Sequence(_) = cursor.node().kind else {
        cursor.warning("is ignored: it is not a list");
        return Vec::new();
    };
    let items = cursor.list().unwrap_or_default();
    items
        .iter()
        .filter_map(|cursor| {
            let crate::node::Kind::Mapping(_) = cursor.node().kind else {
                cursor.warning("is ignored: it is not an object");
                return None;
            };
            let object = cursor.object()?;
            let member = |key: &str| text(&object, key).unwrap_or_default();
            Some(FieldError { field: member("field"), message: member("message") })
        })
        .collect()
}
