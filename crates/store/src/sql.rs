//! Statements that are assembled from parts: filters and orders that an operator chooses.

use crate::Result;
use crate::rows::Columns;
use margrave_core::sort::{SortValue, Values};
use sqlx::any::AnyArguments;
use sqlx::{Any, AssertSqlSafe};

/// A statement being built: its text and its bound values.
#[derive(Default)]
pub(crate) struct Sql {
    conditions: Vec<String>,
    binds: Vec<SortValue>,
}

impl Sql {
    pub(crate) fn text(&mut self, value: impl Into<String>) -> String {
        self.binds.push(SortValue::Text(value.into()));
        format!("${}", self.binds.len())
    }

    pub(crate) fn number(&mut self, value: i64) -> String {
        self.binds.push(SortValue::Number(value));
        format!("${}", self.binds.len())
    }

    pub(crate) fn value(&mut self, value: SortValue) -> String {
        self.binds.push(value);
        format!("${}", self.binds.len())
    }

    pub(crate) fn texts(&mut self, values: &[String]) -> String {
        let places: Vec<String> = values.iter().map(|value| self.text(value.as_str())).collect();
        places.join(", ")
    }

    pub(crate) fn and(&mut self, condition: String) {
        self.conditions.push(condition);
    }

    /// Builds an inner query; returns its conditions as well. All values are bound to the one statement.
    pub(crate) fn inner<T>(&mut self, build: impl FnOnce(&mut Self) -> T) -> (T, String) {
        let outer = std::mem::take(&mut self.conditions);
        let result = build(self);
        let conditions = self.conditions();
        self.conditions = outer;
        (result, conditions)
    }

    pub(crate) fn conditions(&self) -> String {
        if self.conditions.is_empty() { "1 = 1".to_owned() } else { self.conditions.join(" AND ") }
    }

    pub(crate) fn query(self, text: String) -> sqlx::query::Query<'static, Any, AnyArguments> {
        // The statement consists of our own literals and placeholder numbers; values are bound.
        self.binds.into_iter().fold(sqlx::query(AssertSqlSafe(text)), |query, bind| match bind {
            SortValue::Text(text) => query.bind(text),
            SortValue::Number(number) => query.bind(number),
        })
    }
}

/// How the rows of a sorted page are ordered: by the value of a column, then by key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    /// The value, as an expression.
    pub(crate) value: &'a str,
    /// The columns of the key; the value may be one of them.
    pub(crate) key: &'a [&'a str],
    pub(crate) descending: bool,
}

impl Order<'_> {
    /// What follows `ORDER BY`.
    pub(crate) fn terms(&self) -> String {
        let direction = if self.descending { "DESC" } else { "ASC" };
        let columns =
            std::iter::once(self.value).filter(|value| !self.key.contains(value)).chain(self.key.iter().copied());
        columns.map(|column| format!("{column} {direction}")).collect::<Vec<_>>().join(", ")
    }

    /// The rows after a page that ended with this value and key.
    pub(crate) fn after(&self, sql: &mut Sql, value: &SortValue, key: &[&str]) -> String {
        let mut columns = Vec::new();
        let mut places = Vec::new();
        if !self.key.contains(&self.value) {
            columns.push(self.value);
            places.push(sql.value(value.clone()));
        }
        columns.extend(self.key);
        places.extend(key.iter().map(|key| sql.text(*key)));
        let direction = if self.descending { "<" } else { ">" };
        format!("({}) {direction} ({})", columns.join(", "), places.join(", "))
    }
}

/// A value as a number that both engines compare as such: the position of `word` among `words`.
pub(crate) fn position<'a>(word: &str, words: impl IntoIterator<Item = (&'a str, i64)>) -> String {
    let cases: Vec<String> =
        words.into_iter().map(|(word, position)| format!("WHEN '{word}' THEN {position}")).collect();
    format!("CAST(CASE ({word}) {} END AS BIGINT)", cases.join(" "))
}

/// The value of the column `sort_value`.
pub(crate) fn read_value(row: Columns<'_>, values: Values) -> Result<SortValue> {
    Ok(match values {
        Values::Texts => SortValue::Text(row.text("sort_value")?),
        Values::Numbers => SortValue::Number(row.number("sort_value")?),
    })
}
