//! Devices at once: a label for all of them, or their clients shut out.

use super::{Question, Typed, ask, clients, done, part, told};
use crate::app::devices::KeyText;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::fleet;
use crate::app::paging::Paging;
use crate::app::several::{self, SEVERAL_MAX};
use crate::ui::form::Posted;
use crate::ui::routes::devices::filter::Filter;
use crate::ui::routes::query::{Asked, link};
use crate::ui::visit::{Answer, Section, Visit, go};
use crate::ui::words;
use indexmap::IndexMap;
use margrave_api::clients::ClientState;
use margrave_api::devices::UpdateDevice;
use margrave_core::model::DeviceKey;

const HERE: &str = "/devices/several";

/// Who is meant: what was ticked, or all that match from a place on.
struct Chosen {
    keys: Vec<DeviceKey>,
    /// Behind the last one, where there are more.
    next: String,
    matching: u64,
}

async fn chosen(visit: &Visit, asked: &Asked, filter: &Filter) -> AppResult<Chosen> {
    if asked.get("all").is_none() {
        let keys = several::keys(asked.all("device"))?;
        return Ok(Chosen { matching: keys.len() as u64, keys, next: String::new() });
    }
    let search = filter.search();
    let paging = Paging { limit: u32::try_from(SEVERAL_MAX).ok(), after: asked.get("after") };
    let page = fleet::list(&visit.state, &search, &paging).await?;
    let counts = fleet::counted(&visit.state, &search).await?;
    let matching = match search.state {
        Some(one) => counts.get(&one).copied().unwrap_or_default(),
        None => counts.values().sum(),
    };
    let texts = page.items.iter().map(|one| format!("{}/{}", one.device.client, one.device.device));
    let texts: Vec<String> = texts.collect();
    Ok(Chosen { keys: several::keys(texts.iter().map(String::as_str))?, next: page.next.unwrap_or_default(), matching })
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let filter = Filter::of(|name| asked.text(name));
    let back = filter.link("/devices", "");
    let chosen = chosen(&visit, &asked, &filter).await?;
    if chosen.keys.is_empty() {
        return Ok(go(&back, Some("Nothing was chosen: tick devices, or all that match.")));
    }
    let mut fields = kept(&filter, &chosen.next);
    let text = if chosen.next.is_empty() { Vec::new() } else { vec![part(chosen.keys.len(), chosen.matching)] };
    let question = if asked.text("do") == "retire" {
        let mut ids: Vec<_> = chosen.keys.iter().map(|key| key.client.clone()).collect();
        ids.dedup();
        fields.push(("do", "retire".to_owned()));
        let question = clients::question(&visit, &ids, ClientState::Retired, text).await?;
        Question { action: HERE, fields: [fields, question.fields].concat(), back, ..question }
    } else {
        let typed = Typed { name: asked.text("name"), value: asked.text("value"), gone: asked.get("gone").is_some() };
        fields.push(("do", "label".to_owned()));
        labelled(&chosen.keys, fields, text, typed, back)
    };
    ask(&visit, Section::Devices, question).await
}

/// The filter, to come back to and to go on with.
fn kept(filter: &Filter, next: &str) -> Vec<(&'static str, String)> {
    let mut fields: Vec<_> = filter.members().into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    fields.push(("after", next.to_owned()));
    fields.retain(|(_, value)| !value.is_empty());
    fields
}

fn labelled(
    keys: &[DeviceKey],
    mut fields: Vec<(&'static str, String)>,
    mut text: Vec<String>,
    typed: Typed,
    back: String,
) -> Question {
    let devices = words::count(keys.len() as u64, "device");
    fields.extend(keys.iter().map(|key| ("device", KeyText(key.clone()).to_string())));
    text.insert(0, "Other labels of these devices stay as they are. Groups that ask for the label have other members from then on; what is deployed stays.".to_owned());
    Question {
        title: format!("Label {devices}"),
        text,
        touches: format!("This touches {devices}."),
        action: HERE,
        fields,
        names: keys.iter().map(|key| key.device.to_string()).collect(),
        label: Some(typed),
        button: format!("Label {devices}"),
        back,
        ..Question::default()
    }
}

pub(in crate::ui) async fn act(posted: Posted) -> Answer {
    let form = &posted.form;
    let filter = Filter::of(|name| form.text(name).to_owned());
    let back = filter.link("/devices", "");
    let again = |more: &[(&str, &str)]| {
        let next = form.given("after")?;
        let mut members: Vec<(&str, &str)> = more.to_vec();
        members.push(("all", "yes"));
        members.extend(filter.members());
        members.push(("after", &next));
        Some(link(HERE, &members))
    };
    if form.text("do") == "retire" {
        let ids = several::ids(form.all("client"))?;
        let (outcome, said) = clients::admit(&posted, &ids, ClientState::Retired).await?;
        return done(&posted, Section::Devices, outcome, said, again(&[("do", "retire")]), back).await;
    }
    let keys = several::keys(form.all("device"))?;
    let typed =
        Typed { name: form.text("name").to_owned(), value: form.text("value").to_owned(), gone: form.has("gone") };
    let value = (!typed.gone).then(|| typed.value.clone());
    let body = UpdateDevice { labels: IndexMap::from([(typed.name.clone(), value)]), reason: posted.reason() };
    match several::label(posted.state(), posted.caller(), &keys, &body).await {
        Ok(outcome) => {
            let what = if typed.gone {
                format!("relieved of the label {}", typed.name)
            } else {
                format!("labelled {}={}", typed.name, typed.value)
            };
            let gone = if typed.gone { "yes" } else { "" };
            let members: [(&str, &str); 4] =
                [("do", "label"), ("name", &typed.name), ("value", &typed.value), ("gone", gone)];
            let said = told(&outcome, "device", &what);
            done(&posted, Section::Devices, outcome, said, again(&members), back).await
        }
        Err(AppError::Refused { code: Code::Invalid, errors, .. }) => {
            let place = |message: &str| if message.starts_with("a value") { "label-value" } else { "label-name" };
            let wrong = errors.iter().map(|one| (place(&one.message), words::capital(&one.message))).collect();
            let mut fields = kept(&filter, form.text("after"));
            fields.push(("do", "label".to_owned()));
            let question = labelled(&keys, fields, Vec::new(), typed, back);
            let question = Question { wrong, reason: form.text("reason").to_owned(), ..question };
            ask(&posted.visit, Section::Devices, question).await
        }
        Err(error) => Err(error.into()),
    }
}
