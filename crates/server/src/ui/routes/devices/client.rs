//! Letting a client in, refusing one that waits, and shutting one out.

use crate::app::clients;
use crate::app::error::{AppError, Code};
use crate::app::paging::Paging;
use crate::app::{deployments, fleet};
use crate::ui::ask::{Question, ask as ask_for};
use crate::ui::form::Posted;
use crate::ui::routes::query::{Asked, device_link};
use crate::ui::visit::{Answer, Section, Visit, go};
use crate::ui::words;
use axum::extract::Path;
use margrave_api::clients::{ClientState, UpdateClient};

/// Counted up to here; what has more says "at least".
const COUNTED_MAX: u32 = 1000;
const CLIENTS: &str = "/settings/clients";

/// How many there are, as far as they were counted.
pub(super) struct Counted {
    pub(super) number: u64,
    /// There are others.
    pub(super) more: bool,
}

impl Counted {
    pub(super) fn words(&self, noun: &str) -> String {
        let counted = words::count(self.number, noun);
        if self.more { format!("at least {counted}") } else { counted }
    }

    /// For a question: the number where it is known, else a sentence of its own.
    pub(super) fn touched(&self, text: &mut Vec<String>) -> Option<u64> {
        if self.more {
            text.push(format!("This touches {}.", self.words("device")));
            return None;
        }
        Some(self.number)
    }
}

/// The devices of a client for which something holds.
pub(super) async fn devices_where(
    visit: &Visit,
    client: &str,
    holds: impl Fn(&str) -> bool,
) -> Result<Counted, AppError> {
    let page = fleet::family(&visit.state, client, &Paging { limit: Some(COUNTED_MAX), after: None }).await?;
    let number = page.items.iter().filter(|one| holds(&one.device.device)).count() as u64;
    Ok(Counted { number, more: page.next.is_some() })
}

pub(in crate::ui) async fn ask(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let state = &visit.state;
    let client = clients::get(state, &id).await?;
    let mut devices = devices_where(&visit, &id, |_| true).await?;
    // The device that asks, though it has not said anything of itself yet.
    devices.number = devices.number.max(1);
    let here = fleet::get(state, &id, &id).await.is_ok();
    let back = if here { device_link(&id, &id) } else { CLIENTS.to_owned() };
    let (action, revision) = (format!("/clients/{id}"), client.revision.to_string());
    let question = match asked.get("ask").as_deref() {
        Some("accept") => {
            let mut text =
                vec!["It may fetch from now on what should run on its devices, and report about them.".to_owned()];
            Question {
                title: format!("Accept client {id}?"),
                devices: devices.touched(&mut text),
                text,
                action,
                fields: vec![("state", "accepted".to_owned()), ("revision", revision)],
                button: "Accept this client".to_owned(),
                danger: false,
                back,
            }
        }
        Some("refuse") => Question {
            title: format!("Refuse client {id}?"),
            text: vec![
                "It has a valid identity, but is not let in and gets nothing. It counts as retired from now on, however often it asks; accepting it later is possible.".to_owned(),
            ],
            devices: Some(devices.number),
            action,
            fields: vec![("state", "refused".to_owned()), ("revision", revision)],
            button: "Refuse this client".to_owned(),
            danger: true,
            back,
        },
        _ => {
            let query = deployments::Query { client: Some(id.clone()), ..deployments::Query::default() };
            let page = deployments::list(state, &query, &Paging { limit: Some(COUNTED_MAX), after: None }).await?;
            let running = Counted { number: page.items.len() as u64, more: page.next.is_some() };
            let mut text = vec![
                "It is not let in any more, and its invitations end. What runs on its devices goes on running but gets no changes."
                    .to_owned(),
            ];
            text.push(match (running.number, running.more) {
                (0, _) => "Nothing is deployed there.".to_owned(),
                (1, false) => "1 deployment stays as it is there.".to_owned(),
                _ => format!("{} stay as they are there.", words::capital(&running.words("deployment"))),
            });
            Question {
                title: format!("Retire client {id}?"),
                devices: devices.touched(&mut text),
                text,
                action,
                fields: vec![("state", "retired".to_owned()), ("revision", revision)],
                button: "Retire this client".to_owned(),
                danger: true,
                back,
            }
        }
    };
    ask_for(&visit, Section::Devices, question).await
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> Answer {
    let (wanted, done) = match posted.form.text("state") {
        "accepted" => (ClientState::Accepted, "accepted"),
        "retired" => (ClientState::Retired, "retired"),
        "refused" => (ClientState::Retired, "refused"),
        _ => return Err(AppError::refused(Code::Invalid, "say whether to accept or to retire the client").into()),
    };
    let state = posted.state();
    let body = UpdateClient { state: wanted, reason: posted.reason() };
    let said = match clients::update(state, posted.caller(), &id, body, posted.form.number("revision")).await {
        Ok(_) => format!("Client {id} is {done}."),
        Err(AppError::Refused { code: Code::Conflict, .. }) => {
            let now = clients::get(state, &id).await?.state;
            if now == wanted {
                let done = if now == ClientState::Accepted { "accepted" } else { "retired" };
                format!("Somebody else {done} client {id} in the meantime. Nothing was changed now.")
            } else {
                let now = if now == ClientState::Accepted { "accepted" } else { "retired" };
                format!(
                    "Client {id} was not {done}: somebody else {now} it in the meantime. Do it again if it should be so."
                )
            }
        }
        Err(error) => return Err(error.into()),
    };
    // Where there is no device of the same name, the list of clients shows it.
    let here = fleet::get(state, &id, &id).await.is_ok();
    Ok(go(&if here { device_link(&id, &id) } else { CLIENTS.to_owned() }, Some(&said)))
}
