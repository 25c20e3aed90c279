//! Keyset pages: bounded, with an opaque cursor.

use super::error::{AppError, AppResult, Code};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margrave_api::page::{LIMIT_DEFAULT, LIMIT_MAX, Page};

/// Which page; `after` is the `next` of the previous page.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// Items per page: 1 to 1000, 100 unless given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

impl Paging {
    pub fn limit(&self) -> AppResult<u32> {
        match self.limit.unwrap_or(LIMIT_DEFAULT) {
            limit @ 1..=LIMIT_MAX => Ok(limit),
            _ => Err(AppError::invalid("limit", format!("write a number from 1 to {LIMIT_MAX}"))),
        }
    }

    /// The key that the page starts after. `K` must parse what it prints.
    pub fn after<K: std::str::FromStr>(&self) -> AppResult<Option<K>> {
        let Some(cursor) = &self.after else { return Ok(None) };
        let key = URL_SAFE_NO_PAD
            .decode(cursor)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|text| text.parse().ok());
        key.map(Some).ok_or_else(|| AppError::invalid("after", "use the `next` of the previous page, unchanged"))
    }
}

/// A page of a list that may be sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
    /// The list is still being sorted; the items are those of an earlier order, or none.
    pub in_progress: bool,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None, in_progress: false }
    }
}

impl<T> From<Page<T>> for Listing<T> {
    fn from(Page { items, next }: Page<T>) -> Self {
        Self { items, next, in_progress: false }
    }
}

impl<T> Listing<T> {
    /// For a call, which waits until the list is sorted.
    pub fn completed(self) -> AppResult<Page<T>> {
        let Self { items, next, in_progress } = self;
        if in_progress {
            return Err(AppError::refused(Code::Unavailable, "the list is still being sorted; repeat the call"));
        }
        Ok(Page { items, next })
    }
}

/// Builds a page from `rows`, which contain one more than `limit` if there is another page.
pub fn page<R, T>(mut rows: Vec<R>, limit: u32, key: impl Fn(&R) -> String, convert: impl FnMut(R) -> T) -> Page<T> {
    let limit = limit as usize;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| cursor(&key(row)));
    Page { items: rows.into_iter().map(convert).collect(), next }
}

/// The cursor after a key.
pub fn cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// A short list that is never split into pages.
pub fn whole<T>(items: Vec<T>) -> Page<T> {
    Page { items, next: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_of_a_page_leads_to_the_next_page() {
        let first = page(vec![1, 2, 3], 2, ToString::to_string, |row| row);
        assert_eq!(first.items, [1, 2]);
        let paging = Paging { limit: None, after: first.next };
        assert_eq!(paging.after::<i32>().unwrap(), Some(2));
        let last = page(vec![3], 2, ToString::to_string, |row| row);
        assert_eq!(last.next, None);
    }

    #[test]
    fn rejects_an_invalid_cursor() {
        let paging = Paging { limit: None, after: Some("%%%".to_owned()) };
        assert!(paging.after::<i32>().is_err());
        let paging = Paging { limit: None, after: Some(URL_SAFE_NO_PAD.encode("press")) };
        assert!(paging.after::<i32>().is_err());
    }

    #[test]
    fn rejects_a_limit_out_of_range() {
        for limit in [0, LIMIT_MAX + 1] {
            assert!(Paging { limit: Some(limit), after: None }.limit().is_err());
        }
        assert_eq!(Paging::default().limit().unwrap(), LIMIT_DEFAULT);
    }
}
