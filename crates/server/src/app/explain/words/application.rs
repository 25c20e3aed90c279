//! One application in words.

use super::deployment::publishing;
use super::{With as _, all_fine, count, fact};
use margrave_api::explain::{Explanation, Fact};
use margrave_core::convergence::Convergence;
use margrave_core::time::Timestamp;
use margrave_store::Coming;
use std::collections::BTreeMap;

/// What is known of an application.
pub(in crate::app::explain) struct Facts {
    pub(in crate::app::explain) application: String,
    /// Newest import first.
    pub(in crate::app::explain) versions: Vec<(String, Timestamp)>,
    /// Deployments by version.
    pub(in crate::app::explain) deployments: BTreeMap<String, BTreeMap<Convergence, u64>>,
    pub(in crate::app::explain) fit: Fit,
    pub(in crate::app::explain) coming: Vec<Coming>,
    /// Some of those that failed.
    pub(in crate::app::explain) failed: Vec<Failed>,
}

/// A deployment that failed.
pub(in crate::app::explain) struct Failed {
    pub(in crate::app::explain) id: String,
    /// Client and device.
    pub(in crate::app::explain) place: String,
    pub(in crate::app::explain) why: String,
}

/// Where the newest version could run.
#[derive(Debug, Clone, Default)]
pub struct Fit {
    /// Devices looked at.
    pub(in crate::app::explain) judged: u64,
    /// Devices there are.
    pub(in crate::app::explain) devices: u64,
    pub(in crate::app::explain) fits: u64,
    pub(in crate::app::explain) unfit: u64,
    pub(in crate::app::explain) unknown: u64,
    /// Why not, the commonest reason first.
    pub(in crate::app::explain) reasons: Vec<(String, u64)>,
}

impl Facts {
    fn of(&self, is: impl Fn(Convergence) -> bool) -> u64 {
        let counts = self.deployments.values().flatten();
        counts.filter(|(convergence, _)| is(**convergence)).map(|(_, count)| count).sum()
    }
}

pub(in crate::app::explain) fn explain(facts: &Facts) -> Explanation {
    let (state, summary) = summary(facts);
    Explanation {
        subject: format!("application/{}", facts.application),
        state: state.to_owned(),
        summary,
        desired: desired(facts),
        known: known(facts),
        waiting_for: waiting_for(facts),
        would_change_it: would_change_it(facts),
    }
}

fn summary(facts: &Facts) -> (&'static str, String) {
    let total = facts.of(|_| true);
    let converged = facts.of(|convergence| convergence == Convergence::Converged);
    let failed = facts.of(|convergence| convergence == Convergence::Failed);
    if failed > 0 {
        return ("failing", format!("{converged} of {total} deployments are as desired, {failed} failed"));
    }
    if converged < total || !facts.coming.is_empty() {
        return ("waiting", format!("{converged} of {total} deployments are as desired"));
    }
    if total > 0 {
        return ("fine", all_fine(total));
    }
    if facts.fit.fits == 0 && facts.fit.judged > 0 {
        return ("blocked", "it runs nowhere, and no device that was judged can run the newest version".to_owned());
    }
    ("unused", "it is in the catalog and runs nowhere".to_owned())
}

fn desired(facts: &Facts) -> Vec<Fact> {
    let by_version = facts.deployments.iter().map(|(version, counts)| (version, counts.values().sum::<u64>()));
    let desired: Vec<Fact> = by_version
        .filter(|(_, total)| *total > 0)
        .map(|(version, total)| {
            let sentence = format!("version {version} should run in {}", count(total, "place"));
            fact("present", sentence).value("version", version.as_str()).value("deployments", total)
        })
        .collect();
    if desired.is_empty() { vec![fact("nothing", "it should run nowhere")] } else { desired }
}

fn known(facts: &Facts) -> Vec<Fact> {
    let mut known = Vec::new();
    if let Some((newest, imported)) = facts.versions.first() {
        let total = facts.versions.len() as u64;
        let sentence = format!("the catalog has {}, the newest is {newest}", count(total, "version"));
        known.push(
            fact("versions", sentence).since(*imported).value("versions", total).value("newest", newest.as_str()),
        );
    }
    for (version, counts) in &facts.deployments {
        for (convergence, number) in counts.iter().filter(|(_, number)| **number > 0) {
            let sentence =
                format!("version {version}: {} {}", count(*number, "deployment"), state_word(*convergence, *number));
            known.push(
                fact(convergence.as_str(), sentence).value("version", version.as_str()).value("deployments", *number),
            );
        }
    }
    let Fit { judged, devices, fits, unfit, unknown, reasons } = &facts.fit;
    let which = if judged < devices {
        format!("of the first {judged} of {devices} devices")
    } else {
        format!("of {}", count(*devices, "device"))
    };
    let rest = match unknown {
        0 => format!(" and {unfit} cannot"),
        unknown => format!(", {unfit} cannot, and of {unknown} it is not known"),
    };
    let sentence = match devices {
        0 => "no device has joined yet".to_owned(),
        _ => format!("{which}, {fits} can run the newest version{rest}"),
    };
    known.push(
        fact("fit", sentence)
            .value("judged", *judged)
            .value("devices", *devices)
            .value("fits", *fits)
            .value("doesNotFit", *unfit)
            .value("unknown", *unknown),
    );
    for (reason, number) in reasons {
        known.push(fact("unfit-reason", format!("{}: {reason}", count(*number, "device"))).value("devices", *number));
    }
    known
}

fn state_word(convergence: Convergence, number: u64) -> &'static str {
    match (convergence, number) {
        (Convergence::Converged, 1) => "is as desired",
        (Convergence::Converged, _) => "are as desired",
        (Convergence::Applying, 1) => "is being applied",
        (Convergence::Applying, _) => "are being applied",
        (Convergence::Failed, _) => "failed",
        (Convergence::OlderRevision, 1) => "is on an older revision",
        (Convergence::OlderRevision, _) => "are on an older revision",
        (Convergence::Waiting, 1) => "waits for its device",
        (Convergence::Waiting, _) => "wait for their devices",
        (Convergence::NotHeardOf, 1) => "waits for a device that is silent",
        (Convergence::NotHeardOf, _) => "wait for devices that are silent",
    }
}

fn waiting_for(facts: &Facts) -> Vec<Fact> {
    let mut waiting: Vec<Fact> = facts.coming.iter().map(publishing).collect();
    let mut note = |code: &str, number: u64, words: &str| {
        if number > 0 {
            waiting.push(fact(code, format!("{} {words}", count(number, "device"))).value("deployments", number));
        }
    };
    let is = |wanted: Convergence| facts.of(move |convergence| convergence == wanted);
    note("next-report", is(Convergence::Applying), "to finish and report");
    note("next-poll", is(Convergence::Waiting) + is(Convergence::OlderRevision), "to fetch the manifest and report");
    note("contact", is(Convergence::NotHeardOf), "to call the server");
    note("cause-removed", is(Convergence::Failed), "where the cause of a failure has to go away");
    waiting
}

fn would_change_it(facts: &Facts) -> Vec<Fact> {
    let name = &facts.application;
    let mut would = Vec::new();
    let about = || format!("application/{name}");
    for Failed { id, place, why } in &facts.failed {
        would.push(
            fact("explain-deployment", format!("removing the cause on `{place}`: {why}"))
                .about(format!("deployment/{id}"))
                .command(format!("margrave deployment explain {id}"))
                .value("device", place.as_str()),
        );
    }
    if facts.of(|convergence| convergence == Convergence::NotHeardOf) > 0 {
        would.push(
            fact("list-silent", "devices that are silent and call the server again")
                .about(about())
                .command(format!("margrave deployment list --app {name} --state not-heard-of")),
        );
    }
    if facts.fit.unfit + facts.fit.unknown > 0 {
        would.push(
            fact("show-fit", "other labels or capabilities, reported by the devices that do not fit")
                .about(about())
                .command(format!("margrave app fit {name} --reasons")),
        );
    }
    if facts.of(|_| true) == 0 && facts.fit.fits > 0 {
        would.push(
            fact("deploy", "deploying it brings it to devices")
                .about(about())
                .command(format!("margrave deploy {name}")),
        );
    }
    if facts.of(|_| true) == 0 && facts.fit.devices == 0 {
        would.push(fact("join", "a device that joins and can run it").about(about()));
    }
    if would.is_empty() {
        would.push(fact("operator", "a new version, other answers or a removal, by an operator"));
    }
    would
}

#[cfg(test)]
mod tests;
