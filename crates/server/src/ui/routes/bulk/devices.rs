//! Bulk actions on devices: set or remove a label, or decommission their clients.

use super::{Confirmation, Typed, clients, confirm, done, part, result_notice};
use crate::app::bulk::{self, BULK_MAX};
use crate::app::devices::KeyText;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::fleet;
use crate::app::paging::Paging;
use crate::app::sorting::Order;
use crate::ui::form::Posted;
use crate::ui::routes::devices::filter::Filter;
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Section, Visit, go};
use crate::ui::words;
use indexmap::IndexMap;
use margrave_api::clients::ClientState;
use margrave_api::devices::UpdateDevice;
use margrave_core::model::DeviceKey;

const HERE: &str = "/devices/bulk";

/// The selection: selected devices, or all that match from a cursor on.
struct Selection {
    keys: Vec<DeviceKey>,
    /// The cursor after the last one, if there are more.
    next: String,
    matching: u64,
}

async fn selection(visit: &Visit, params: &Params, filter: &Filter) -> AppResult<Selection> {
    if params.get("all").is_none() {
        let keys = bulk::keys(params.all("device"))?;
        return Ok(Selection { matching: keys.len() as u64, keys, next: String::new() });
    }
    let search = filter.search();
    let paging = Paging { limit: u32::try_from(BULK_MAX).ok(), after: params.get("after") };
    let page = fleet::list(&visit.state, &search, Order::default(), &paging).await?;
    let counts = fleet::counted(&visit.state, &search).await?;
    let matching = match search.state {
        Some(one) => counts.get(&one).copied().unwrap_or_default(),
        None => counts.values().sum(),
    };
    let texts = page.items.iter().map(|one| format!("{}/{}", one.device.client, one.device.device));
    let texts: Vec<String> = texts.collect();
    Ok(Selection { keys: bulk::keys(texts.iter().map(String::as_str))?, next: page.next.unwrap_or_default(), matching })
}

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let filter = Filter::of(|name| params.text(name));
    let back = filter.link("/devices", "", "");
    let selection = selection(&visit, &params, &filter).await?;
    if selection.keys.is_empty() {
        return Ok(go(&back, Some(("nothing-selected", "Nothing selected. Select devices, or all matching."))));
    }
    let mut fields = filter_fields(&filter, &selection.next);
    let text =
        if selection.next.is_empty() { Vec::new() } else { vec![part(selection.keys.len(), selection.matching)] };
    let confirmation = if params.text("do") == "decommission" {
        let mut ids: Vec<_> = selection.keys.iter().map(|key| key.client.clone()).collect();
        ids.dedup();
        fields.push(("do", "decommission".to_owned()));
        let confirmation = clients::confirmation(&visit, &ids, ClientState::Decommissioned, text).await?;
        Confirmation { action: HERE, fields: [fields, confirmation.fields].concat(), back, ..confirmation }
    } else {
        let typed =
            Typed { name: params.text("name"), value: params.text("value"), gone: params.get("gone").is_some() };
        fields.push(("do", "label".to_owned()));
        labeled(&selection.keys, fields, text, typed, back)
    };
    confirm(&visit, Section::Devices, confirmation).await
}

/// The filter, to return to and to continue with.
fn filter_fields(filter: &Filter, next: &str) -> Vec<(&'static str, String)> {
    let mut fields: Vec<_> = filter.members().into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    fields.push(("after", next.to_owned()));
    fields.retain(|(_, value)| !value.is_empty());
    fields
}

fn labeled(
    keys: &[DeviceKey],
    mut fields: Vec<(&'static str, String)>,
    mut text: Vec<String>,
    typed: Typed,
    back: String,
) -> Confirmation {
    let devices = words::count(keys.len() as u64, "device");
    fields.extend(keys.iter().map(|key| ("device", KeyText(key.clone()).to_string())));
    text.insert(0, "Other labels of these devices do not change. The members of groups that select this label may change; deployments do not change.".to_owned());
    Confirmation {
        title: format!("Label {devices}"),
        text,
        devices: keys.len() as u64,
        touches: format!("Affects {devices}."),
        action: HERE,
        fields,
        names: keys.iter().map(|key| key.device.to_string()).collect(),
        label: Some(typed),
        verb: "label",
        button: format!("Label {devices}"),
        back,
        ..Confirmation::default()
    }
}

pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let form = &posted.form;
    let filter = Filter::of(|name| form.text(name).to_owned());
    let back = filter.link("/devices", "", "");
    let again = |more: &[(&str, &str)]| {
        let next = form.given("after")?;
        let mut members: Vec<(&str, &str)> = more.to_vec();
        members.push(("all", "yes"));
        members.extend(filter.members());
        members.push(("after", &next));
        Some(link(HERE, &members))
    };
    if form.text("do") == "decommission" {
        let ids = bulk::ids(form.all("client"))?;
        let (outcome, notice) = clients::admit(&posted, &ids, ClientState::Decommissioned).await?;
        return done(&posted, Section::Devices, outcome, notice, again(&[("do", "decommission")]), back).await;
    }
    let keys = bulk::keys(form.all("device"))?;
    let typed =
        Typed { name: form.text("name").to_owned(), value: form.text("value").to_owned(), gone: form.has("gone") };
    let value = (!typed.gone).then(|| typed.value.clone());
    let body = UpdateDevice { labels: IndexMap::from([(typed.name.clone(), value)]), comment: posted.comment() };
    match bulk::label(posted.state(), posted.caller(), &keys, &body).await {
        Ok(outcome) => {
            let what = if typed.gone {
                format!("Removed label {} from ", typed.name)
            } else {
                format!("Set label {}={} on ", typed.name, typed.value)
            };
            let gone = if typed.gone { "yes" } else { "" };
            let members: [(&str, &str); 4] =
                [("do", "label"), ("name", &typed.name), ("value", &typed.value), ("gone", gone)];
            let notice = result_notice(&outcome, &what, "device", "");
            let code = if typed.gone { "label-removed" } else { "label-set" };
            done(&posted, Section::Devices, outcome, (code, notice), again(&members), back).await
        }
        Err(AppError::Refused { code: Code::Invalid, errors, .. }) => {
            let place = |message: &str| if message.starts_with("a value") { "label-value" } else { "label-name" };
            let wrong = errors.iter().map(|one| (place(&one.message), words::capital(&one.message))).collect();
            let mut fields = filter_fields(&filter, form.text("after"));
            fields.push(("do", "label".to_owned()));
            let confirmation = labeled(&keys, fields, Vec::new(), typed, back);
            let confirmation = Confirmation { wrong, comment: form.text("comment").to_owned(), ..confirmation };
            confirm(&posted.visit, Section::Devices, confirmation).await
        }
        Err(error) => Err(error.into()),
    }
}
