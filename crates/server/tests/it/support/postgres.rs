//! A separate database on the PostgreSQL of the test run.

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};
use uuid::Uuid;

const NO_POSTGRES: &str = "MARGRAVE_TEST_POSTGRES names no PostgreSQL: run `make test`, \
                           or `scripts/with-postgres.sh cargo test -p margrave-server`";

/// Removed with the server of the test run.
pub(crate) async fn database() -> String {
    let server = std::env::var("MARGRAVE_TEST_POSTGRES").expect(NO_POSTGRES);
    sqlx::any::install_default_drivers();
    let name = format!("margrave_{}", Uuid::new_v4().simple());
    let mut connection = AnyConnection::connect(&server).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let (place, options) = server.split_once('?').unwrap_or((&server, ""));
    let (scheme, rest) = place.split_once("://").unwrap();
    format!("{scheme}://{}/{name}?{options}", rest.split('/').next().unwrap())
}
