//! Bulk approval, rejection and decommissioning of clients.

use super::{Confirmation, confirm, done, part, result_notice};
use crate::app::bulk::{self, BULK_MAX, ClientImpact, Outcome};
use crate::app::clients;
use crate::app::error::AppResult;
use crate::app::paging::Paging;
use crate::ui::form::Posted;
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Section, Visit, go};
use crate::ui::words;
use margo::ids::ClientId;
use margrave_api::clients::{ClientState, UpdateClient};

const HERE: &str = "/settings/identities/bulk";
const LIST: &str = "/settings/identities";

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let (text, word) = (params.text("q"), params.text("state"));
    let back = link(LIST, &[("q", &text), ("state", &word)]);
    let mut fields = vec![("do", params.text("do")), ("q", text), ("state", word.clone())];
    let mut sentences = Vec::new();
    let ids = if params.get("all").is_some() {
        let requested = ClientState::ALL.into_iter().find(|state| state.as_str() == word);
        let paging = Paging { limit: u32::try_from(BULK_MAX).ok(), after: params.get("after") };
        let page = clients::search(&visit.state, requested, params.get("q"), &paging).await?;
        if let Some(next) = page.next {
            let counts = clients::counted(&visit.state, params.get("q")).await?;
            let counted = |(state, count): (&&str, &u64)| (word.is_empty() || word == **state).then_some(*count);
            sentences.push(part(page.items.len(), counts.iter().filter_map(counted).sum()));
            fields.push(("after", next));
        }
        bulk::ids(page.items.iter().map(|client| client.id.as_str()))?
    } else {
        bulk::ids(params.all("client"))?
    };
    if ids.is_empty() {
        return Ok(go(
            &back,
            Some(("nothing-selected", "Nothing selected. Select device identities, or all matching.")),
        ));
    }
    let confirmation = confirmation(&visit, &ids, requested(&params.text("do")), sentences).await?;
    let confirmation =
        Confirmation { action: HERE, fields: [fields, confirmation.fields].concat(), back, ..confirmation };
    confirm(&visit, Section::Settings, confirmation).await
}

fn requested(deed: &str) -> ClientState {
    if deed == "accept" { ClientState::Accepted } else { ClientState::Decommissioned }
}

/// The confirmation for these clients; the caller adds the address and the hidden fields.
pub(super) async fn confirmation(
    visit: &Visit,
    ids: &[ClientId],
    requested: ClientState,
    mut text: Vec<String>,
) -> AppResult<Confirmation> {
    let standing = bulk::standing(&visit.state, ids, requested).await?;
    let accept = requested == ClientState::Accepted;
    let excluded = standing.rejected + standing.decommissioned;
    let changing = ids.len() as u64 - if accept { standing.accepted } else { excluded };
    let deed = match (accept, standing.accepted) {
        (true, _) => "Approve",
        (false, 0) if standing.waiting > 0 => "Reject",
        (false, _) => "Decommission",
    };
    let counted = words::count(changing, "device identity");
    text.insert(
        0,
        if accept {
            "From now on, they can fetch the deployments of their devices and report their status.".to_owned()
        } else {
            "The server rejects their requests from now on, and their enrollment tokens are revoked. Workloads on their devices keep running but get no updates. You can approve them again later.".to_owned()
        },
    );
    text.push(current_states(&standing, accept));
    if !accept && standing.deployments > 0 {
        let stay = if standing.deployments == 1 { "stays" } else { "stay" };
        text.push(format!("{} {stay} unchanged.", words::count(standing.deployments, "deployment")));
    }
    text.retain(|sentence| !sentence.is_empty());
    Ok(Confirmation {
        title: if changing == 0 { "Nothing to change".to_owned() } else { format!("{deed} {counted}?") },
        text,
        devices: standing.devices,
        touches: match standing.devices {
            0 => "No device is affected.".to_owned(),
            devices => format!("Affects {}.", words::count(devices, "device")),
        },
        fields: ids.iter().map(|id| ("client", id.to_string())).collect(),
        names: ids.iter().map(ToString::to_string).collect(),
        verb: match deed {
            "Approve" => "approve",
            "Reject" => "reject",
            _ => "decommission",
        },
        // Nothing to confirm if all of them are in this state already.
        button: if changing == 0 { String::new() } else { format!("{deed} {counted}") },
        danger: !accept,
        ..Confirmation::default()
    })
}

/// The current states of the selected clients, if they differ.
fn current_states(standing: &ClientImpact, accept: bool) -> String {
    let already = |yes: bool| if yes { " already" } else { "" };
    let kinds = [
        (standing.waiting, "pending approval".to_owned()),
        (standing.accepted, format!("accepted{}", already(accept))),
        (standing.rejected, format!("rejected{}", already(!accept))),
        (standing.decommissioned, format!("decommissioned{}", already(!accept))),
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{} {word}", words::thousands(count)))
        .collect();
    let usual = standing.waiting > 0 || (!accept && standing.accepted > 0);
    if parts.len() < 2 && usual { String::new() } else { format!("Selected: {}.", parts.join(", ")) }
}

/// Applies the action, and returns the notice for it.
pub(super) async fn admit(
    posted: &Posted,
    ids: &[ClientId],
    requested: ClientState,
) -> AppResult<(Outcome, (&'static str, String))> {
    let body = UpdateClient { state: requested, comment: posted.comment() };
    let outcome = bulk::admit(posted.state(), posted.caller(), ids, &body).await?;
    let notice = result_notice(
        &outcome,
        "",
        "device identity",
        if requested == ClientState::Accepted { " approved" } else { " decommissioned" },
    );
    let code = if requested == ClientState::Accepted { "approved" } else { "decommissioned" };
    Ok((outcome, (code, notice)))
}

pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let form = &posted.form;
    let ids = bulk::ids(form.all("client"))?;
    let (deed, text, word) = (form.text("do"), form.text("q"), form.text("state"));
    let (outcome, notice) = admit(&posted, &ids, requested(deed)).await?;
    let next = form
        .given("after")
        .map(|after| link(HERE, &[("do", deed), ("all", "yes"), ("q", text), ("state", word), ("after", &after)]));
    // They are no longer pending, so go back to the list of all states.
    let back = link(LIST, &[("q", text)]);
    done(&posted, Section::Settings, outcome, notice, next, back).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmation_counts_current_states() {
        let standing = ClientImpact { waiting: 3, decommissioned: 1, ..ClientImpact::default() };
        assert_eq!(current_states(&standing, true), "Selected: 3 pending approval, 1 decommissioned.");
        assert_eq!(current_states(&ClientImpact { waiting: 3, ..ClientImpact::default() }, true), "");
        let standing = ClientImpact { accepted: 2, ..ClientImpact::default() };
        assert_eq!(current_states(&standing, true), "Selected: 2 accepted already.");
        assert_eq!(current_states(&standing, false), "");
    }
}
