//! All applications, with search and tags; for one device also whether they fit it.

use crate::app::shelf::{self, Search, Shelved};
use crate::ui::markup::{self, Markup};
use crate::ui::routes::deploy::{self, Begun};
use crate::ui::routes::query::{Asked, device_link, link};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::applications::{DeviceFit, FitOutcome};

#[derive(Template)]
#[template(path = "catalog/shelf.html", blocks = ["live", "nav"])]
struct ShelfPage {
    shell: Shell,
    text: String,
    tag: String,
    tags: Vec<String>,
    device: Option<Device>,
    shelf: Vec<Card>,
    filtered: bool,
    /// What was begun and not finished.
    drafts: Vec<Begun>,
}
pages!(ShelfPage);

/// The device somebody chooses for.
struct Device {
    value: String,
    name: String,
    link: String,
}

struct Card {
    application: Shelved,
    fit: Option<Fit>,
    link: String,
}

/// Whether it fits a device, and why not.
pub(in crate::ui::routes) struct Fit {
    pub(in crate::ui::routes) state: Markup,
    pub(in crate::ui::routes) reasons: Vec<String>,
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked) -> Answer {
    let device = asked.get("device").and_then(|text| {
        let (client, device) = text.split_once('/')?;
        Some((client.to_owned(), device.to_owned()))
    });
    let search = Search { text: asked.get("q"), tag: asked.get("tag"), device: device.clone() };
    let (found, tags) = shelf::list(&visit.state, &search).await?;
    let shell = visit.shell(Section::Catalog, "Catalog").await?;
    let value = asked.text("device");
    let begun = deploy::begun(&visit, &shell).await?;
    let page = ShelfPage {
        filtered: search.text.is_some() || search.tag.is_some(),
        text: search.text.unwrap_or_default(),
        tag: search.tag.unwrap_or_default(),
        tags,
        shelf: found
            .into_iter()
            .map(|application| Card {
                fit: application.fit.as_ref().map(fit),
                link: link(&format!("/catalog/{}", application.id), &[("device", &value)]),
                application,
            })
            .collect(),
        drafts: begun,
        device: device.map(|(client, device)| Device { link: device_link(&client, &device), name: device, value }),
        shell,
    };
    visit.show(&page)
}

pub(in crate::ui::routes) fn fit(fit: &DeviceFit) -> Fit {
    let (word, tone, symbol) = match fit.outcome {
        FitOutcome::Fits => ("Fits", "good", "check"),
        FitOutcome::DoesNotFit => ("Does not fit", "bad", "cross"),
        FitOutcome::Unknown => ("Unknown", "idle", "clock"),
    };
    let mut reasons: Vec<String> = Vec::new();
    if fit.outcome != FitOutcome::Fits {
        if fit.profiles.is_empty() {
            reasons.push("The device has not reported what it can do.".to_owned());
        }
        for profile in &fit.profiles {
            let deciding = profile.reasons.iter().filter(|reason| reason.outcome == profile.outcome);
            let words: Vec<&str> = deciding.map(|reason| reason.message.as_str()).collect();
            reasons.push(format!("{}: {}", words::capital(&profile.profile_type), words.join("; ")));
        }
    }
    Fit { state: markup::state(tone, symbol, word), reasons }
}
