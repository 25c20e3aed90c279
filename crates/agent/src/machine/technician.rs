//! A technician at the device stops changes for a while: nothing is begun, everything is still polled, seen and told.

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
                let message = format!("a technician holds changes until {}: {}", hold.until, hold.reason);
                self.log(Level::Warn, Some(Code::HeldByTechnician), None, message);
            }
            None => {
                self.log(Level::Info, None, None, "changes go on: the technician's hold is over");
                let is_ours = |error: &StatusError| error.code == Code::HeldByTechnician.number();
                let told: Vec<_> = self
                    .statuses
                    .entries()
                    .filter(|(_, entry)| entry.status.error.as_ref().is_some_and(is_ours))
                    .map(|(id, _)| *id)
                    .collect();
                for id in told {
                    self.statuses.annotate(id, None);
                }
            }
        }
        self.technician = hold;
        self.work.observe_soon(now);
    }

    /// What a report says about a change that waits for a technician.
    pub(super) fn hold_error(&self, source: &str) -> Option<StatusError> {
        let Hold { reason, until } = self.technician.as_ref()?;
        let message = format!("waits: a technician holds changes on the device until {until}: {reason}");
        Some(status_error(Code::HeldByTechnician, source, &message))
    }

    /// The manager sees what waits and why. The version told does not move before a change is begun (ST-05).
    pub(super) fn tell_held(&mut self, steps: &[Step], now: Timestamp) {
        // Drift is told as what differs, where the machine looks at it.
        for step in steps.iter().filter(|step| step.action != Action::Repair) {
            let id = step.deployment;
            if self.work.is_active(id) {
                continue;
            }
            let document = self.accepted.as_ref().and_then(|goal| goal.documents.get(&id)).cloned();
            let told = self.statuses.get(&id).is_some();
            match document {
                Some(Document::Ready(document)) if !told => {
                    let error = self.hold_error(&document.metadata.name);
                    let components = all_components(&document, State::Pending, None);
                    let device = document_device(&document);
                    self.tell(id, device, State::Pending, error, components, step.digest.clone(), now);
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
