//! Many rows with few statements: each statement costs a round trip to the database, each row next to nothing.

use crate::Result;
use crate::error::During;
use crate::open::WriteTransaction;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::{Any, AnyConnection, AssertSqlSafe};

pub(crate) type Statement<'q> = sqlx::query::Query<'q, Any, AnyArguments>;

/// Rows per statement. Only a few sizes, so that there are few prepared statements; small ones too, since a batch that
/// must not block others has only a handful of rows.
const ROWS: [usize; 5] = [50, 10, 5, 2, 1];

/// The number of ids in one lookup.
const IDS: usize = 50;

/// Statements of a batch are kept prepared up to this number; a batch of the usual size has about twenty.
const KEPT_STATEMENTS_MAX: usize = 64;

/// The parts of an `INSERT` before and after the rows: `INSERT INTO t (a, b) VALUES` and `ON CONFLICT ..`.
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
                // The statement consists of our own literals and numbers; values are bound.
                let statement = sqlx::query(AssertSqlSafe(self.text(1, size)));
                let statement = chunk.iter().fold(statement, &bind);
                statement.execute(&mut *connection).await.during(self.attempt)?;
                rest = later;
            }
        }
        Ok(())
    }

    fn text(&self, first: usize, rows: usize) -> String {
        let row = |row: usize| format!("({})", places(first + row * self.columns, self.columns));
        let rows: Vec<String> = (0..rows).map(row).collect();
        format!("INSERT INTO {} VALUES {} {}", self.into, rows.join(", "), self.on_conflict)
    }
}

/// Statements that are executed together, in order. SQLite executes them in one round trip.
pub(crate) struct StatementBatch<'p> {
    pieces: Vec<BatchedStatement<'p>>,
    /// Whether each statement is sent separately, as PostgreSQL requires.
    apart: bool,
    /// The number of bound values so far.
    places: usize,
}

struct BatchedStatement<'p> {
    text: String,
    bind: Binding<'p>,
}

type Binding<'p> = Box<dyn for<'q> FnOnce(Statement<'q>) -> Statement<'q> + Send + 'p>;

impl<'p> StatementBatch<'p> {
    pub(crate) fn new(writing: &WriteTransaction) -> Self {
        Self { pieces: Vec::new(), apart: writing.is_shared(), places: 0 }
    }

    /// As [`Insert::rows`].
    pub(crate) fn insert<T: Send + 'p>(
        &mut self,
        insert: &Insert,
        mut rows: Vec<T>,
        bind: impl for<'q> Fn(Statement<'q>, &T) -> Statement<'q> + Copy + Send + 'p,
    ) {
        for size in ROWS {
            while rows.len() >= size {
                let chunk: Vec<T> = rows.drain(..size).collect();
                let text = |first| insert.text(first, size);
                self.add(size * insert.columns, text, move |statement| chunk.iter().fold(statement, bind));
            }
        }
    }

    /// One statement with this many placeholders; `text` gets the number of the first.
    pub(crate) fn add(
        &mut self,
        places: usize,
        text: impl FnOnce(usize) -> String,
        bind: impl for<'q> FnOnce(Statement<'q>) -> Statement<'q> + Send + 'p,
    ) {
        let first = if self.apart { 1 } else { self.places + 1 };
        self.pieces.push(BatchedStatement { text: text(first), bind: Box::new(bind) });
        self.places += places;
    }

    /// Executes the statements so far if that adds no round trip, so that contended rows can be locked
    /// after it and held only briefly.
    pub(crate) async fn write_early(self, connection: &mut AnyConnection, attempt: &'static str) -> Result<Self> {
        if !self.apart {
            return Ok(self);
        }
        self.write(connection, attempt).await?;
        Ok(Self { pieces: Vec::new(), apart: true, places: 0 })
    }

    pub(crate) async fn write(self, connection: &mut AnyConnection, attempt: &'static str) -> Result<()> {
        for statement in self.statements() {
            statement.execute(&mut *connection).await.during(attempt)?;
        }
        Ok(())
    }

    /// The same for statements that return rows: the rows of all of them, in order.
    pub(crate) async fn fetch(self, connection: &mut AnyConnection, attempt: &'static str) -> Result<Vec<AnyRow>> {
        let mut rows = Vec::new();
        for statement in self.statements() {
            rows.extend(statement.fetch_all(&mut *connection).await.during(attempt)?);
        }
        Ok(rows)
    }

    fn statements(self) -> Vec<Statement<'static>> {
        // The statement consists of our own literals and numbers; values are bound.
        if self.apart {
            return self
                .pieces
                .into_iter()
                .map(|BatchedStatement { text, bind }| bind(sqlx::query(AssertSqlSafe(text))))
                .collect();
        }
        if self.pieces.is_empty() {
            return Vec::new();
        }
        let (texts, bindings): (Vec<_>, Vec<_>) = self.pieces.into_iter().map(|piece| (piece.text, piece.bind)).unzip();
        // Prepared statements are cached by their whole text, and a large batch hardly ever repeats.
        let statement = sqlx::query(AssertSqlSafe(texts.join("; "))).persistent(texts.len() <= KEPT_STATEMENTS_MAX);
        vec![bindings.into_iter().fold(statement, |statement, bind| bind(statement))]
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
        // Unused placeholders repeat the last id, which finds nothing more.
        let padded = chunk.iter().chain(std::iter::repeat(&chunk[chunk.len() - 1])).take(size);
        let statement = padded.fold(statement, |statement, id| statement.bind(id.clone()));
        found.extend(statement.fetch_all(&mut *connection).await.during(attempt)?);
    }
    Ok(found)
}

/// Rows that match one of two lists. Each part of `select` is followed by its list.
pub(crate) async fn select_either(
    connection: &mut AnyConnection,
    select: [&'static str; 2],
    lists: [&[String]; 2],
    attempt: &'static str,
) -> Result<Vec<AnyRow>> {
    /// No row has this id.
    const PADDING: &str = "";
    let [one, other] = select;
    let chunk = |list: &'_ [String], index: usize| -> Vec<String> {
        let chunk = list.chunks(IDS).nth(index).unwrap_or_default().iter().cloned();
        chunk.chain(std::iter::repeat(PADDING.to_owned())).take(IDS).collect()
    };
    let trips = lists.map(|list| list.len().div_ceil(IDS)).into_iter().max().unwrap_or_default();
    let mut found = Vec::new();
    for index in 0..trips {
        let text = format!("{one} ({}) {other} ({})", places(1, IDS), places(IDS + 1, IDS));
        let ids = lists.into_iter().flat_map(|list| chunk(list, index));
        let statement = ids.fold(sqlx::query(AssertSqlSafe(text)), Statement::bind);
        found.extend(statement.fetch_all(&mut *connection).await.during(attempt)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Insert, StatementBatch};
    use crate::open::commit;
    use crate::{Store, StoreOptions};
    use sqlx::Row as _;

    #[test]
    fn numbers_placeholders_consecutively() {
        let insert = Insert { into: "t (a, b)", columns: 2, on_conflict: "ON CONFLICT DO NOTHING", attempt: "try" };
        assert_eq!(insert.text(1, 2), "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING");
        assert_eq!(insert.text(4, 1), "INSERT INTO t (a, b) VALUES ($4, $5) ON CONFLICT DO NOTHING");
    }

    #[tokio::test]
    async fn writes_a_batch_in_one_round_trip_with_values_in_order() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        let insert =
            Insert { into: "blobs (digest, size, body, stored_at)", columns: 4, on_conflict: "", attempt: "try" };
        let mut writing = store.begin().await.unwrap();
        let mut statements = StatementBatch::new(&writing);
        let rows: Vec<i64> = (1..=8).collect();
        statements.insert(&insert, rows, |row, number| {
            row.bind(format!("digest-{number}")).bind(*number).bind(vec![0_u8]).bind(10 * number)
        });
        let text = |first| format!("UPDATE audit_head SET seq = ${first}, hash = ${} WHERE id = 1", first + 1);
        statements.add(2, text, |statement| statement.bind(7_i64).bind("the hash"));
        // Sizes 5, 2 and 1, and the update.
        assert_eq!(statements.pieces.len(), 4);
        statements.write(&mut writing, "try").await.unwrap();
        commit(writing).await.unwrap();
        let rows = sqlx::query("SELECT * FROM blobs ORDER BY size").fetch_all(&store.read).await.unwrap();
        let found: Vec<(String, i64, i64)> =
            rows.iter().map(|row| (row.get("digest"), row.get("size"), row.get("stored_at"))).collect();
        let wanted: Vec<_> = (1..=8).map(|number| (format!("digest-{number}"), number, 10 * number)).collect();
        assert_eq!(found, wanted);
        let head = sqlx::query("SELECT seq, hash FROM audit_head").fetch_one(&store.read).await.unwrap();
        assert_eq!((head.get::<i64, _>("seq"), head.get::<String, _>("hash")), (7, "the hash".to_owned()));
    }
}
