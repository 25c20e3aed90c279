//! Step four: the exact changes on each device, a comment and one button.

use super::{Steps, elsewhere, section, steps};
use crate::app::drafts::{self, Kind};
use crate::app::error::{AppError, Code};
use crate::app::idempotency;
use crate::app::policies::{self, Rule};
use crate::app::reviews::{self, Refusal, ReviewProgress, Reviewed};
use crate::app::rollouts::{ChangedValue, DiffGroup, Reason, Review};
use crate::app::{catalog_view, versions};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::visit::{PageResult, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::rollouts::{DiffLine, DiffSign, Rollout};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "deploy/review.html", blocks = ["live", "nav"])]
struct ReviewPage {
    shell: Shell,
    steps: Steps,
    /// Still being computed, for at most this many devices.
    in_progress: Option<u64>,
    groups: Vec<DeviceGroup>,
    otherwise: u64,
    targets: u64,
    rollouts: usize,
    /// Targets that are offline.
    offline: u64,
    skipped: u64,
    reasons: Vec<SkippedGroup>,
    /// Deployment policies after the rollout.
    policies: [Rule; 3],
    policies_hint: Option<&'static str>,
    /// When the review was computed.
    at: String,
    button: String,
    /// What the button does, for `data-action`.
    verb: &'static str,
    removes: bool,
    back: String,
    comment: String,
    /// The reviewed revision of a single deployment.
    seen: Option<i64>,
    wrong: Option<Refusal>,
}
pages!(ReviewPage);

/// Devices with the same changes.
struct DeviceGroup {
    devices: Vec<String>,
    more: u64,
    count: u64,
    profile: String,
    from: Option<String>,
    /// An existing deployment changes its version.
    moves: bool,
    values: Vec<ChangedValue>,
    lines: Vec<Line>,
}

/// Devices skipped for the same reason.
struct SkippedGroup {
    /// For `data-reason`.
    kind: String,
    devices: String,
    count: u64,
    reason: String,
}

pub(in crate::ui::routes) struct Line {
    pub(in crate::ui::routes) class: &'static str,
    pub(in crate::ui::routes) text: String,
}

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> PageResult {
    let page = page(&visit, &id, None, None).await?;
    visit.show(&page)
}

async fn page(visit: &Visit, id: &str, wrong: Option<Refusal>, comment: Option<String>) -> Result<ReviewPage, UiError> {
    let state = &visit.state;
    let stored = drafts::get(state, visit.caller(), id).await?;
    let mut steps = steps(state, &stored, "review").await?;
    let progress = match wrong {
        Some(refusal) => ReviewProgress::Done(Arc::new(Err(refusal))),
        None => reviews::get_or_start(state, &stored).await?,
    };
    let nothing = || Reviewed { reviews: Vec::new(), at: state.now() };
    let (reviewed, in_progress, wrong) = match progress {
        ReviewProgress::InProgress(devices) => (nothing(), Some(devices), None),
        ReviewProgress::Done(outcome) => match &*outcome {
            Ok(reviewed) => (reviewed.clone(), None, None),
            Err(refusal) => (nothing(), None, Some(refusal.clone())),
        },
    };
    if reviewed.reviews.iter().all(|review| review.targets == 0) {
        // No form, so use plain links.
        steps.enter = None;
    }
    let Reviewed { reviews, at } = reviewed;
    let description = drafts::description(state, &stored.draft).await?;
    let same = |alike: DiffGroup| {
        let kind = description.profile(&alike.profile).map(|profile| catalog_view::kind(profile.profile_type));
        same(alike, kind, &steps.version)
    };
    let offline = reviews.iter().map(|review| review.offline).sum();
    let targets: u64 = reviews.iter().map(|review| review.targets).sum();
    let devices = words::count(targets, "device");
    let back = is_downgrade(&reviews, &stored.draft.version);
    let (verb, button) = match stored.draft.kind {
        Kind::Create => ("deploy", format!("Deploy to {devices}")),
        Kind::Upgrade if back => ("downgrade", format!("Downgrade {devices} to {}", stored.draft.version)),
        Kind::Upgrade => ("upgrade", format!("Upgrade {devices} to {}", stored.draft.version)),
        Kind::Reconfigure => ("reconfigure", format!("Reconfigure {devices}")),
        Kind::Remove => ("remove", format!("Remove from {devices}")),
    };
    Ok(ReviewPage {
        shell: visit.shell(section(&stored.draft), format!("Review - {}", steps.title)).await?,
        in_progress,
        rollouts: reviews.iter().filter(|review| review.targets > 0).count(),
        otherwise: reviews.iter().map(|review| review.otherwise).sum(),
        skipped: reviews.iter().map(|review| review.skipped).sum(),
        reasons: reviews.iter().flat_map(|review| &review.reasons).map(left).collect(),
        groups: reviews.into_iter().flat_map(|review| review.alike).map(same).collect(),
        policies: policies::choices(&stored.draft, policies::before(state, &stored.draft).await?).map(Rule::from),
        policies_hint: None,
        at: at.to_string(),
        seen: drafts::revision(state, &stored.draft).await?,
        targets,
        button,
        verb,
        removes: stored.draft.kind == Kind::Remove,
        back: format!("/deploy/{id}/{}", steps.back.unwrap_or("configuration")),
        comment: comment.unwrap_or(stored.draft.comment),
        offline,
        wrong,
        steps,
    })
}

/// All affected deployments have a newer version now.
fn is_downgrade(reviews: &[Review], version: &str) -> bool {
    let mut before = reviews.iter().flat_map(|review| &review.alike).map(|alike| alike.from.as_deref()).peekable();
    before.peek().is_some() && before.all(|before| before.is_some_and(|before| versions::is_older(version, before)))
}

fn same(alike: DiffGroup, kind: Option<&str>, version: &str) -> DeviceGroup {
    let DiffGroup { count, devices, profile, from, values, diff } = alike;
    let profile = kind.map_or(profile, str::to_owned);
    let more = count.saturating_sub(devices.len() as u64);
    let moves = from.as_deref().is_some_and(|from| from != version);
    DeviceGroup { more, devices, count, profile, from, moves, values, lines: shorten(&diff) }
}

fn left(reason: &Reason) -> SkippedGroup {
    let more = reason.count.saturating_sub(reason.devices.len() as u64);
    let named = reason.devices.join(", ");
    let devices = if more > 0 { format!("{named} and {} more", words::thousands(more)) } else { named };
    SkippedGroup { kind: reason.kind.clone(), devices, count: reason.count, reason: reason.reason.clone() }
}

/// Shows unchanged lines only around changed ones.
pub(in crate::ui::routes) fn shorten(diff: &[DiffLine]) -> Vec<Line> {
    const AROUND: usize = 2;
    let near = |index: usize| {
        let from = index.saturating_sub(AROUND);
        diff[from..(index + AROUND + 1).min(diff.len())].iter().any(|line| line.sign != DiffSign::Same)
    };
    let mut lines: Vec<Line> = Vec::new();
    for (index, line) in diff.iter().enumerate() {
        if !near(index) {
            if lines.last().is_none_or(|last| last.class != "gap") {
                lines.push(Line { class: "gap", text: "  …".to_owned() });
            }
            continue;
        }
        let (class, sign) = match line.sign {
            DiffSign::Same => ("same", ' '),
            DiffSign::Added => ("added", '+'),
            DiffSign::Removed => ("removed", '-'),
        };
        lines.push(Line { class, text: format!("{sign} {}", line.text) });
    }
    lines
}

pub(in crate::ui) async fn deploy(Path(id): Path<String>, posted: Posted) -> PageResult {
    // When the form is sent again, the draft is gone; the idempotency record has the rollout.
    if let Some(call) = posted.call(0)
        && let Some(rollout) = idempotency::stored::<Rollout>(posted.state(), &call).await?
    {
        return Ok(go(&format!("/rollouts/{}", rollout.id), None));
    }
    let mut stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    if let Some(place) = elsewhere(&stored, posted.form.text("go")) {
        posted.form.text("comment").clone_into(&mut stored.draft.comment);
        drafts::put(posted.state(), posted.caller(), &stored).await?;
        return Ok(go(&place, None));
    }
    let caller_of = |index| posted.caller_of(index);
    match drafts::submit(posted.state(), caller_of, &stored.draft, posted.form.number("seen"), posted.comment()).await {
        Ok(rollouts) => {
            drafts::drop(posted.state(), posted.caller(), stored.id).await?;
            match rollouts.as_slice() {
                [only] => Ok(go(&format!("/rollouts/{}", only.id), None)),
                _ => Ok(go(
                    "/rollouts",
                    Some((
                        "rollouts-created",
                        &format!("{} rollouts created, one for each configuration.", rollouts.len()),
                    )),
                )),
            }
        }
        Err(AppError::Refused { code, detail, errors }) if code != Code::Done => {
            let page = page(&posted.visit, &id, Some(Refusal { detail, errors }), posted.comment()).await?;
            posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_unchanged_lines_only_around_changes() {
        let same = |number: usize| DiffLine { sign: DiffSign::Same, text: format!("line {number}") };
        let mut diff: Vec<DiffLine> = (0..9).map(same).collect();
        diff.push(DiffLine { sign: DiffSign::Added, text: "rate: 7".to_owned() });
        let lines: Vec<String> = shorten(&diff).into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["  …", "  line 7", "  line 8", "+ rate: 7"]);
    }

    #[test]
    fn names_skipped_devices_up_to_a_limit() {
        let devices = vec!["press-01".to_owned(), "press-02".to_owned()];
        let reason =
            Reason { kind: "unchanged".to_owned(), count: 1_002, devices, reason: "nothing would change".to_owned() };
        assert_eq!(left(&reason).devices, "press-01, press-02 and 1,000 more");
    }
}
