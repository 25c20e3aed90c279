//! Sorted lists. A page in the order of a column reads every match, so in a large fleet it is computed in the background
//! (ADR 31); the rows themselves are read afresh.

use super::background::{BackgroundCache, PAGE_WAITS, Progress};
use super::error::{AppError, AppResult, Code};
use super::paging::{Listing, Paging, cursor};
use crate::state::ServerState;
use margrave_core::sort::{Column, Sort, SortValue};
use margrave_store::StoreError;
use serde_json::Value;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long a call of the API waits for a sorted page; a page of the web pages shows that it is being sorted.
const CALL_WAITS: Duration = Duration::from_secs(20);

/// Recently computed pages: values and keys.
pub type SortCache = BackgroundCache<String, Option<Arc<Vec<(SortValue, String)>>>>;

/// The order of a list, and how long to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order<C> {
    pub sort: Option<Sort<C>>,
    wait: Duration,
}

impl<C: Column> Default for Order<C> {
    /// In order of key.
    fn default() -> Self {
        Self { sort: None, wait: PAGE_WAITS }
    }
}

impl<C: Column> Order<C> {
    /// For a web page, which ignores an unknown column.
    pub fn of_page(text: &str) -> Self {
        Self { sort: Sort::parse(text), ..Self::default() }
    }

    /// For a call of the API.
    pub fn of_call(text: Option<&str>) -> AppResult<Self> {
        let sort = text.map(|text| {
            Sort::parse(text).ok_or_else(|| {
                let names = Sort::<C>::names();
                AppError::invalid("sort", format!("write one of {names}, with `-` in front to sort descending"))
            })
        });
        Ok(Self { sort: sort.transpose()?, wait: CALL_WAITS })
    }
}

/// Where a sorted page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position<K>(pub(super) SortValue, pub(super) K);

impl<K: Display> Display for Position<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = match &self.0 {
            SortValue::Text(text) => Value::from(text.as_str()),
            SortValue::Number(number) => Value::from(*number),
        };
        Value::from(vec![value, Value::from(self.1.to_string())]).fmt(f)
    }
}

impl<K: FromStr> FromStr for Position<K> {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (value, key): (Value, String) = serde_json::from_str(text).map_err(|_| ())?;
        let value = match value {
            Value::String(text) => SortValue::Text(text),
            Value::Number(number) => SortValue::Number(number.as_i64().ok_or(())?),
            _ => return Err(()),
        };
        Ok(Self(value, key.parse().map_err(|_| ())?))
    }
}

/// The value and the key that a page starts after.
pub(super) fn after<C: Column, K: FromStr>(sort: Sort<C>, paging: &Paging) -> AppResult<Option<(SortValue, K)>> {
    match paging.after::<Position<K>>()? {
        Some(Position(value, _)) if !value.is_of(sort.column.values()) => {
            Err(AppError::invalid("after", "use the `next` of the previous page with the same `sort`"))
        }
        position => Ok(position.map(|Position(value, key)| (value, key))),
    }
}

/// The keys of one page. `what` names the list and its filter; `read` reads so many keys after a value and a key.
pub(super) async fn keys<C, K, F>(
    state: &ServerState,
    (order, sort): (Order<C>, Sort<C>),
    what: &str,
    paging: &Paging,
    read: impl FnOnce(Option<(SortValue, K)>, u32) -> F,
) -> AppResult<Listing<K>>
where
    C: Column,
    K: FromStr + Display,
    F: Future<Output = Result<Vec<(SortValue, K)>, StoreError>> + Send + 'static,
{
    let limit = paging.limit()?;
    let after = after::<C, K>(sort, paging)?;
    let key = format!("{what} {sort} {limit} {:?}", paging.after);
    let computed = state.sorts.get_or_start(key, order.wait, |_| {
        let rows = read(after, limit + 1);
        async move {
            match rows.await {
                Ok(rows) => Some(Arc::new(rows.into_iter().map(|(value, key)| (value, key.to_string())).collect())),
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "cannot sort a list");
                    None
                }
            }
        }
    });
    let Progress { value, done } = computed.await;
    let rows: Arc<Vec<(SortValue, String)>> = match value {
        Some(Some(rows)) => rows,
        Some(None) => {
            return Err(AppError::refused(Code::Internal, "the list could not be sorted; see the server log"));
        }
        None => Arc::default(),
    };
    let more = rows.len() > limit as usize;
    let shown = &rows[..rows.len().min(limit as usize)];
    let next = shown.last().filter(|_| more).map(|(value, key)| cursor(&Position(value.clone(), key).to_string()));
    let items = shown.iter().filter_map(|(_, key)| key.parse().ok()).collect();
    Ok(Listing { items, next, in_progress: !done })
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_core::sort::DeviceColumn;

    #[test]
    fn a_position_is_read_as_written() {
        for value in [SortValue::Number(-7), SortValue::Text("hall \"3\", [1]".to_owned())] {
            let position = Position(value, "press-01/press-01".to_owned());
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for wrong in ["", "[]", "[null,\"a\"]", "[1.5,\"a\"]", "{}"] {
            assert_eq!(wrong.parse::<Position<String>>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn names_the_columns_when_one_is_unknown() {
        let error = Order::<DeviceColumn>::of_call(Some("name")).unwrap_err();
        assert!(error.to_string().contains("`device`, `state`, `site`, `last-seen`"), "{error}");
        assert_eq!(Order::<DeviceColumn>::of_page("name").sort, None);
    }
}
