//! Values written before there was a key. They stay readable; a server that starts seals those of applications with sensitive
//! questions, once.
//!
//! Every step looks for what is still in the clear, so a stop at any instant only means that the next start goes on. More may be
//! sealed than is sensitive: all values of an application, and everything its clients can fetch.

use super::{Cell, is_sealed};
use crate::deployments::{RevisionName, answers_cell};
use crate::error::During;
use crate::open::{Writing, commit};
use crate::rows::Columns;
use crate::{Result, Store};
use margo::ids::ApplicationId;
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{Executor as _, Row as _};
use std::collections::BTreeSet;

/// Rows read at a time.
const PAGE: i64 = 100;

/// A column with answers of one row each: what to read behind `$1`, at most `$2` of them, and how to replace one.
struct Answers {
    column: &'static str,
    read: &'static str,
    write: &'static str,
}

const CHANGES: Answers = Answers {
    column: "changes.answers",
    read: "SELECT id, answers AS clear FROM changes
           WHERE id > $1 AND application = $3 AND answers <> '{}' AND answers NOT LIKE 'sealed:%' ORDER BY id LIMIT $2",
    write: "UPDATE changes SET answers = $3 WHERE id = $1 AND answers = $2",
};

const DRAFTS: Answers = Answers {
    column: "drafts.body",
    read: "SELECT id, body AS clear FROM drafts
           WHERE id > $1 AND body NOT LIKE 'sealed:%' AND $3 = $3 ORDER BY id LIMIT $2",
    write: "UPDATE drafts SET body = $3 WHERE id = $1 AND body = $2",
};

impl Store {
    /// Whether nothing sensitive of before is left in the clear.
    pub async fn older_is_sealed(&self) -> Result<bool> {
        let row = sqlx::query("SELECT older_sealed_at FROM seal_key WHERE id = 1").fetch_optional(&self.read).await;
        let row = row.during("ask whether older values are sealed")?;
        Ok(row.map(|row| Columns::of("seal_key", &row).time_maybe("older_sealed_at")).transpose()?.flatten().is_some())
    }

    /// Every version that has, had or could have answers.
    pub async fn versions_answered(&self) -> Result<Vec<(ApplicationId, String)>> {
        let rows = sqlx::query(
            "SELECT application, version FROM application_versions
             UNION SELECT application, version FROM deployments
             UNION SELECT d.application, r.version FROM deployment_revisions r JOIN deployments d ON d.id = r.deployment_id
             UNION SELECT application, version FROM changes WHERE answers <> '{}'",
        )
        .fetch_all(&self.read)
        .await
        .during("list the versions that were answered")?;
        let read = |row| {
            let row = Columns::of("deployments", row);
            Ok((row.parsed("application")?, row.text("version")?))
        };
        rows.iter().map(read).collect()
    }

    /// Seals whatever is in the clear of these applications; gives how many values that were.
    pub async fn seal_older(&self, applications: &BTreeSet<ApplicationId>) -> Result<u64> {
        let mut sealed = 0;
        for application in applications {
            sealed += self.seal_older_answers(&CHANGES, application.as_str()).await?;
            sealed += self.seal_older_deployments(application).await?;
        }
        if !applications.is_empty() {
            sealed += self.seal_older_answers(&DRAFTS, "").await?;
            sealed += self.seal_older_candidates().await?;
        }
        Ok(sealed)
    }

    /// Notes that all of it is done; on disk afterwards, with everything before it.
    pub async fn older_sealed(&self, now: Timestamp) -> Result<()> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE seal_key SET older_sealed_at = $1 WHERE id = 1")
            .bind(now.0)
            .execute(&mut *transaction)
            .await
            .during("note that older values are sealed")?;
        commit(transaction).await
    }

    /// Rewrites the database without what was deleted or replaced, which SQLite leaves where it was until it needs the room. All
    /// who write wait meanwhile. For PostgreSQL this is up to whoever runs it. Says whether it was all done: somebody who reads,
    /// such as a backup, keeps the log as it is.
    pub async fn scrub(&self) -> Result<bool> {
        const ATTEMPT: &str = "rewrite the database without what was replaced";
        if self.is_shared() {
            return Ok(true);
        }
        let mut connection = self.writer().await?;
        // The copy would otherwise be made in memory.
        connection.execute("PRAGMA temp_store = FILE").await.during(ATTEMPT)?;
        let rewritten = connection.execute("VACUUM").await.during(ATTEMPT);
        connection.execute("PRAGMA temp_store = MEMORY").await.during(ATTEMPT)?;
        rewritten?;
        let row = connection.fetch_one("PRAGMA wal_checkpoint(TRUNCATE)").await.during(ATTEMPT)?;
        Ok(row.try_get::<i64, _>("busy").during(ATTEMPT)? == 0)
    }

    async fn seal_older_answers(&self, answers: &Answers, application: &str) -> Result<u64> {
        let (mut after, mut sealed) = (String::new(), 0);
        loop {
            let rows = sqlx::query(answers.read).bind(&after).bind(PAGE).bind(application).fetch_all(&self.read).await;
            let rows = rows.during("look for answers in the clear")?;
            let Some(last) = rows.last() else { return Ok(sealed) };
            after = Columns::of("answers", last).text("id")?;
            let mut writing = self.begin_soon().await?;
            for row in &rows {
                let row = Columns::of("answers", row);
                let (id, clear) = (row.text("id")?, row.text("clear")?);
                let text = self.sealing.text(Cell::new(answers.column, &id), &clear)?;
                // Somebody else may have changed it meanwhile, and then it is sealed.
                let written = sqlx::query(answers.write).bind(id).bind(clear).bind(text).execute(&mut *writing).await;
                sealed += written.during("seal answers")?.rows_affected();
            }
            commit(writing).await?;
        }
    }

    async fn seal_older_deployments(&self, application: &ApplicationId) -> Result<u64> {
        let (mut after, mut sealed) = (String::new(), 0);
        loop {
            let rows = sqlx::query(
                "SELECT id, client_id FROM deployments WHERE application = $1 AND id > $2 ORDER BY id LIMIT $3",
            )
            .bind(application.as_str())
            .bind(&after)
            .bind(PAGE)
            .fetch_all(&self.read)
            .await
            .during("look for deployments with answers in the clear")?;
            let Some(last) = rows.last() else { return Ok(sealed) };
            after = Columns::of("deployments", last).text("id")?;
            for row in &rows {
                let row = Columns::of("deployments", row);
                // Each by itself: on PostgreSQL others are at work, and two that each hold much would wait crosswise.
                let mut writing = self.begin_soon().await?;
                sealed += seal_deployment(&mut writing, &row.text("id")?, &row.text("client_id")?).await?;
                commit(writing).await?;
            }
        }
    }

    /// Blobs nobody refers to any more wait for their collection; whose they were cannot be told.
    async fn seal_older_candidates(&self) -> Result<u64> {
        let (mut after, mut sealed) = (String::new(), 0);
        loop {
            let mut writing = self.begin_soon().await?;
            let rows = sqlx::query(
                "SELECT b.digest, b.body FROM blob_candidates c JOIN blobs b ON b.digest = c.digest
                 WHERE b.sealed_with IS NULL AND b.digest > $1 ORDER BY b.digest LIMIT $2",
            )
            .bind(&after)
            .bind(PAGE)
            .fetch_all(&mut *writing)
            .await
            .during("look for blobs in the clear")?;
            let Some(last) = rows.last() else { return Ok(sealed) };
            after = Columns::of("blobs", last).text("digest")?;
            sealed += seal_blobs(&mut writing, &rows).await?;
            commit(writing).await?;
        }
    }
}

/// Everything that holds values of one deployment: itself, its revisions, their documents, the bundles of its client.
async fn seal_deployment(writing: &mut Writing, id: &str, client: &str) -> Result<u64> {
    const ATTEMPT: &str = "seal the values of a deployment";
    let sealing = writing.sealing();
    let mut sealed = 0;
    let row = sqlx::query("SELECT id, answers FROM deployments WHERE id = $1").bind(id);
    let Some(row) = row.fetch_optional(&mut **writing).await.during(ATTEMPT)? else { return Ok(0) };
    let row = Columns::of("deployments", &row);
    let clear = row.text("answers")?;
    if !is_sealed(&clear) {
        let text = sealing.text(answers_cell(&row.parsed("id")?), &clear)?;
        let statement = sqlx::query("UPDATE deployments SET answers = $3 WHERE id = $1 AND answers = $2");
        let written = statement.bind(id).bind(clear).bind(text).execute(&mut **writing).await;
        sealed += written.during(ATTEMPT)?.rows_affected();
    }
    let select = "SELECT deployment_id, revision, answers FROM deployment_revisions WHERE deployment_id = $1 AND answers NOT LIKE 'sealed:%'";
    let rows = sqlx::query(select).bind(id).fetch_all(&mut **writing).await.during(ATTEMPT)?;
    for row in &rows {
        let row = Columns::of("deployment_revisions", row);
        let (revision, clear) = (row.number("revision")?, row.text("answers")?);
        let name = RevisionName(row.parsed("deployment_id")?, revision);
        let text = sealing.text(name.answers_cell(), &clear)?;
        sqlx::query("UPDATE deployment_revisions SET answers = $3 WHERE deployment_id = $1 AND revision = $2")
            .bind(id)
            .bind(revision)
            .bind(text)
            .execute(&mut **writing)
            .await
            .during(ATTEMPT)?;
        sealed += 1;
    }
    let rows = sqlx::query(
        "SELECT digest, body FROM blobs WHERE sealed_with IS NULL AND digest IN
             (SELECT yaml_digest FROM deployment_revisions WHERE deployment_id = $1
              UNION SELECT digest FROM artifacts WHERE client_id = $2 AND deployment_id IN ($1, ''))
         ORDER BY digest",
    )
    .bind(id)
    .bind(client)
    .fetch_all(&mut **writing)
    .await
    .during(ATTEMPT)?;
    Ok(sealed + seal_blobs(writing, &rows).await?)
}

async fn seal_blobs(writing: &mut Writing, rows: &[AnyRow]) -> Result<u64> {
    let sealing = writing.sealing();
    for row in rows {
        let row = Columns::of("blobs", row);
        let digest = row.text("digest")?;
        let (key, body) = sealing.bytes(Cell::new("blobs.body", &digest), &row.bytes("body")?)?;
        sqlx::query("UPDATE blobs SET body = $2, sealed_with = $3 WHERE digest = $1 AND sealed_with IS NULL")
            .bind(digest)
            .bind(body)
            .bind(key)
            .execute(&mut **writing)
            .await
            .during("seal a blob")?;
    }
    Ok(rows.len() as u64)
}
