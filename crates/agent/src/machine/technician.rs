//! Maintenance hold: the agent starts no changes, but still polls, observes and reports.

use super::io::{Hold, Level};
use super::statuses::{all_components, document_device, status_error};
use super::{Document, Machine};
use crate::codes::Code;
use margo::status::{State, StatusError};
use margrave_core::plan::{Action, Step};
use margrave_core::time::Timestamp;

impl Machine {
    pub(super) fn hold_changed(&mut self, hold: Option<Hold>, now: Timestamp) {
        if self.technician == hold {
            return;
        }
        match &hold {
            Some(hold) => {
                let message = format!("maintenance hold until {}: {}", hold.until, hold.reason);
                self.log(Level::Warn, Some(Code::HeldByTechnician), None, message);
            }
            None => {
                self.log(Level::Info, None, None, "maintenance hold ended, changes continue");
                let is_ours = |error: &StatusError| error.code == Code::HeldByTechnician.number();
                let reported_ids: Vec<_> = self
                    .statuses
                    .entries()
                    .filter(|(_, entry)| entry.status.error.as_ref().is_some_and(is_ours))
                    .map(|(id, _)| *id)
                    .collect();
                for id in reported_ids {
                    self.statuses.annotate(id, None);
                }
            }
        }
        self.technician = hold;
        self.work.observe_soon(now);
    }

    /// The error in the report of a change that waits for the end of the maintenance hold.
    pub(super) fn hold_error(&self, source: &str) -> Option<StatusError> {
        let Hold { reason, until } = self.technician.as_ref()?;
        let message = format!("waiting: maintenance hold on the device until {until}: {reason}");
        Some(status_error(Code::HeldByTechnician, source, &message))
    }

    /// Reports what waits and why. The reported version does not change before the change starts (ST-05).
    pub(super) fn report_held(&mut self, steps: &[Step], now: Timestamp) {
        // Drift is reported with its differences in `work::drift`.
        for step in steps.iter().filter(|step| step.action != Action::Repair) {
            let id = step.deployment;
            if self.work.is_active(id) {
                continue;
            }
            let document = self.accepted.as_ref().and_then(|goal| goal.documents.get(&id)).cloned();
            let has_status = self.statuses.get(&id).is_some();
            match document {
                Some(Document::Ready(document)) if !has_status => {
                    let error = self.hold_error(&document.metadata.name);
                    let components = all_components(&document, State::Pending, None);
                    let device = document_device(&document);
                    self.set_status(id, device, State::Pending, error, components, step.digest.clone(), now);
                }
                document => {
                    let source = match document {
                        Some(Document::Ready(document)) => document.metadata.name.clone(),
                        _ => id.to_string(),
                    };
                    let error = self.hold_error(&source);
                    self.statuses.annotate(id, error);
                }
            }
        }
    }
}
