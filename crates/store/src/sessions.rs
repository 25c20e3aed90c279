//! Web sessions: who is signed in, from where, until when. Only the SHA-256 of a cookie's secret is stored.

use crate::audit::{self, Entry};
use crate::error::During;
use crate::lookup::NamedId;
use crate::open::commit;
use crate::retention::PRUNE_ROWS_MAX;
use crate::rows::Columns;
use crate::{Result, Store};
use margrave_core::model::Actor;
use margrave_core::names::IdRange;
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::any::AnyRow;
use uuid::Uuid;

/// The owner of a session; it ends with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionOwner {
    Token(Uuid),
    Operator(Uuid),
}

impl SessionOwner {
    pub fn id(self) -> Uuid {
        match self {
            Self::Token(id) | Self::Operator(id) => id,
        }
    }
}

/// One browser that is or was signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSession {
    pub id: Uuid,
    pub owner: SessionOwner,
    /// Name of the token or the operator.
    pub name: String,
    /// Where it was signed in from.
    pub address: String,
    /// The user agent of the browser.
    pub browser: String,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// A browser that signs in.
#[derive(Debug, Clone, Copy)]
pub struct SignedIn<'a> {
    pub id: Uuid,
    pub secret_hash: &'a str,
    pub owner: SessionOwner,
    pub address: &'a str,
    pub browser: &'a str,
    pub expires_at: Timestamp,
}

fn read(row: &AnyRow) -> Result<WebSession> {
    let row = Columns::of("web_sessions", row);
    let owner = match row.text_maybe("token_id")? {
        Some(_) => SessionOwner::Token(row.parsed("token_id")?),
        None => SessionOwner::Operator(row.parsed("operator_id")?),
    };
    Ok(WebSession {
        id: row.parsed("id")?,
        owner,
        name: row.text("name")?,
        address: row.text("address")?,
        browser: row.text("browser")?,
        created_at: row.time("created_at")?,
        seen_at: row.time("seen_at")?,
        expires_at: row.time("expires_at")?,
        ended_at: row.time_maybe("ended_at")?,
    })
}

/// Sessions that are active at the given time first.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.token_id, s.operator_id, COALESCE(t.name, o.name) AS name, s.address, s.browser, s.created_at,
                 s.seen_at, s.expires_at, s.ended_at
             FROM web_sessions s LEFT JOIN tokens t ON t.id = s.token_id LEFT JOIN operators o ON o.id = s.operator_id
             WHERE s.ended_at IS NULL AND s.expires_at > $1
               AND (t.id IS NULL OR (t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $1))) ",
            $rest
        )
    };
}

pub(crate) const SESSIONS_IN_RANGE: &str = select_sessions!("AND s.id BETWEEN $2 AND $3 ORDER BY s.id LIMIT $4");

impl Store {
    pub async fn session_create(&self, actor: &Actor, session: SignedIn<'_>, now: Timestamp) -> Result<()> {
        let SignedIn { id, secret_hash, owner, address, browser, expires_at } = session;
        let (token, operator) = match owner {
            SessionOwner::Token(id) => (Some(id.to_string()), None),
            SessionOwner::Operator(id) => (None, Some(id.to_string())),
        };
        let mut transaction = self.begin().await?;
        sqlx::query(
            "INSERT INTO web_sessions
                 (id, secret_hash, token_id, operator_id, address, browser, created_at, seen_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)",
        )
        .bind(id.to_string())
        .bind(secret_hash)
        .bind(token)
        .bind(operator)
        .bind(address)
        .bind(browser)
        .bind(now.0)
        .bind(expires_at.0)
        .execute(&mut *transaction)
        .await
        .during("sign in")?;
        let name = actor.name.split_once(':').map_or(actor.name.as_str(), |(_, name)| name);
        let after = Some(json!({ "name": name, "address": address, "expiresAt": expires_at.to_string() }));
        let entry = Entry { actor, action: "session.create", subject: format!("session/{id}"), before: None, after };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await
    }

    /// A session that has neither ended nor expired, and whose owner still has access.
    pub async fn session_find(&self, secret_hash: &str, now: Timestamp) -> Result<Option<WebSession>> {
        let row = sqlx::query(select_sessions!("AND s.secret_hash = $2"))
            .bind(now.0)
            .bind(secret_hash)
            .fetch_optional(&self.read)
            .await
            .during("find a web session")?;
        row.as_ref().map(read).transpose()
    }

    /// Records that a session is in use.
    pub async fn session_seen(&self, id: Uuid, now: Timestamp) -> Result<()> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE web_sessions SET seen_at = $2 WHERE id = $1 AND seen_at < $2")
            .bind(id.to_string())
            .bind(now.0)
            .execute(&mut *transaction)
            .await
            .during("record the use of a web session")?;
        commit(transaction).await
    }

    /// Active sessions, most recently used first.
    pub async fn sessions(&self, now: Timestamp, limit: u32) -> Result<Vec<WebSession>> {
        let rows = sqlx::query(select_sessions!("ORDER BY s.seen_at DESC, s.id LIMIT $2"))
            .bind(now.0)
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list web sessions")?;
        rows.iter().map(read).collect()
    }

    /// Active sessions with an id in the range, in order of id, with the name of the owner.
    pub(crate) async fn sessions_in_range(&self, range: IdRange, now: Timestamp, limit: u32) -> Result<Vec<NamedId>> {
        let rows = sqlx::query(SESSIONS_IN_RANGE)
            .bind(now.0)
            .bind(range.first.to_string())
            .bind(range.last.to_string())
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("find web sessions by id")?;
        let named = |session: WebSession| NamedId { id: session.id, name: session.name };
        rows.iter().map(|row| read(row).map(named)).collect()
    }

    /// False if there is no such session or it has already ended.
    pub async fn session_end(&self, actor: &Actor, id: Uuid, now: Timestamp) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE web_sessions SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL
             RETURNING COALESCE((SELECT t.name FROM tokens t WHERE t.id = token_id),
                 (SELECT o.name FROM operators o WHERE o.id = operator_id)) AS name",
        )
        .bind(id.to_string())
        .bind(now.0)
        .fetch_optional(&mut *transaction)
        .await
        .during("end a web session")?;
        let Some(row) = row else { return Ok(false) };
        let before = Some(json!({ "name": Columns::of("web_sessions", &row).text("name")? }));
        let entry = Entry { actor, action: "session.end", subject: format!("session/{id}"), before, after: None };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(true)
    }

    /// Deletes sessions that ended before this.
    pub(crate) async fn prune_sessions(&self, before: Timestamp) -> Result<u64> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query(
            "DELETE FROM web_sessions WHERE id IN (SELECT id FROM web_sessions WHERE expires_at <= $1 LIMIT $2)",
        )
        .bind(before.0)
        .bind(PRUNE_ROWS_MAX)
        .execute(&mut *transaction)
        .await
        .during("remove old web sessions")?;
        commit(transaction).await?;
        Ok(removed.rows_affected())
    }
}
