//! Which component needs which blob.

use super::Holder;
use margo::{DeploymentId, Digest};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    needs: Vec<Need>,
}

/// The blobs one component needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Need {
    deployment: DeploymentId,
    component: String,
    /// Requested, not yet running.
    next: Option<Slot>,
    running: Option<Slot>,
    /// The previous one, for a rollback.
    previous: Option<Slot>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Slot {
    pub(super) document: Digest,
    pub(super) source: String,
    pub(super) digest: Digest,
}

impl Need {
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        [&self.next, &self.running, &self.previous].into_iter().flatten()
    }
}

impl Index {
    fn need(&mut self, deployment: DeploymentId, component: &str) -> &mut Need {
        let same = |need: &Need| need.deployment == deployment && need.component == component;
        let at = self.needs.iter().position(same).unwrap_or_else(|| {
            let component = component.to_owned();
            self.needs.push(Need { deployment, component, next: None, running: None, previous: None });
            self.needs.len() - 1
        });
        &mut self.needs[at]
    }

    /// What was fetched for this document, or for an earlier document of the component with the same source.
    pub(super) fn find(&self, holder: &Holder<'_>, source: &str) -> Option<Digest> {
        let own = self
            .needs
            .iter()
            .find(|need| need.deployment == holder.deployment && need.component == holder.component)?;
        let is_match = |slot: &&Slot| slot.document == *holder.document && slot.source == source;
        own.slots().find(is_match).map(|slot| slot.digest.clone())
    }

    /// What any component fetched from this source.
    pub(super) fn of_source(&self, source: &str) -> Option<Digest> {
        let slots = self.needs.iter().flat_map(Need::slots);
        slots.into_iter().find(|slot| slot.source == source).map(|slot| slot.digest.clone())
    }

    pub(super) fn note(&mut self, holder: &Holder<'_>, slot: Slot) {
        let need = self.need(holder.deployment, holder.component);
        // Applied again unchanged: nothing to record.
        need.next = (need.running.as_ref() != Some(&slot)).then_some(slot);
    }

    pub(super) fn settle(&mut self, holder: &Holder<'_>) {
        let need = self.need(holder.deployment, holder.component);
        let Some(next) = need.next.take_if(|next| next.document == *holder.document) else { return };
        match need.running.replace(next.clone()) {
            Some(before) if before.document != next.document => need.previous = Some(before),
            _ => {}
        }
    }

    pub(super) fn forget(&mut self, deployment: DeploymentId, component: &str) {
        self.needs.retain(|need| need.deployment != deployment || need.component != component);
    }

    pub(super) fn needs(&self, hex: &str) -> bool {
        self.needs.iter().flat_map(Need::slots).any(|slot| slot.digest.hex() == hex)
    }
}
