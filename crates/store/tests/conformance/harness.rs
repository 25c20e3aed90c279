//! A separate database for every case, on a real engine.

use crate::fixtures::T0;
use futures_util::FutureExt as _;
use margrave_store::{SEAL_KEY_BYTES, Seal, Store, StoreOptions};
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};
use std::panic::AssertUnwindSafe;
use uuid::Uuid;

pub(crate) const NO_POSTGRES: &str = "MARGRAVE_TEST_POSTGRES names no PostgreSQL: run `make test`, \
                                      or `scripts/with-postgres.sh cargo nextest run -p margrave-store`";

pub(crate) struct Database {
    pub(crate) store: Store,
    pub(crate) url: String,
}

impl Database {
    async fn open(url: String) -> Self {
        let store = open(&url).await;
        Self { store, url }
    }

    /// Closes and opens again, as a restart would.
    pub(crate) async fn reopen(&mut self) {
        self.store.close().await;
        self.store = open(&self.url).await;
    }

    /// The store with the key of this number.
    pub(crate) async fn sealed(&self, key: u8) -> Store {
        self.store.clone().sealing_with(Seal::new(&[key; SEAL_KEY_BYTES]), T0).await.unwrap()
    }

    /// A connection that bypasses the store.
    pub(crate) async fn connection(&self) -> AnyConnection {
        AnyConnection::connect(&self.url).await.unwrap()
    }

    /// Changes the database without the store.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        self.connection().await.execute(statement).await.unwrap();
    }
}

async fn open(url: &str) -> Store {
    Store::open(&StoreOptions { url: url.to_owned(), readers: 4 }).await.unwrap()
}

pub(crate) async fn on_sqlite<F: Future<Output = ()>>(case: impl FnOnce(Database) -> F) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("margrave.db").display());
    case(Database::open(url).await).await;
}

pub(crate) async fn on_postgres<F: Future<Output = ()>>(case: impl FnOnce(Database) -> F) {
    let server = std::env::var("MARGRAVE_TEST_POSTGRES").expect(NO_POSTGRES);
    sqlx::any::install_default_drivers();
    let name = format!("margrave_{}", Uuid::new_v4().simple());
    let mut connection = AnyConnection::connect(&server).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let database = Database::open(with_name(&server, &name)).await;
    let outcome = AssertUnwindSafe(case(database)).catch_unwind().await;
    connection.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await.unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// The same server, another database.
fn with_name(server: &str, name: &str) -> String {
    let (place, options) =
        server.split_once('?').map_or((server, String::new()), |(place, options)| (place, format!("?{options}")));
    let (scheme, rest) = place.split_once("://").unwrap();
    let host = rest.split('/').next().unwrap();
    format!("{scheme}://{host}/{name}{options}")
}
