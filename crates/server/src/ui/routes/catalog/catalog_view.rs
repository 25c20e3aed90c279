//! All applications, with search and tags; optionally with the compatibility of one device.

use crate::app::catalog_view::{self, CatalogEntry, Search};
use crate::app::compatibility::NO_CAPABILITIES;
use crate::ui::markup::{self, Markup};
use crate::ui::routes::deploy::{self, DraftLink};
use crate::ui::routes::heads::{Compare, sort_rows};
use crate::ui::routes::query::{Params, device_link, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::applications::{Compatibility, DeviceCompatibility};

#[derive(Template)]
#[template(path = "catalog/list.html", blocks = ["live", "nav"])]
struct CatalogPage {
    shell: Shell,
    text: String,
    sort: String,
    tag: String,
    tags: Vec<String>,
    device: Option<Device>,
    catalog_view: Vec<Card>,
    filtered: bool,
    /// Unfinished drafts.
    drafts: Vec<DraftLink>,
}
pages!(CatalogPage);

/// The device for which applications are listed.
struct Device {
    value: String,
    name: String,
    link: String,
}

struct Card {
    application: CatalogEntry,
    compatibility: Option<CompatibilityCheck>,
    link: String,
}

/// Compatibility with a device, and why not.
pub(in crate::ui::routes) struct CompatibilityCheck {
    pub(in crate::ui::routes) state: Markup,
    pub(in crate::ui::routes) reasons: Vec<ShownReason>,
}

/// Why a device is incompatible, or why its compatibility is unknown.
pub(in crate::ui::routes) struct ShownReason {
    /// The rules of the application that decide, for `data-reason`.
    pub(in crate::ui::routes) codes: String,
    pub(in crate::ui::routes) text: String,
}

impl ShownReason {
    pub(in crate::ui::routes) fn new(codes: &str, text: &str) -> Self {
        Self { codes: codes.to_owned(), text: text.to_owned() }
    }
}

const COLUMNS: [(&str, Compare<CatalogEntry>); 2] = [
    ("supplier", |one, other| one.vendor.to_lowercase().cmp(&other.vendor.to_lowercase())),
    ("devices", |one, other| one.uses.cmp(&other.uses)),
];

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    let device = params.get("device").and_then(|text| {
        let (client, device) = text.split_once('/')?;
        Some((client.to_owned(), device.to_owned()))
    });
    let search = Search { text: params.get("q"), tag: params.get("tag"), device: device.clone() };
    let (mut found, tags) = catalog_view::list(&visit.state, &search).await?;
    let sort = params.text("sort");
    sort_rows(&mut found, &sort, &COLUMNS);
    let shell = visit.shell(Section::Catalog, "Catalog").await?;
    let value = params.text("device");
    let started = deploy::started(&visit, &shell, "/catalog").await?;
    let page = CatalogPage {
        filtered: search.text.is_some() || search.tag.is_some(),
        text: search.text.unwrap_or_default(),
        sort,
        tag: search.tag.unwrap_or_default(),
        tags,
        catalog_view: found
            .into_iter()
            .map(|application| Card {
                compatibility: application.compatibility.as_ref().map(badge),
                link: link(&format!("/catalog/{}", application.id), &[("device", &value)]),
                application,
            })
            .collect(),
        drafts: started,
        device: device.map(|(client, device)| Device { link: device_link(&client, &device), name: device, value }),
        shell,
    };
    visit.show(&page)
}

pub(in crate::ui::routes) fn badge(compatibility: &DeviceCompatibility) -> CompatibilityCheck {
    let (word, tone, symbol) = match compatibility.outcome {
        Compatibility::Compatible => ("Compatible", "good", "check"),
        Compatibility::Incompatible => ("Incompatible", "bad", "cross"),
        Compatibility::Unknown => ("Unknown", "idle", "clock"),
    };
    let mut reasons = Vec::new();
    if compatibility.outcome != Compatibility::Compatible {
        if compatibility.profiles.is_empty() {
            reasons.push(ShownReason::new(NO_CAPABILITIES, "The device has not reported its capabilities yet."));
        }
        for profile in &compatibility.profiles {
            let deciding = profile.reasons.iter().filter(|reason| reason.outcome == profile.outcome);
            let (codes, words): (Vec<&str>, Vec<&str>) =
                deciding.map(|reason| (reason.rule.as_str(), reason.message.as_str())).unzip();
            let text = format!("{}: {}", words::capital(&profile.profile_type), words.join("; "));
            reasons.push(ShownReason { codes: codes.join(" "), text });
        }
    }
    CompatibilityCheck { state: markup::state(&words::api_value(&compatibility.outcome), tone, symbol, word), reasons }
}
