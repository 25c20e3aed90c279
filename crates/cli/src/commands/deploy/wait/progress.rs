//! Progress per device and component: bars at a terminal, one line per update otherwise.

use super::{device_name, state_word};
use crate::output::Output;
use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use margrave_api::deployments::{Deployment, DeploymentState};
use std::time::Duration;

/// Most updating devices with their own line at a terminal; more would scroll.
const LINES_MAX: usize = 12;
/// Above this many devices, a pipe gets only the final state of each.
const VERBOSE_DEVICES_MAX: usize = 100;

pub(super) struct Progress {
    out: Output,
    bars: Option<Bars>,
    shown: IndexMap<String, String>,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    lines: IndexMap<String, ProgressBar>,
}

impl Progress {
    pub(super) fn new(out: Output) -> Self {
        let bars = (out.talk_terminal && !out.quiet).then(|| {
            let all = MultiProgress::new();
            let total = all.add(ProgressBar::new(0));
            total.set_style(style("{bar:32.green} {pos}/{len} devices {msg}"));
            Bars { all, total, lines: IndexMap::new() }
        });
        Self { out, bars, shown: IndexMap::new() }
    }

    pub(super) fn show(&mut self, total: u64, unpublished: u64, deployments: &[Deployment]) {
        match &mut self.bars {
            Some(bars) => bars.show(total, unpublished, deployments),
            None => self.tell(deployments),
        }
    }

    /// Removes the bars.
    pub(super) fn end(&mut self) {
        if let Some(bars) = self.bars.take() {
            let _ = bars.all.clear();
        }
    }

    fn tell(&mut self, deployments: &[Deployment]) {
        for deployment in deployments {
            let over = deployment.state.is_settled();
            if !over && deployments.len() > VERBOSE_DEVICES_MAX {
                continue;
            }
            let news = news(deployment);
            if self.shown.get(&deployment.id) != Some(&news) {
                self.out.say(format!("{}: {news}", device_name(&deployment.client, &deployment.device)));
                self.shown.insert(deployment.id.clone(), news);
            }
        }
    }
}

impl Bars {
    fn show(&mut self, total: u64, unpublished: u64, deployments: &[Deployment]) {
        let count = |is: fn(DeploymentState) -> bool| deployments.iter().filter(|one| is(one.state)).count();
        let (done, failed) = (count(DeploymentState::is_done), count(|state| state == DeploymentState::Failed));
        self.total.set_length(total);
        self.total.set_position((done + failed) as u64);
        let open = if unpublished == 0 { String::new() } else { format!(", {unpublished} not published yet") };
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        self.total.set_message(format!("{done} done{failed}{open}"));
        let open = deployments.iter().filter(|one| !one.state.is_done());
        let open: IndexMap<_, _> = open.take(LINES_MAX).map(|one| (one.id.clone(), one)).collect();
        self.lines.retain(|id, line| {
            let stays = open.contains_key(id);
            if !stays {
                line.finish_and_clear();
            }
            stays
        });
        for (id, deployment) in open {
            let line = self.lines.entry(id).or_insert_with(|| {
                let line = self.all.add(ProgressBar::new_spinner());
                line.set_style(style("  {spinner} {msg}"));
                line.enable_steady_tick(Duration::from_millis(120));
                line
            });
            line.set_message(format!("{}: {}", device_name(&deployment.client, &deployment.device), news(deployment)));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a valid constant")
}

/// State of the deployment, and of its components if they differ from it.
fn news(deployment: &Deployment) -> String {
    let state = state_word(deployment);
    let over = deployment.state.is_done();
    let components = deployment.reported.as_ref().map(|status| status.components.as_slice()).unwrap_or_default();
    // A report from before this revision was published is about an earlier revision.
    let before = matches!(deployment.state, DeploymentState::Outdated | DeploymentState::Pending);
    if over || before || deployment.failed_with.is_some() || components.is_empty() {
        return state;
    }
    let parts = components.iter().map(|component| format!("{} {}", component.name, component.state));
    format!("{state} ({})", parts.collect::<Vec<_>>().join(", "))
}
