//! Reads columns: an invalid value is reported with its table.

use crate::seal::{Cell, Sealing, is_sealed};
use crate::{Result, StoreError};
use margrave_core::time::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;
use std::fmt::Display;
use std::str::FromStr;

/// A row of one table.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) table: &'static str,
    pub(crate) row: &'a AnyRow,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(table: &'static str, row: &'a AnyRow) -> Self {
        Self { table, row }
    }

    fn get<T>(&self, column: &'static str) -> Result<T>
    where
        T: sqlx::Decode<'a, sqlx::Any> + sqlx::Type<sqlx::Any>,
    {
        self.row.try_get(column).map_err(|problem| self.odd(column, problem))
    }

    pub(crate) fn text(&self, column: &'static str) -> Result<String> {
        self.get(column)
    }

    pub(crate) fn text_maybe(&self, column: &'static str) -> Result<Option<String>> {
        self.get(column)
    }

    pub(crate) fn number(&self, column: &'static str) -> Result<i64> {
        self.get(column)
    }

    pub(crate) fn number_maybe(&self, column: &'static str) -> Result<Option<i64>> {
        self.get(column)
    }

    pub(crate) fn bytes(&self, column: &'static str) -> Result<Vec<u8>> {
        self.get(column)
    }

    pub(crate) fn bytes_maybe(&self, column: &'static str) -> Result<Option<Vec<u8>>> {
        self.get(column)
    }

    pub(crate) fn time(&self, column: &'static str) -> Result<Timestamp> {
        self.number(column).map(Timestamp)
    }

    pub(crate) fn time_maybe(&self, column: &'static str) -> Result<Option<Timestamp>> {
        Ok(self.number_maybe(column)?.map(Timestamp))
    }

    /// A count or a manifest version: never negative.
    pub(crate) fn unsigned(&self, column: &'static str) -> Result<u64> {
        u64::try_from(self.number(column)?).map_err(|problem| self.odd(column, problem))
    }

    pub(crate) fn parsed<T>(&self, column: &'static str) -> Result<T>
    where
        T: FromStr<Err: Display>,
    {
        self.text(column)?.parse().map_err(|problem| self.odd(column, problem))
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, column: &'static str) -> Result<T> {
        serde_json::from_str(&self.text(column)?).map_err(|problem| self.odd(column, problem))
    }

    pub(crate) fn json_maybe<T: serde::de::DeserializeOwned>(&self, column: &'static str) -> Result<Option<T>> {
        let text = self.text_maybe(column)?;
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(|problem| self.odd(column, problem))
    }

    /// JSON that may be sealed, and whether it is.
    pub(crate) fn json_sealed<T: serde::de::DeserializeOwned>(
        &self,
        column: &'static str,
        cell: Cell<'_>,
        sealing: &Sealing,
    ) -> Result<(T, bool)> {
        let text = self.text(column)?;
        let sealed = is_sealed(&text);
        let text = if sealed { sealing.open_text(cell, text)? } else { text };
        let value = serde_json::from_str(&text).map_err(|problem| self.odd(column, problem))?;
        Ok((value, sealed))
    }

    /// A name such as `present`, parsed by its type.
    pub(crate) fn named<T>(&self, column: &'static str, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        let text = self.text(column)?;
        read(&text).ok_or_else(|| self.odd(column, format!("unknown value `{text}`")))
    }

    fn odd(&self, column: &'static str, problem: impl Display) -> StoreError {
        StoreError::Inconsistent { table: self.table, problem: format!("`{column}`: {problem}") }
    }
}

/// A pattern for `LOWER(column) LIKE $1 ESCAPE '\'`: matches text that contains `text`, in any case. Lower case on both
/// sides gives the same result on both engines.
pub(crate) fn containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for letter in text.to_lowercase().chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// JSON for a column.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("maps with text keys always become JSON")
}

/// A manifest version for a column; versions we issue stay below 2^53.
pub(crate) fn version_column(version: u64) -> Result<i64> {
    i64::try_from(version).map_err(|_| StoreError::Misuse(format!("version {version} is too large for the database")))
}
