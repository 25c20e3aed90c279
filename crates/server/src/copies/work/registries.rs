//! The registries of a copy, each with its connection.

use super::{CopyRequest, Worker, error_text};
use crate::catalog;
use crate::copies::transfer::CopyError;
use margrave_api::registries::RegistryUse;
use margrave_oci::reference::{canonical_host, is_loopback_host};
use margrave_oci::{Connection, Registry};

impl Worker<'_> {
    /// A registry with its own credentials.
    pub(super) async fn registry(&mut self, host: &str) -> Result<&mut Registry, CopyError> {
        if !self.registries.contains_key(host) {
            let source = &self.work.source;
            let (connection, used) = if host == source.reference.host {
                (source.connection.clone(), source.used.clone())
            } else {
                self.further(host).await?
            };
            self.registries.insert(host.to_owned(), Registry::new(host, &connection)?);
            self.job.used(used);
        }
        Ok(self.registries.get_mut(host).expect("it was just put there"))
    }

    /// Connection to another registry than that of the package: by a login for it, or as stored.
    async fn further(&self, host: &str) -> Result<(Connection, RegistryUse), CopyError> {
        let CopyRequest { plain_http, ca } = &self.work.given;
        let credentials = self.work.logins.get(&canonical_host(host)).cloned().flatten();
        let given = Connection { plain_http: *plain_http && is_loopback_host(host), ca: None, credentials };
        let (mut connection, used) = catalog::registry::with_saved(self.state, host, given)
            .await
            .map_err(|error| CopyError::Ours(error_text(error)))?;
        // A given CA applies to all of them, and a stored one to its registry only: here both count.
        if let Some(given) = ca.as_ref().filter(|_| !connection.plain_http) {
            connection.ca = Some(connection.ca.map_or_else(|| given.clone(), |stored| format!("{stored}\n{given}")));
        }
        Ok((connection, used))
    }
}
