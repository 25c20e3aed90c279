//! Which devices can run a version of an application, and why the others cannot.

use super::catalog_view::{CompatibilityCheck, badge};
use crate::app::background::{PAGE_WAITS, Progress};
use crate::app::compatibility::{NO_CAPABILITIES, deciding_rules};
use crate::app::error::AppError;
use crate::app::fleet::{self, Candidate, ELIGIBLE_MAX, EligibilityQuery, InstalledFilter, Search};
use crate::app::paging::Listing;
use crate::app::sorting::Order;
use crate::app::{catalog_view, explain};
use crate::ui::markup::Markup;
use crate::ui::routes::heads::Heads;
use crate::ui::routes::query::{Params, device_link, link};
use crate::ui::routes::tiles::Tile;
use crate::ui::routes::why::{Part, why};
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words::{self, Badge};
use askama::Template;
use axum::extract::Path;

#[derive(Template)]
#[template(path = "catalog/compatibility.html", blocks = ["live", "nav"])]
struct CompatibilityPage {
    shell: Shell,
    id: String,
    name: String,
    version: String,
    versions: Vec<String>,
    tiles: Vec<Tile>,
    /// Devices in total.
    devices: u64,
    all_link: String,
    /// Devices are still being checked.
    in_progress: bool,
    /// The devices are still being sorted.
    sorting: bool,
    heads: Heads,
    /// The filter: `compatible`, `incompatible`, `unknown` or nothing.
    outcome: String,
    /// The filter: a rule of the application.
    reason: String,
    reasons: Vec<Offer>,
    text: String,
    rows: Vec<Row>,
    next: Option<String>,
    first: Option<String>,
    wrong: Option<String>,
    /// Devices that a deployment to all compatible ones would get.
    deployable: u64,
    /// Some compatible devices have it already, or may have it.
    skips: bool,
    /// The explanation of the newest version.
    summary: Option<String>,
    why: Vec<Part>,
}
pages!(CompatibilityPage);

/// A reason offered in the filter.
struct Offer {
    code: String,
    words: String,
}

struct Row {
    device: String,
    link: String,
    compatibility: CompatibilityCheck,
    state: Markup,
    site: String,
    /// The version it already has.
    has: Option<(String, String)>,
}

pub(in crate::ui) async fn show(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let state = &visit.state;
    let detail = catalog_view::detail(state, &id, params.get("version").as_deref()).await?;
    let version = detail.version.version.clone();
    let Progress { value, done } = explain::compatibility(state, &id, &version, PAGE_WAITS).await?;
    let counts = value.unwrap_or_default();
    let (outcome, reason, text) = (params.text("compatibility"), params.text("reason"), params.text("q"));
    let eligibility_query =
        EligibilityQuery { application: &id, version: &version, profile: None, installed: InstalledFilter::Without };
    let search = Search { text: params.get("q"), ..Search::default() };
    let keep = |candidate: &Candidate| {
        (outcome.is_empty() || words::api_value(&candidate.compatibility.outcome) == outcome)
            && (reason.is_empty() || deciding_rules(&candidate.compatibility).any(|rule| rule == reason))
    };
    let order = Order::of_page(&params.text("sort"));
    let sort = order.sort.map(|sort| sort.to_string()).unwrap_or_default();
    let (page, wrong) =
        match fleet::filtered_page(state, &eligibility_query, &search, (order, &params.paging()), keep).await {
            Ok(page) => (page, None),
            Err(AppError::Refused { detail, .. }) => (Listing::default(), Some(detail)),
            Err(error) => return Err(error.into()),
        };
    let path = format!("/catalog/{id}/compatibility");
    let at = |outcome: &str, reason: &str, after: &str| {
        let members: [(&str, &str); 6] = [
            ("version", &version),
            ("compatibility", outcome),
            ("reason", reason),
            ("q", &text),
            ("sort", &sort),
            ("after", after),
        ];
        link(&path, &members)
    };
    let filter = [("version", version.as_str()), ("compatibility", &outcome), ("reason", &reason), ("q", &text)];
    let kinds = [
        (counts.compatible, Badge { key: "compatible", word: "Compatible", tone: "good", symbol: "check" }),
        (counts.incompatible, Badge { key: "incompatible", word: "Incompatible", tone: "bad", symbol: "cross" }),
        (counts.unknown, Badge { key: "unknown", word: "Unknown", tone: "idle", symbol: "clock" }),
    ];
    let tiles = kinds.into_iter().map(|(count, style)| {
        let chosen = style.key == outcome;
        let link = at(if chosen { "" } else { style.key }, "", "");
        Tile::new(count, style, link, chosen)
    });
    // The exact number where few devices have to be checked for it.
    let eligible_count = match counts.devices {
        0..=ELIGIBLE_MAX => fleet::eligible_count(state, &eligibility_query, &Search::default()).await?,
        _ => None,
    };
    let explained = match detail.versions.first() {
        Some(newest) if newest.version == version => Some(explain::application(state, &id, PAGE_WAITS).await?),
        _ => None,
    };
    let deployable = eligible_count.unwrap_or(counts.compatible);
    let page = CompatibilityPage {
        shell: visit.shell(Section::Catalog, format!("Compatibility - {} {version}", detail.version.name)).await?,
        name: detail.version.name,
        versions: detail.versions.into_iter().map(|one| one.version).collect(),
        tiles: tiles.filter(Tile::is_shown).collect(),
        devices: counts.devices,
        all_link: at("", "", ""),
        in_progress: !done,
        sorting: page.in_progress,
        heads: Heads::new(&path, &filter, &sort),
        reasons: offers(&counts.rules, &reason),
        rows: page.items.into_iter().map(|candidate| row(candidate, &id)).collect(),
        next: page.next.map(|next| at(&outcome, &reason, &next)),
        first: params.get("after").map(|_| at(&outcome, &reason, "")),
        wrong,
        deployable,
        skips: eligible_count.is_none() || deployable < counts.compatible,
        summary: explained.as_ref().map(|explained| explained.explanation.summary.clone()),
        why: explained.map(|explained| why(&explained.explanation, false)).unwrap_or_default(),
        id: id.clone(),
        version: version.clone(),
        outcome: outcome.clone(),
        reason: reason.clone(),
        text: text.clone(),
    };
    visit.show(&page)
}

/// The rules that exclude devices, with the number of devices; the chosen one even while nothing is counted for it.
fn offers(rules: &std::collections::BTreeMap<String, u64>, chosen: &str) -> Vec<Offer> {
    let known = rules.iter().map(|(rule, count)| Offer {
        words: format!("{} ({})", rule_words(rule), words::count(*count, "device")),
        code: rule.clone(),
    });
    let missing = !chosen.is_empty() && !rules.contains_key(chosen);
    known.chain(missing.then(|| Offer { words: rule_words(chosen), code: chosen.to_owned() })).collect()
}

/// A rule of an application, for people.
fn rule_words(rule: &str) -> String {
    match rule {
        "deploymentType" => "Deployment type".to_owned(),
        "cpu" => "CPU".to_owned(),
        NO_CAPABILITIES => "No capabilities reported".to_owned(),
        other if other.starts_with("eligibilityRules") => format!("Eligibility rule ({other})"),
        other => words::capital(other),
    }
}

fn row(candidate: Candidate, application: &str) -> Row {
    let Candidate { listed, compatibility } = candidate;
    let device = &listed.device;
    let site = device.operator_labels.get("site").cloned();
    let site = site.or_else(|| device.device_labels.get("site").map(crate::app::value_format::plain));
    let has = listed.placed.iter().find(|placed| placed.application == application && !placed.removing);
    Row {
        has: has.map(|placed| (placed.version.clone(), format!("/deployments/{}", placed.id))),
        device: device.device.clone(),
        link: device_link(&device.client, &device.device),
        compatibility: badge(&compatibility),
        state: words::device_state(listed.device.state),
        site: site.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn offers_each_rule_with_its_count_and_keeps_the_chosen_one() {
        let rules = BTreeMap::from([("memory".to_owned(), 1), ("deploymentType".to_owned(), 2)]);
        let shown = |chosen: &str| offers(&rules, chosen).into_iter().map(|one| one.words).collect::<Vec<_>>();
        assert_eq!(shown("memory"), ["Deployment type (2 devices)", "Memory (1 device)"]);
        assert_eq!(shown("cpu"), ["Deployment type (2 devices)", "Memory (1 device)", "CPU"]);
    }
}
