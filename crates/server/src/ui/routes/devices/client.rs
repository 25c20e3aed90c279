//! Approving, rejecting and decommissioning a client.

use crate::app::clients;
use crate::app::error::{AppError, Code};
use crate::app::paging::Paging;
use crate::app::{deployments, fleet};
use crate::ui::confirm::{Confirmation, confirm as ask_for};
use crate::ui::form::Posted;
use crate::ui::routes::query::{Params, device_link};
use crate::ui::visit::{PageResult, Section, Visit, go};
use crate::ui::words;
use axum::extract::Path;
use margrave_api::clients::{ClientState, UpdateClient};

/// The largest exact count; larger counts are shown as "at least".
const COUNTED_MAX: u32 = 1000;
const CLIENTS: &str = "/settings/identities";

/// A possibly incomplete count.
pub(super) struct PartialCount {
    pub(super) number: u64,
    /// There are more than counted.
    pub(super) more: bool,
}

impl PartialCount {
    pub(super) fn words(&self, noun: &str) -> String {
        let counted = words::count(self.number, noun);
        if self.more { format!("at least {counted}") } else { counted }
    }

    /// For a confirmation: the exact number; otherwise adds a sentence.
    pub(super) fn touched(&self, text: &mut Vec<String>) -> Option<u64> {
        if self.more {
            text.push(format!("Affects {}.", self.words("device")));
            return None;
        }
        Some(self.number)
    }
}

/// The devices of a client that match a predicate.
pub(super) async fn count_devices_where(
    visit: &Visit,
    client: &str,
    is_selected: impl Fn(&str) -> bool,
) -> Result<PartialCount, AppError> {
    let page = fleet::family(&visit.state, client, &Paging { limit: Some(COUNTED_MAX), after: None }).await?;
    let number = page.items.iter().filter(|one| is_selected(&one.device.device)).count() as u64;
    Ok(PartialCount { number, more: page.next.is_some() })
}

pub(in crate::ui) async fn confirm(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let state = &visit.state;
    let client = clients::get(state, &id).await?;
    let mut devices = count_devices_where(&visit, &id, |_| true).await?;
    // Counts the device itself, even if it has not reported yet.
    devices.number = devices.number.max(1);
    let here = fleet::get(state, &id, &id).await.is_ok();
    let back = if here { device_link(&id, &id) } else { CLIENTS.to_owned() };
    let (action, revision) = (format!("/clients/{id}"), client.revision.to_string());
    let confirmation = match params.get("ask").as_deref() {
        Some("accept") => {
            let mut text =
                vec!["From now on, it can fetch the deployments of its devices and report their status.".to_owned()];
            Confirmation {
                title: format!("Approve device identity {id}?"),
                devices: devices.touched(&mut text),
                text,
                action,
                fields: vec![("state", "accepted".to_owned()), ("revision", revision)],
                verb: "approve",
        button: "Approve this device".to_owned(),
                danger: false,
                back,
            }
        }
        Some("reject") => Confirmation {
            title: format!("Reject device identity {id}?"),
            text: vec![
                "Its identity is valid, but the server rejects its requests and it gets no deployments. It stays rejected however often it connects; you can approve it later.".to_owned(),
            ],
            devices: Some(devices.number),
            action,
            fields: vec![("state", "rejected".to_owned()), ("revision", revision)],
            verb: "reject",
        button: "Reject this device".to_owned(),
            danger: true,
            back,
        },
        _ => {
            let query = deployments::Query { client: Some(id.clone()), ..deployments::Query::default() };
            let page = deployments::list(state, &query, &Paging { limit: Some(COUNTED_MAX), after: None }).await?;
            let running = PartialCount { number: page.items.len() as u64, more: page.next.is_some() };
            let mut text = vec![
                "The server rejects its requests from now on, and its enrollment tokens are revoked. Workloads on its devices keep running but get no updates."
                    .to_owned(),
            ];
            text.push(match (running.number, running.more) {
                (0, _) => "It has no deployments.".to_owned(),
                (1, false) => "1 deployment stays unchanged.".to_owned(),
                _ => format!("{} stay unchanged.", words::capital(&running.words("deployment"))),
            });
            Confirmation {
                title: format!("Decommission device identity {id}?"),
                devices: devices.touched(&mut text),
                text,
                action,
                fields: vec![("state", "decommissioned".to_owned()), ("revision", revision)],
                verb: "decommission",
        button: "Decommission this device".to_owned(),
                danger: true,
                back,
            }
        }
    };
    ask_for(&visit, Section::Devices, confirmation).await
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> PageResult {
    let (requested, done) = match posted.form.text("state") {
        "accepted" => (ClientState::Accepted, "approved"),
        "decommissioned" => (ClientState::Decommissioned, "decommissioned"),
        "rejected" => (ClientState::Rejected, "rejected"),
        _ => {
            return Err(
                AppError::refused(Code::Invalid, "`state` must be `accepted`, `decommissioned` or `rejected`").into()
            );
        }
    };
    let state = posted.state();
    let body = UpdateClient { state: requested, comment: posted.comment() };
    let (code, notice) = match clients::update(state, posted.caller(), &id, body, posted.form.number("revision")).await
    {
        Ok(_) => (done, format!("Device identity {id} {done}.")),
        Err(AppError::Refused { code: Code::Conflict, .. }) => {
            let now = clients::get(state, &id).await?.state;
            if now == requested {
                let done = done_by(now);
                ("unchanged", format!("Another operator {done} {id} in the meantime. Nothing was changed now."))
            } else {
                let now = done_by(now);
                let notice = format!(
                    "Device identity {id} was not {done}: another operator {now} it in the meantime. Repeat the action if it is still needed."
                );
                ("conflict", notice)
            }
        }
        Err(error) => return Err(error.into()),
    };
    // Without a device of the same name, the list of clients shows the client.
    let here = fleet::get(state, &id, &id).await.is_ok();
    Ok(go(&if here { device_link(&id, &id) } else { CLIENTS.to_owned() }, Some((code, &notice))))
}

/// What another operator did to a client that is in this state now.
fn done_by(state: ClientState) -> &'static str {
    match state {
        ClientState::Accepted => "approved",
        ClientState::Rejected => "rejected",
        ClientState::Pending | ClientState::Decommissioned => "decommissioned",
    }
}
