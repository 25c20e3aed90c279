//! Many rows with few statements: each statement costs a trip to the database, each row next to nothing.

use crate::Result;
use crate::error::During;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::{Any, AnyConnection, AssertSqlSafe};

pub(crate) type Statement<'q> = sqlx::query::Query<'q, Any, AnyArguments>;

/// Rows per statement. Three sizes only, so that the prepared statements stay few.
const ROWS: [usize; 3] = [50, 10, 1];

/// How many ids one lookup asks for.
const IDS: usize = 50;

/// An insertion, written around its rows: `INSERT INTO t (a, b) VALUES` .. `ON CONFLICT ..`.
pub(crate) struct Insert {
    pub(crate) into: &'static str,
    pub(crate) columns: usize,
    pub(crate) on_conflict: &'static str,
    pub(crate) attempt: &'static str,
}

impl Insert {
    /// `bind` binds the columns of one row, in order. No key may occur twice among the rows.
    pub(crate) async fn rows<T>(
        &self,
        connection: &mut AnyConnection,
        rows: &[T],
        bind: impl for<'q> Fn(Statement<'q>, &T) -> Statement<'q>,
    ) -> Result<()> {
        let mut rest = rows;
        for size in ROWS {
            while rest.len() >= size {
                let (chunk, later) = rest.split_at(size);
                // The text is made of our own literals and numbers; values are bound.
                let statement = sqlx::query(AssertSqlSafe(self.text(size)));
                let statement = chunk.iter().fold(statement, &bind);
                statement.execute(&mut *connection).await.during(self.attempt)?;
                rest = later;
            }
        }
        Ok(())
    }

    fn text(&self, rows: usize) -> String {
        let row = |row: usize| format!("({})", places(row * self.columns + 1, self.columns));
        let rows: Vec<String> = (0..rows).map(row).collect();
        format!("INSERT INTO {} VALUES {} {}", self.into, rows.join(", "), self.on_conflict)
    }
}

fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|place| format!("${place}")).collect();
    places.join(", ")
}

/// Rows for many ids: `select` ends before the list, `rest` follows it.
pub(crate) async fn select_in(
    connection: &mut AnyConnection,
    select: &'static str,
    ids: &[String],
    rest: &'static str,
    attempt: &'static str,
) -> Result<Vec<AnyRow>> {
    let mut found = Vec::new();
    for chunk in ids.chunks(IDS) {
        let size = if chunk.len() == 1 { 1 } else { IDS };
        let statement = sqlx::query(AssertSqlSafe(format!("{select} ({}) {rest}", places(1, size))));
        // Places that are left over repeat the last id, which finds nothing more.
        let padded = chunk.iter().chain(std::iter::repeat(&chunk[chunk.len() - 1])).take(size);
        let statement = padded.fold(statement, |statement, id| statement.bind(id.clone()));
        found.extend(statement.fetch_all(&mut *connection).await.during(attempt)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::Insert;

    #[test]
    fn numbers_places_through() {
        let insert = Insert { into: "t (a, b)", columns: 2, on_conflict: "ON CONFLICT DO NOTHING", attempt: "try" };
        assert_eq!(insert.text(2), "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING");
    }
}
