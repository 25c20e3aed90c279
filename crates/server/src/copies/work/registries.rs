//! The registries a copy asks, each as it wants to be asked.

use super::{Given, Worker, told};
use crate::catalog;
use crate::copies::transfer::Trouble;
use margrave_api::registries::RegistryUse;
use margrave_oci::reference::{canonical_host, is_loopback_host};
use margrave_oci::{Connection, Registry};

impl Worker<'_> {
    /// A registry, with the credentials that are for it and for no other.
    pub(super) async fn registry(&mut self, host: &str) -> Result<&mut Registry, Trouble> {
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

    /// How another registry than that of the package is asked: by a login for it, else as it is kept.
    async fn further(&self, host: &str) -> Result<(Connection, RegistryUse), Trouble> {
        let Given { plain_http, ca } = &self.work.given;
        let credentials = self.work.logins.get(&canonical_host(host)).cloned().flatten();
        let given = Connection { plain_http: *plain_http && is_loopback_host(host), ca: None, credentials };
        let (mut connection, used) =
            catalog::registry::with_saved(self.state, host, given).await.map_err(|error| Trouble::Ours(told(error)))?;
        // A CA that is given is for all of them, and one that is kept for its registry alone: here both count.
        if let Some(given) = ca.as_ref().filter(|_| !connection.plain_http) {
            connection.ca = Some(connection.ca.map_or_else(|| given.clone(), |kept| format!("{kept}\n{given}")));
        }
        Ok((connection, used))
    }
}
