//! Progress per device and component: bars at a terminal, one line per news elsewhere.

use super::{device_name, state_word};
use crate::output::Output;
use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use margrave_api::deployments::{Convergence, Deployment};
use std::time::Duration;

/// Devices at work that get a line of their own at a terminal; more would scroll.
const LINES_MAX: usize = 12;
/// Above this many devices, only the end of each is told in a pipe.
const CHATTY_MAX: usize = 100;

pub(super) struct Progress {
    out: Output,
    bars: Option<Bars>,
    told: IndexMap<String, String>,
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
        Self { out, bars, told: IndexMap::new() }
    }

    pub(super) fn show(&mut self, total: u64, unpublished: u64, deployments: &[Deployment]) {
        match &mut self.bars {
            Some(bars) => bars.show(total, unpublished, deployments),
            None => self.tell(deployments),
        }
    }

    /// Leaves the terminal as it was.
    pub(super) fn end(&mut self) {
        if let Some(bars) = self.bars.take() {
            let _ = bars.all.clear();
        }
    }

    fn tell(&mut self, deployments: &[Deployment]) {
        for deployment in deployments {
            let over = matches!(deployment.convergence, Convergence::Converged | Convergence::Failed);
            if !over && deployments.len() > CHATTY_MAX {
                continue;
            }
            let news = news(deployment);
            if self.told.get(&deployment.id) != Some(&news) {
                self.out.say(format!("{}: {news}", device_name(&deployment.client, &deployment.device)));
                self.told.insert(deployment.id.clone(), news);
            }
        }
    }
}

impl Bars {
    fn show(&mut self, total: u64, unpublished: u64, deployments: &[Deployment]) {
        let count = |convergence| deployments.iter().filter(|one| one.convergence == convergence).count();
        let (done, failed) = (count(Convergence::Converged), count(Convergence::Failed));
        self.total.set_length(total);
        self.total.set_position((done + failed) as u64);
        let open = if unpublished == 0 { String::new() } else { format!(", {unpublished} still to be published") };
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        self.total.set_message(format!("{done} done{failed}{open}"));
        let open = deployments.iter().filter(|one| one.convergence != Convergence::Converged);
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
    ProgressStyle::with_template(template).expect("the template is a constant of this file")
}

/// State of the deployment, and of its components while they differ from it.
fn news(deployment: &Deployment) -> String {
    let state = state_word(deployment);
    let over = deployment.convergence == Convergence::Converged;
    let components = deployment.status.as_ref().map(|status| status.components.as_slice()).unwrap_or_default();
    // What was said before it was told this is not about this.
    let before = matches!(deployment.convergence, Convergence::OlderRevision | Convergence::Waiting);
    if over || before || deployment.failed_with.is_some() || components.is_empty() {
        return state;
    }
    let parts = components.iter().map(|component| format!("{} {}", component.name, component.state));
    format!("{state} ({})", parts.collect::<Vec<_>>().join(", "))
}
