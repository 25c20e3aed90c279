//! Step four: exactly what would change on each device, then a reason and one button.

use super::{Steps, elsewhere, section, steps};
use crate::app::changes::{Alike, Answered, Reason, Review};
use crate::app::drafts::{self, Kind};
use crate::app::error::{AppError, Code};
use crate::app::idempotency;
use crate::app::policies::{self, Rule};
use crate::app::reviews::{self, Look, Refusal, Reviewed};
use crate::app::{shelf, versions};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::visit::{Answer, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::changes::{Change, DiffLine, DiffSign};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "deploy/review.html", blocks = ["live", "nav"])]
struct ReviewPage {
    shell: Shell,
    steps: Steps,
    /// Being worked out, for so many devices at most.
    under_way: Option<u64>,
    groups: Vec<Same>,
    otherwise: u64,
    targets: u64,
    changes: usize,
    /// Of the targets, those that are not heard of now.
    silent: u64,
    left_out: u64,
    reasons: Vec<Left>,
    /// What devices do by themselves afterwards.
    policies: [Rule; 3],
    policies_hint: Option<&'static str>,
    /// When it was worked out.
    at: String,
    button: String,
    removes: bool,
    back: String,
    reason: String,
    /// What a single deployment is at, as it is reviewed here.
    seen: Option<i64>,
    wrong: Option<Refusal>,
}
pages!(ReviewPage);

/// Devices with the same difference.
struct Same {
    devices: Vec<String>,
    more: u64,
    count: u64,
    profile: String,
    from: Option<String>,
    /// It exists and goes to another version.
    moves: bool,
    answers: Vec<Answered>,
    lines: Vec<Line>,
}

/// Devices left out for the same reason.
struct Left {
    devices: String,
    count: u64,
    reason: String,
}

pub(in crate::ui::routes) struct Line {
    pub(in crate::ui::routes) class: &'static str,
    pub(in crate::ui::routes) text: String,
}

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> Answer {
    let page = page(&visit, &id, None, None).await?;
    visit.show(&page)
}

async fn page(visit: &Visit, id: &str, wrong: Option<Refusal>, reason: Option<String>) -> Result<ReviewPage, UiError> {
    let state = &visit.state;
    let kept = drafts::get(state, visit.caller(), id).await?;
    let mut steps = steps(state, &kept, "review").await?;
    let look = match wrong {
        Some(refusal) => Look::Done(Arc::new(Err(refusal))),
        None => reviews::look(state, &kept).await?,
    };
    let nothing = || Reviewed { reviews: Vec::new(), at: state.now() };
    let (reviewed, under_way, wrong) = match look {
        Look::UnderWay(devices) => (nothing(), Some(devices), None),
        Look::Done(outcome) => match &*outcome {
            Ok(reviewed) => (reviewed.clone(), None, None),
            Err(refusal) => (nothing(), None, Some(refusal.clone())),
        },
    };
    if reviewed.reviews.iter().all(|review| review.targets == 0) {
        // Nothing to fill in, so plain links.
        steps.enter = None;
    }
    let Reviewed { reviews, at } = reviewed;
    let description = drafts::description(state, &kept.draft).await?;
    let same = |alike: Alike| {
        let kind = description.profile(&alike.profile).map(|profile| shelf::kind(profile.profile_type));
        same(alike, kind, &steps.version)
    };
    let silent = reviews.iter().map(|review| review.silent).sum();
    let targets: u64 = reviews.iter().map(|review| review.targets).sum();
    let devices = words::count(targets, "device");
    let back = goes_back(&reviews, &kept.draft.version);
    let button = match kept.draft.kind {
        Kind::Create => format!("Deploy to {devices}"),
        Kind::Upgrade if back => format!("Bring {devices} back to {}", kept.draft.version),
        Kind::Upgrade => format!("Change {devices} to {}", kept.draft.version),
        Kind::Reconfigure => format!("Reconfigure {devices}"),
        Kind::Remove => format!("Remove from {devices}"),
    };
    Ok(ReviewPage {
        shell: visit.shell(section(&kept.draft), format!("Review - {}", steps.title)).await?,
        under_way,
        changes: reviews.iter().filter(|review| review.targets > 0).count(),
        otherwise: reviews.iter().map(|review| review.otherwise).sum(),
        left_out: reviews.iter().map(|review| review.left_out).sum(),
        reasons: reviews.iter().flat_map(|review| &review.reasons).map(left).collect(),
        groups: reviews.into_iter().flat_map(|review| review.alike).map(same).collect(),
        policies: policies::choices(&kept.draft, policies::before(state, &kept.draft).await?).map(Rule::from),
        policies_hint: None,
        at: at.to_string(),
        seen: drafts::revision(state, &kept.draft).await?,
        targets,
        button,
        removes: kept.draft.kind == Kind::Remove,
        back: format!("/deploy/{id}/{}", steps.back.unwrap_or("answers")),
        reason: reason.unwrap_or(kept.draft.reason),
        silent,
        wrong,
        steps,
    })
}

/// Everything it changes is on a newer version now.
fn goes_back(reviews: &[Review], version: &str) -> bool {
    let mut before = reviews.iter().flat_map(|review| &review.alike).map(|alike| alike.from.as_deref()).peekable();
    before.peek().is_some() && before.all(|before| before.is_some_and(|before| versions::is_older(version, before)))
}

fn same(alike: Alike, kind: Option<&str>, version: &str) -> Same {
    let Alike { count, devices, profile, from, answers, diff } = alike;
    let profile = kind.map_or(profile, str::to_owned);
    let more = count.saturating_sub(devices.len() as u64);
    let moves = from.as_deref().is_some_and(|from| from != version);
    Same { more, devices, count, profile, from, moves, answers, lines: shorten(&diff) }
}

fn left(reason: &Reason) -> Left {
    let more = reason.count.saturating_sub(reason.devices.len() as u64);
    let named = reason.devices.join(", ");
    let devices = if more > 0 { format!("{named} and {} more", words::thousands(more)) } else { named };
    Left { devices, count: reason.count, reason: reason.reason.clone() }
}

/// Lines that stay are shown only beside those that do not.
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

pub(in crate::ui) async fn deploy(Path(id): Path<String>, posted: Posted) -> Answer {
    // A form sent again finds its draft gone, and what came of it in the record of repeats.
    if let Some(call) = posted.call(0)
        && let Some(change) = idempotency::kept::<Change>(posted.state(), &call).await?
    {
        return Ok(go(&format!("/changes/{}", change.id), None));
    }
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    if let Some(place) = elsewhere(&kept, posted.form.text("go")) {
        posted.form.text("reason").clone_into(&mut kept.draft.reason);
        drafts::put(posted.state(), posted.caller(), &kept).await?;
        return Ok(go(&place, None));
    }
    let caller_of = |index| posted.caller_of(index);
    match drafts::submit(posted.state(), caller_of, &kept.draft, posted.form.number("seen"), posted.reason()).await {
        Ok(changes) => {
            drafts::drop(posted.state(), posted.caller(), kept.id).await?;
            match changes.as_slice() {
                [only] => Ok(go(&format!("/changes/{}", only.id), None)),
                _ => Ok(go(
                    "/changes",
                    Some(&format!("{} changes were made, one for each set of answers.", changes.len())),
                )),
            }
        }
        Err(AppError::Refused { code, detail, errors }) if code != Code::Done => {
            let page = page(&posted.visit, &id, Some(Refusal { detail, errors }), posted.reason()).await?;
            posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_stay_are_left_out_but_for_those_around_a_change() {
        let same = |number: usize| DiffLine { sign: DiffSign::Same, text: format!("line {number}") };
        let mut diff: Vec<DiffLine> = (0..9).map(same).collect();
        diff.push(DiffLine { sign: DiffSign::Added, text: "rate: 7".to_owned() });
        let lines: Vec<String> = shorten(&diff).into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["  …", "  line 7", "  line 8", "+ rate: 7"]);
    }

    #[test]
    fn devices_left_out_are_named_until_there_are_too_many() {
        let devices = vec!["press-01".to_owned(), "press-02".to_owned()];
        let reason = Reason { count: 1_002, devices, reason: "nothing would change".to_owned() };
        assert_eq!(left(&reason).devices, "press-01, press-02 and 1,000 more");
    }
}
