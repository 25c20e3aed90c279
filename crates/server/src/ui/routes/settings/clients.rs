//! Clients: who may fetch what should run, and who may not.

use crate::app::clients;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::query::{Asked, device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use askama::Template;
use margrave_api::clients::{Client, ClientState};

#[derive(Template)]
#[template(path = "settings/clients.html", blocks = ["live", "nav"])]
struct ClientsPage {
    shell: Shell,
    tab: &'static str,
    clients: Vec<Row>,
    state: String,
    next: Option<String>,
    first: Option<String>,
}
pages!(ClientsPage);

struct Row {
    client: Client,
    state: Markup,
    accepted: bool,
    link: String,
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let word = asked.text("state");
    let wanted = match word.as_str() {
        "pending" => Some(ClientState::Pending),
        "accepted" => Some(ClientState::Accepted),
        "retired" => Some(ClientState::Retired),
        _ => None,
    };
    let page = clients::list_in(&visit.state, wanted, &asked.paging()).await?;
    let at = |after: &str| link("/settings/clients", &[("state", &word), ("after", after)]);
    let rows = page.items.into_iter().map(|client| {
        let (look, tone, symbol) = match client.state {
            ClientState::Pending => ("Waiting to be accepted", "warn", "clock"),
            ClientState::Accepted => ("Accepted", "good", "check"),
            ClientState::Retired => ("Retired", "mute", "lock"),
        };
        Row {
            state: markup::state(tone, symbol, look),
            accepted: client.state == ClientState::Accepted,
            link: device_link(&client.id, &client.id),
            client,
        }
    });
    let page = ClientsPage {
        shell: visit.shell(Section::Settings, "Clients - Settings").await?,
        tab: "clients",
        clients: rows.collect(),
        next: page.next.map(|next| at(&next)),
        first: asked.get("after").map(|_| at("")),
        state: word.clone(),
    };
    visit.show(&page)
}
