//! Letting a client in, and shutting it out.

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

/// Counted up to here; a gateway with more says "at least".
const COUNTED_MAX: u32 = 1000;

pub(in crate::ui) async fn ask(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let state = &visit.state;
    let client = clients::get(state, &id).await?;
    let paging = Paging { limit: Some(COUNTED_MAX), after: None };
    let devices = fleet::family(state, &id, &paging).await?.items.len() as u64;
    let query = deployments::Query { client: Some(id.clone()), ..deployments::Query::default() };
    let running = deployments::list(state, &query, &paging).await?.items.len() as u64;
    let action = format!("/clients/{id}");
    let back = device_link(&id, &id);
    let question = match asked.get("ask").as_deref() {
        Some("accept") => Question {
            title: format!("Accept client {id}?"),
            text: vec!["It may fetch from now on what should run on its devices, and report about them.".to_owned()],
            devices: Some(devices.max(1)),
            action,
            fields: vec![("state", "accepted".to_owned()), ("revision", client.revision.to_string())],
            button: "Accept this client".to_owned(),
            danger: false,
            back,
        },
        _ => Question {
            title: format!("Retire client {id}?"),
            text: vec![
                "It is not let in any more, and its invitations end. What runs on its devices goes on running but gets no changes."
                    .to_owned(),
                format!("{} would stay as they are there.", words::capital(&words::count(running, "deployment"))),
            ],
            devices: Some(devices.max(1)),
            action,
            fields: vec![("state", "retired".to_owned()), ("revision", client.revision.to_string())],
            button: "Retire this client".to_owned(),
            danger: true,
            back,
        },
    };
    ask_for(&visit, Section::Devices, question).await
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> Answer {
    let (wanted, said) = match posted.form.text("state") {
        "accepted" => (ClientState::Accepted, format!("Client {id} is accepted.")),
        "retired" => (ClientState::Retired, format!("Client {id} is retired.")),
        _ => return Err(AppError::refused(Code::Invalid, "say whether to accept or to retire the client").into()),
    };
    let body = UpdateClient { state: wanted, reason: posted.reason() };
    clients::update(posted.state(), posted.caller(), &id, body, posted.form.number("revision")).await?;
    // Where there is no device of the same name, the list of clients shows it.
    let here = fleet::get(posted.state(), &id, &id).await.is_ok();
    Ok(go(&if here { device_link(&id, &id) } else { "/settings/clients".to_owned() }, Some(&said)))
}
