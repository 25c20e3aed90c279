//! Clients at once: let in, refused or shut out.

use super::{Question, ask, done, part, told};
use crate::app::clients;
use crate::app::error::AppResult;
use crate::app::paging::Paging;
use crate::app::several::{self, Outcome, SEVERAL_MAX, Standing};
use crate::ui::form::Posted;
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Visit, go};
use crate::ui::words;
use margo::ids::ClientId;
use margrave_api::clients::{ClientState, UpdateClient};

const HERE: &str = "/settings/clients/several";
const LIST: &str = "/settings/clients";

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let (text, word) = (asked.text("q"), asked.text("state"));
    let back = link(LIST, &[("q", &text), ("state", &word)]);
    let mut fields = vec![("do", asked.text("do")), ("q", text), ("state", word.clone())];
    let mut sentences = Vec::new();
    let ids = if asked.get("all").is_some() {
        let wanted = ClientState::ALL.into_iter().find(|state| state.as_str() == word);
        let paging = Paging { limit: u32::try_from(SEVERAL_MAX).ok(), after: asked.get("after") };
        let page = clients::search(&visit.state, wanted, asked.get("q"), &paging).await?;
        if let Some(next) = page.next {
            let counts = clients::counted(&visit.state, asked.get("q")).await?;
            let counted = |(state, count): (&&str, &u64)| (word.is_empty() || word == **state).then_some(*count);
            sentences.push(part(page.items.len(), counts.iter().filter_map(counted).sum()));
            fields.push(("after", next));
        }
        several::ids(page.items.iter().map(|client| client.id.as_str()))?
    } else {
        several::ids(asked.all("client"))?
    };
    if ids.is_empty() {
        return Ok(go(&back, Some("Nothing was chosen: tick clients, or all that match.")));
    }
    let question = question(&visit, &ids, wanted(&asked.text("do")), sentences).await?;
    let question = Question { action: HERE, fields: [fields, question.fields].concat(), back, ..question };
    ask(&visit, Section::Settings, question).await
}

fn wanted(deed: &str) -> ClientState {
    if deed == "accept" { ClientState::Accepted } else { ClientState::Retired }
}

/// Asks about these clients; where the answer goes and what goes with it is for the page to say.
pub(super) async fn question(
    visit: &Visit,
    ids: &[ClientId],
    wanted: ClientState,
    mut text: Vec<String>,
) -> AppResult<Question> {
    let standing = several::standing(&visit.state, ids, wanted).await?;
    let accept = wanted == ClientState::Accepted;
    let changing = ids.len() as u64 - if accept { standing.accepted } else { standing.retired };
    let deed = match (accept, standing.accepted) {
        (true, _) => "Accept",
        (false, 0) if standing.waiting > 0 => "Refuse",
        (false, _) => "Retire",
    };
    let counted = words::count(changing, "client");
    text.insert(
        0,
        if accept {
            "They may fetch from now on what should run on their devices, and report about them.".to_owned()
        } else {
            "They are not let in any more, and their invitations end. What runs on their devices goes on running but gets no changes. Accepting them later is possible.".to_owned()
        },
    );
    text.push(told_standing(&standing, accept));
    if !accept && standing.deployments > 0 {
        let stay = if standing.deployments == 1 { "stays as it is" } else { "stay as they are" };
        text.push(format!("{} {stay} there.", words::count(standing.deployments, "deployment")));
    }
    text.retain(|sentence| !sentence.is_empty());
    Ok(Question {
        title: if changing == 0 { "Nothing would change".to_owned() } else { format!("{deed} {counted}?") },
        text,
        touches: match standing.devices {
            0 => "No device is touched.".to_owned(),
            devices => format!("This touches {}.", words::count(devices, "device")),
        },
        fields: ids.iter().map(|id| ("client", id.to_string())).collect(),
        names: ids.iter().map(ToString::to_string).collect(),
        // Where all are so already there is nothing to ask.
        button: if changing == 0 { String::new() } else { format!("{deed} {counted}") },
        danger: !accept,
        ..Question::default()
    })
}

/// How those chosen stand, where they do not all stand alike.
fn told_standing(standing: &Standing, accept: bool) -> String {
    let already = |yes: bool| if yes { " already" } else { "" };
    let kinds = [
        (standing.waiting, "waiting to be accepted".to_owned()),
        (standing.accepted, format!("accepted{}", already(accept))),
        (standing.retired, format!("retired{}", already(!accept))),
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{} {word}", words::thousands(count)))
        .collect();
    let usual = standing.waiting > 0 || (!accept && standing.accepted > 0);
    if parts.len() < 2 && usual { String::new() } else { format!("Of those chosen: {}.", parts.join(", ")) }
}

/// Does it, and says what came of it.
pub(super) async fn admit(posted: &Posted, ids: &[ClientId], wanted: ClientState) -> AppResult<(Outcome, String)> {
    let body = UpdateClient { state: wanted, reason: posted.reason() };
    let outcome = several::admit(posted.state(), posted.caller(), ids, &body).await?;
    let said = told(&outcome, "client", if wanted == ClientState::Accepted { "accepted" } else { "retired" });
    Ok((outcome, said))
}

pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let form = &posted.form;
    let ids = several::ids(form.all("client"))?;
    let (deed, text, word) = (form.text("do"), form.text("q"), form.text("state"));
    let (outcome, said) = admit(&posted, &ids, wanted(deed)).await?;
    let next = form
        .given("after")
        .map(|after| link(HERE, &[("do", deed), ("all", "yes"), ("q", text), ("state", word), ("after", &after)]));
    // Those that waited do so no more: the list of all shows what became of them.
    let back = link(LIST, &[("q", text)]);
    done(&posted, Section::Settings, outcome, said, next, back).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stands_otherwise_is_told_before_anything_is_done() {
        let standing = Standing { waiting: 3, retired: 1, ..Standing::default() };
        assert_eq!(told_standing(&standing, true), "Of those chosen: 3 waiting to be accepted, 1 retired.");
        assert_eq!(told_standing(&Standing { waiting: 3, ..Standing::default() }, true), "");
        let standing = Standing { accepted: 2, ..Standing::default() };
        assert_eq!(told_standing(&standing, true), "Of those chosen: 2 accepted already.");
        assert_eq!(told_standing(&standing, false), "");
    }
}
