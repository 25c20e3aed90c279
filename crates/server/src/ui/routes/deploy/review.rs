//! Step four: exactly what would change on each device, then a reason and one button.

use super::{Steps, steps};
use crate::app::access::Caller;
use crate::app::drafts::{self, Kind};
use crate::app::error::{AppError, Code};
use crate::app::idempotency::{self, Call};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::changes::{Change, DiffLine, DiffSign, LeftOut, Plan};
use margrave_api::problem::FieldProblem;
use std::sync::Arc;

/// Devices named with one difference.
const NAMED_MAX: usize = 12;
/// Devices left out that are named.
const LEFT_OUT_MAX: usize = 200;

#[derive(Template)]
#[template(path = "deploy/review.html", blocks = ["live", "nav"])]
struct ReviewPage {
    shell: Shell,
    steps: Steps,
    groups: Vec<Same>,
    targets: u64,
    changes: usize,
    left_out: Vec<LeftOut>,
    left_out_more: usize,
    button: String,
    back: String,
    reason: String,
    wrong: Option<(String, Vec<FieldProblem>)>,
}
pages!(ReviewPage);

/// Devices with the same difference.
struct Same {
    devices: Vec<String>,
    more: usize,
    count: u64,
    profile: String,
    lines: Vec<Line>,
}

struct Line {
    class: &'static str,
    text: String,
}

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> Answer {
    let page = page(&visit, &id, None, String::new()).await?;
    visit.show(&page)
}

async fn page(visit: &Visit, id: &str, wrong: Option<AppError>, reason: String) -> Result<ReviewPage, UiError> {
    let state = &visit.state;
    let kept = drafts::get(state, visit.caller(), id).await?;
    let steps = steps(state, &kept, "review").await?;
    let planned = match wrong {
        Some(error) => Err(error),
        None => drafts::plan(state, &kept.draft).await,
    };
    let (plans, wrong) = match planned {
        Ok(plans) => (plans, None),
        Err(AppError::Refused { detail, errors, .. }) => (Vec::new(), Some((detail, errors))),
        Err(error) => return Err(error.into()),
    };
    let targets: u64 = plans.iter().map(|plan| plan.targets.len() as u64).sum();
    let devices = words::count(targets, "device");
    let button = match kept.draft.kind {
        Kind::Create => format!("Deploy to {devices}"),
        Kind::Upgrade => format!("Change {devices} to {}", kept.draft.version),
        Kind::Reconfigure => format!("Reconfigure {devices}"),
    };
    let mut left_out: Vec<LeftOut> = plans.iter().flat_map(|plan| plan.left_out.clone()).collect();
    let left_out_more = left_out.len().saturating_sub(LEFT_OUT_MAX);
    left_out.truncate(LEFT_OUT_MAX);
    Ok(ReviewPage {
        shell: visit.shell(Section::Catalog, format!("Review - {}", steps.title)).await?,
        groups: plans.iter().flat_map(groups).collect(),
        changes: plans.iter().filter(|plan| !plan.targets.is_empty()).count(),
        targets,
        left_out,
        left_out_more,
        button,
        back: format!("/deploy/{id}/answers"),
        reason,
        wrong,
        steps,
    })
}

/// Devices whose documents change alike, together.
fn groups(plan: &Plan) -> Vec<Same> {
    let mut groups: Vec<(Vec<DiffLine>, Same)> = Vec::new();
    for target in &plan.targets {
        // The name of the device is in its document; it is no difference worth showing twice.
        let alike =
            |line: &DiffLine| DiffLine { sign: line.sign, text: line.text.replace(&target.device.device, "…") };
        let key: Vec<DiffLine> = target.diff.iter().map(alike).collect();
        let found = groups.iter_mut().find(|(known, same)| *known == key && same.profile == target.profile);
        let same = match found {
            Some((_, same)) => same,
            None => {
                let lines = shorten(&target.diff);
                groups.push((
                    key,
                    Same { devices: Vec::new(), more: 0, count: 0, profile: target.profile.clone(), lines },
                ));
                &mut groups.last_mut().expect("one was just added").1
            }
        };
        same.count += 1;
        if same.devices.len() < NAMED_MAX {
            same.devices.push(target.device.device.clone());
        } else {
            same.more += 1;
        }
    }
    groups.into_iter().map(|(_, same)| same).collect()
}

/// Lines that stay are shown only beside those that do not.
fn shorten(diff: &[DiffLine]) -> Vec<Line> {
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
    if let Some(call) = call(&posted, 0)
        && let Some(change) = idempotency::kept::<Change>(posted.state(), &call).await?
    {
        return Ok(go(&format!("/changes/{}", change.id), None));
    }
    let kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    let caller_of = |index: usize| Caller { call: call(&posted, index).map(Arc::new), ..posted.caller().clone() };
    match drafts::submit(posted.state(), caller_of, &kept.draft, posted.reason()).await {
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
        Err(error @ AppError::Refused { .. }) if !matches!(&error, AppError::Refused { code: Code::Done, .. }) => {
            let page = page(&posted.visit, &id, Some(error), posted.form.text("reason").to_owned()).await?;
            posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

/// One key per change of the form.
fn call(posted: &Posted, index: usize) -> Option<Call> {
    let key = posted.form.given("key")?;
    let place = posted.visit.place.clone();
    let key = format!("{key}-{index}");
    Some(Call::new(posted.caller().id, &posted.visit.secret.0, &key, &[b"POST", place.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_api::changes::{ChangeKind, PlannedTarget};
    use margrave_api::devices::DeviceRef;

    fn target(device: &str, rate: &str) -> PlannedTarget {
        let line = |sign, text: String| DiffLine { sign, text };
        PlannedTarget {
            device: DeviceRef { client: device.to_owned(), device: device.to_owned() },
            deployment: None,
            profile: "compose".to_owned(),
            convergence: None,
            diff: vec![
                line(DiffSign::Same, format!("deviceId: {device}")),
                line(DiffSign::Added, format!("rate: {rate}")),
            ],
        }
    }

    #[test]
    fn devices_that_change_alike_are_shown_once() {
        let targets = vec![target("press-01", "5"), target("press-02", "5"), target("press-03", "7")];
        let plan = Plan {
            kind: ChangeKind::Create,
            application: "a".to_owned(),
            version: "1".to_owned(),
            targets,
            left_out: Vec::new(),
            diffs_left_out: 0,
        };
        let groups = groups(&plan);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].count, groups[0].devices.join(",")), (2, "press-01,press-02".to_owned()));
        assert_eq!(groups[1].lines.last().map(|line| (line.class, line.text.as_str())), Some(("added", "+ rate: 7")));
    }
}
