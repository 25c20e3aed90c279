//! Device identities (clients): pending, accepted, decommissioned.

use crate::app::clients;
use crate::app::error::AppError;
use crate::app::sorting::Order;
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::devices::client_state;
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::{Params, device_link, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use http::StatusCode;
use margrave_api::clients::{Client, ClientState, CreateClient};

#[derive(Template)]
#[template(path = "settings/identities.html", blocks = ["live", "nav"])]
struct ClientsPage {
    shell: Shell,
    tab: &'static str,
    heads: Heads,
    /// The list is still being sorted.
    in_progress: bool,
    clients: Vec<Row>,
    text: String,
    state: String,
    /// The number of results, by state.
    found: String,
    next: Option<String>,
    first: Option<String>,
    /// The form for pre-approval, and why it failed.
    typed: Typed,
    wrong: Option<String>,
}
pages!(ClientsPage);

struct Row {
    client: Client,
    state: Markup,
    accepted: bool,
    waiting: bool,
    /// Its device, if it has reported one.
    link: Option<String>,
}

#[derive(Default)]
struct Typed {
    id: String,
    comment: String,
}

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let page = page(&visit, &params, Typed::default(), None).await?;
    visit.show(&page)
}

async fn page(visit: &Visit, params: &Params, typed: Typed, wrong: Option<String>) -> Result<ClientsPage, UiError> {
    let (word, text) = (params.text("state"), params.text("q"));
    let requested = ClientState::ALL.into_iter().find(|state| state.as_str() == word);
    let order = Order::of_page(&params.text("sort"));
    let sort = order.sort.map(|sort| sort.to_string()).unwrap_or_default();
    let page = clients::search_in_order(&visit.state, requested, params.get("q"), order, &params.paging()).await?;
    let counts = clients::counted(&visit.state, params.get("q")).await?;
    let devices = clients::first_devices(&visit.state, &page.items).await?;
    let at = |after: &str| {
        link("/settings/identities", &[("q", &text), ("state", &word), ("sort", &sort), ("after", after)])
    };
    let rows = page.items.into_iter().map(|client| Row {
        state: client_state(client.state),
        accepted: client.state == ClientState::Accepted,
        waiting: client.state == ClientState::Pending,
        link: devices.get(&client.id).map(|device| device_link(&client.id, device)),
        client,
    });
    Ok(ClientsPage {
        shell: visit.shell(Section::Settings, "Device identities - Settings").await?,
        tab: "clients",
        heads: Heads::new("/settings/identities", &[("q", &text), ("state", &word)], &sort),
        in_progress: page.in_progress,
        clients: rows.collect(),
        next: page.next.map(|next| at(&next)),
        first: params.get("after").map(|_| at("")),
        found: found(requested, |state| counts.get(state.as_str()).copied().unwrap_or_default()),
        state: word.clone(),
        text: text.clone(),
        typed,
        wrong,
    })
}

/// `12 device identities: 2 pending approval, 9 accepted, 1 decommissioned`.
fn found(requested: Option<ClientState>, count: impl Fn(ClientState) -> u64) -> String {
    let name = |state: ClientState| match state {
        ClientState::Pending => "pending approval",
        ClientState::Accepted => "accepted",
        ClientState::Rejected => "rejected",
        ClientState::Decommissioned => "decommissioned",
    };
    if let Some(state) = requested {
        return format!("{} {}", words::count(count(state), "device identity"), name(state));
    }
    let all = ClientState::ALL;
    let total = all.into_iter().map(&count).sum();
    let parts: Vec<String> = all
        .into_iter()
        .filter(|state| count(*state) > 0)
        .map(|state| format!("{} {}", words::thousands(count(state)), name(state)))
        .collect();
    format!("{}: {}", words::count(total, "device identity"), parts.join(", "))
}

/// Approves a client by its id, also before its first request.
pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let id = posted.form.text("id").to_owned();
    let body =
        CreateClient { id: id.clone(), state: Some(ClientState::Accepted), note: None, comment: posted.comment() };
    let wrong = match posted.once(clients::create(posted.state(), posted.caller(), body)).await {
        Ok(_) => return Ok(go("/settings/identities", Some(("approved", &format!("Device identity {id} approved."))))),
        Err(AppError::Refused { errors, detail, .. }) => match clients::get(posted.state(), &id).await {
            Ok(known) if matches!(known.state, ClientState::Rejected | ClientState::Decommissioned) => {
                let state = known.state.as_str();
                format!("Device identity `{id}` is {state}. To approve it, find it in the list above.")
            }
            Ok(_) => format!("Device identity `{id}` is already approved."),
            Err(_) => errors.into_iter().map(|error| error.message).next().unwrap_or(detail),
        },
        Err(error) => return Err(error.into()),
    };
    let typed = Typed { comment: posted.form.text("comment").to_owned(), id };
    let page = page(&posted.visit, &Params::default(), typed, Some(wrong)).await?;
    posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_clients_by_state() {
        let counts = |state: ClientState| match state {
            ClientState::Pending | ClientState::Rejected => 0,
            ClientState::Accepted => 1_200,
            ClientState::Decommissioned => 1,
        };
        assert_eq!(found(None, counts), "1,201 device identities: 1,200 accepted, 1 decommissioned");
        assert_eq!(found(Some(ClientState::Pending), counts), "0 device identities pending approval");
    }
}
