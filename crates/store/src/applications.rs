//! The catalog.

use crate::audit::{self, Entry};
use crate::blobs;
use crate::error::During;
use crate::open::commit;
use crate::rows::{Columns, to_json};
use crate::{Result, Store, StoreError};
use margo::digest::Digest;
use margo::ids::ApplicationId;
use margrave_core::model::{Actor, ApplicationVersion, ResourceRef};
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

/// The display name of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub application: ApplicationId,
    pub name: String,
}

fn read(row: &AnyRow) -> Result<ApplicationVersion> {
    let row = Columns::of("application_versions", row);
    Ok(ApplicationVersion {
        application: row.parsed("application")?,
        version: row.text("version")?,
        name: row.text("name")?,
        tagline: row.text_maybe("tagline")?,
        vendor: row.text("vendor")?,
        package_digest: row.parsed("package_digest")?,
        description_digest: row.parsed("description_digest")?,
        source: row.text("source")?,
        resources: Vec::new(),
        warnings: row.json("warnings")?,
        imported_at: row.time("imported_at")?,
    })
}

fn read_resource(row: &AnyRow) -> Result<ResourceRef> {
    let row = Columns::of("application_resources", row);
    Ok(ResourceRef {
        kind: row.text("kind")?,
        path: row.text("path")?,
        media_type: row.text("media_type")?,
        digest: row.parsed("digest")?,
    })
}

fn what(application: &ApplicationId, version: &str) -> String {
    format!("version `{version}` of application `{application}`")
}

async fn insert(connection: &mut AnyConnection, version: &ApplicationVersion) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO application_versions (application, version, name, tagline, vendor, package_digest, description_digest,
                                           source, warnings, imported_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (application, version) DO NOTHING",
    )
    .bind(version.application.as_str())
    .bind(&version.version)
    .bind(&version.name)
    .bind(&version.tagline)
    .bind(&version.vendor)
    .bind(version.package_digest.as_str())
    .bind(version.description_digest.as_str())
    .bind(&version.source)
    .bind(to_json(&version.warnings))
    .bind(version.imported_at.0)
    .execute(connection)
    .await
    .during("add an application version")?;
    Ok(inserted.rows_affected() == 1)
}

async fn insert_resources(connection: &mut AnyConnection, version: &ApplicationVersion) -> Result<()> {
    for (position, resource) in version.resources.iter().enumerate() {
        sqlx::query(
            "INSERT INTO application_resources (application, version, position, kind, path, media_type, digest)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(version.application.as_str())
        .bind(&version.version)
        .bind(position as i64)
        .bind(&resource.kind)
        .bind(&resource.path)
        .bind(&resource.media_type)
        .bind(resource.digest.as_str())
        .execute(&mut *connection)
        .await
        .during("add the resources of an application version")?;
    }
    Ok(())
}

impl Store {
    /// Adds a version with its blobs (description and resources). Adding the same package again succeeds and returns
    /// false;
    /// another package under the same version fails with `Exists`.
    pub async fn version_add(
        &self,
        actor: &Actor,
        version: &ApplicationVersion,
        blobs: &[(Digest, Vec<u8>)],
    ) -> Result<bool> {
        let (application, now) = (&version.application, version.imported_at);
        let mut transaction = self.begin().await?;
        if !insert(&mut transaction, version).await? {
            let row =
                sqlx::query("SELECT package_digest FROM application_versions WHERE application = $1 AND version = $2")
                    .bind(application.as_str())
                    .bind(&version.version)
                    .fetch_one(&mut *transaction)
                    .await
                    .during("compare with the stored package")?;
            let known: Digest = Columns::of("application_versions", &row).parsed("package_digest")?;
            return if known == version.package_digest {
                Ok(false)
            } else {
                Err(StoreError::Exists {
                    what: format!("{} with package {known}", what(application, &version.version)),
                })
            };
        }
        insert_resources(&mut transaction, version).await?;
        let blobs = blobs.iter().map(|(digest, body)| (digest.clone(), body.as_slice())).collect();
        blobs::put(&mut transaction, &blobs, now).await?;
        let entry = Entry {
            actor,
            action: "application.import",
            subject: format!("application/{application}/{}", version.version),
            before: None,
            after: Some(json!({ "package": version.package_digest, "source": version.source })),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(true)
    }

    pub async fn version_get(&self, application: &ApplicationId, version: &str) -> Result<Option<ApplicationVersion>> {
        let row = sqlx::query("SELECT * FROM application_versions WHERE application = $1 AND version = $2")
            .bind(application.as_str())
            .bind(version)
            .fetch_optional(&self.read)
            .await
            .during("read an application version")?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(self.with_resources(read(&row)?).await?))
    }

    /// Versions of one application, newest import first.
    pub async fn versions(&self, application: &ApplicationId) -> Result<Vec<ApplicationVersion>> {
        let rows = sqlx::query(
            "SELECT * FROM application_versions WHERE application = $1 ORDER BY imported_at DESC, version DESC",
        )
        .bind(application.as_str())
        .fetch_all(&self.read)
        .await
        .during("list the versions of an application")?;
        let mut versions = Vec::with_capacity(rows.len());
        for row in &rows {
            versions.push(self.with_resources(read(row)?).await?);
        }
        Ok(versions)
    }

    /// One entry per application (its newest import), in order of id, with the number of versions.
    pub async fn applications_page(
        &self,
        after: Option<&ApplicationId>,
        limit: u32,
    ) -> Result<Vec<(ApplicationVersion, u32)>> {
        let rows = sqlx::query(
            "SELECT v.*, n.version_count
             FROM (SELECT application, COUNT(*) AS version_count, MAX(imported_at) AS newest FROM application_versions
                   WHERE application > $1 GROUP BY application ORDER BY application LIMIT $2) n
             JOIN application_versions v ON v.application = n.application AND v.imported_at = n.newest
             ORDER BY v.application, v.version DESC",
        )
        .bind(after.map_or("", ApplicationId::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("list applications")?;
        let mut page: Vec<(ApplicationVersion, u32)> = Vec::with_capacity(rows.len());
        for row in &rows {
            let version = read(row)?;
            // Two versions imported at the same instant: the first represents both.
            if page.last().is_none_or(|(last, _)| last.application != version.application) {
                let count = Columns::of("application_versions", row).unsigned("version_count")?;
                page.push((self.with_resources(version).await?, count as u32));
            }
        }
        Ok(page)
    }

    /// The name of every application, by its newest import; at most `limit`.
    pub async fn application_names(&self, limit: u32) -> Result<Vec<Named>> {
        let rows = sqlx::query(
            "SELECT v.application, v.name FROM application_versions v
             WHERE NOT EXISTS (SELECT 1 FROM application_versions n WHERE n.application = v.application
                               AND (n.imported_at, n.version) > (v.imported_at, v.version))
             ORDER BY v.application LIMIT $1",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("list the names of applications")?;
        let read = |row| {
            let row = Columns::of("application_versions", row);
            Ok(Named { application: row.parsed("application")?, name: row.text("name")? })
        };
        rows.iter().map(read).collect()
    }

    async fn with_resources(&self, mut version: ApplicationVersion) -> Result<ApplicationVersion> {
        let rows = sqlx::query(
            "SELECT * FROM application_resources WHERE application = $1 AND version = $2 ORDER BY position",
        )
        .bind(version.application.as_str())
        .bind(&version.version)
        .fetch_all(&self.read)
        .await
        .during("read the resources of an application version")?;
        version.resources = rows.iter().map(read_resource).collect::<Result<_>>()?;
        Ok(version)
    }

    /// Fails with `InUse` while a deployment uses it.
    pub async fn version_delete(
        &self,
        actor: &Actor,
        application: &ApplicationId,
        version: &str,
        now: Timestamp,
    ) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let used = used_by(&mut transaction, application, version).await?;
        if let Some(by) = used {
            return Err(StoreError::InUse { what: what(application, version), by });
        }
        let Some(package) = delete(&mut transaction, application, version).await? else { return Ok(false) };
        let entry = Entry {
            actor,
            action: "application.delete",
            subject: format!("application/{application}/{version}"),
            before: Some(json!({ "package": package })),
            after: None,
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(true)
    }
}

/// What prevents the deletion of a version.
async fn used_by(connection: &mut AnyConnection, application: &ApplicationId, version: &str) -> Result<Option<String>> {
    let row = sqlx::query(
        "SELECT (SELECT COUNT(*) FROM deployments WHERE application = $1 AND version = $2 AND desired = 'present') AS placed,
                (SELECT COUNT(*) FROM rollouts WHERE application = $1 AND version = $2 AND finished_at IS NULL) AS coming",
    )
    .bind(application.as_str())
    .bind(version)
    .fetch_one(connection)
    .await
    .during("look for deployments of an application version")?;
    let row = Columns::of("deployments", &row);
    Ok(match (row.unsigned("placed")?, row.unsigned("coming")?) {
        (0, 0) => None,
        (0, coming) => Some(count(coming, "unfinished rollout")),
        (placed, _) => Some(count(placed, "deployment")),
    })
}

fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Deletes the rows and returns the package digest; the next pruning removes the blobs.
async fn delete(connection: &mut AnyConnection, application: &ApplicationId, version: &str) -> Result<Option<String>> {
    let resources =
        sqlx::query("DELETE FROM application_resources WHERE application = $1 AND version = $2 RETURNING digest")
            .bind(application.as_str())
            .bind(version)
            .fetch_all(&mut *connection)
            .await
            .during("delete the resources of an application version")?;
    let row = sqlx::query(
        "DELETE FROM application_versions WHERE application = $1 AND version = $2
         RETURNING package_digest, description_digest",
    )
    .bind(application.as_str())
    .bind(version)
    .fetch_optional(&mut *connection)
    .await
    .during("delete an application version")?;
    let Some(row) = row else { return Ok(None) };
    let row = Columns::of("application_versions", &row);
    blobs::dereferenced(connection, &row.text("description_digest")?).await?;
    for resource in &resources {
        blobs::dereferenced(connection, &Columns::of("application_resources", resource).text("digest")?).await?;
    }
    Ok(Some(row.text("package_digest")?))
}
