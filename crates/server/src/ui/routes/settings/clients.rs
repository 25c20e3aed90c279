//! Clients: who may fetch what should run, who asks to, and who may not.

use crate::app::clients;
use crate::app::error::AppError;
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::devices::client_state;
use crate::ui::routes::query::{Asked, device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use http::StatusCode;
use margrave_api::clients::{Client, ClientState, CreateClient};

#[derive(Template)]
#[template(path = "settings/clients.html", blocks = ["live", "nav"])]
struct ClientsPage {
    shell: Shell,
    tab: &'static str,
    clients: Vec<Row>,
    text: String,
    state: String,
    /// How many are found, and how they stand.
    found: String,
    next: Option<String>,
    first: Option<String>,
    /// Who was to be let in beforehand, and why that was not done.
    typed: Typed,
    wrong: Option<String>,
}
pages!(ClientsPage);

struct Row {
    client: Client,
    state: Markup,
    accepted: bool,
    waiting: bool,
    /// Its device, where it has reported one.
    link: Option<String>,
}

#[derive(Default)]
struct Typed {
    id: String,
    reason: String,
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let page = page(&visit, &asked, Typed::default(), None).await?;
    visit.show(&page)
}

async fn page(visit: &Visit, asked: &Asked, typed: Typed, wrong: Option<String>) -> Result<ClientsPage, UiError> {
    let (word, text) = (asked.text("state"), asked.text("q"));
    let wanted = ClientState::ALL.into_iter().find(|state| state.as_str() == word);
    let page = clients::search(&visit.state, wanted, asked.get("q"), &asked.paging()).await?;
    let counts = clients::counted(&visit.state, asked.get("q")).await?;
    let devices = clients::first_devices(&visit.state, &page.items).await?;
    let at = |after: &str| link("/settings/clients", &[("q", &text), ("state", &word), ("after", after)]);
    let rows = page.items.into_iter().map(|client| Row {
        state: client_state(client.state),
        accepted: client.state == ClientState::Accepted,
        waiting: client.state == ClientState::Pending,
        link: devices.get(&client.id).map(|device| device_link(&client.id, device)),
        client,
    });
    Ok(ClientsPage {
        shell: visit.shell(Section::Settings, "Clients - Settings").await?,
        tab: "clients",
        clients: rows.collect(),
        next: page.next.map(|next| at(&next)),
        first: asked.get("after").map(|_| at("")),
        found: found(wanted, |state| counts.get(state.as_str()).copied().unwrap_or_default()),
        state: word.clone(),
        text: text.clone(),
        typed,
        wrong,
    })
}

/// `12 clients: 2 waiting to be accepted, 9 accepted, 1 retired`.
fn found(wanted: Option<ClientState>, count: impl Fn(ClientState) -> u64) -> String {
    let name = |state: ClientState| match state {
        ClientState::Pending => "waiting to be accepted",
        ClientState::Accepted => "accepted",
        ClientState::Retired => "retired",
    };
    if let Some(state) = wanted {
        return format!("{} {}", words::count(count(state), "client"), name(state));
    }
    let all = [ClientState::Pending, ClientState::Accepted, ClientState::Retired];
    let total = all.into_iter().map(&count).sum();
    let parts: Vec<String> = all
        .into_iter()
        .filter(|state| count(*state) > 0)
        .map(|state| format!("{} {}", words::thousands(count(state)), name(state)))
        .collect();
    format!("{}: {}", words::count(total, "client"), parts.join(", "))
}

/// Accepts a client by its id, also before it has asked.
pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let id = posted.form.text("id").to_owned();
    let body = CreateClient { id: id.clone(), state: Some(ClientState::Accepted), note: None, reason: posted.reason() };
    let wrong = match posted.once(clients::create(posted.state(), posted.caller(), body)).await {
        Ok(_) => return Ok(go("/settings/clients", Some(&format!("Client {id} is accepted.")))),
        Err(AppError::Refused { errors, detail, .. }) => match clients::get(posted.state(), &id).await {
            Ok(known) if known.state == ClientState::Retired => {
                format!("Client `{id}` is retired. Find it in the list and accept it there, if it may come back.")
            }
            Ok(_) => format!("Client `{id}` is accepted already."),
            Err(_) => errors.into_iter().map(|error| error.message).next().unwrap_or(detail),
        },
        Err(error) => return Err(error.into()),
    };
    let typed = Typed { reason: posted.form.text("reason").to_owned(), id };
    let page = page(&posted.visit, &Asked::default(), typed, Some(wrong)).await?;
    posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_as_they_stand() {
        let counts = |state: ClientState| match state {
            ClientState::Pending => 0,
            ClientState::Accepted => 1_200,
            ClientState::Retired => 1,
        };
        assert_eq!(found(None, counts), "1,201 clients: 1,200 accepted, 1 retired");
        assert_eq!(found(Some(ClientState::Pending), counts), "0 clients waiting to be accepted");
    }
}
