//! Capability reports: own device first, then children; vanished children are deleted (CAP-01, GW-02).

use super::Machine;
use super::io::{Answer, DeviceReport, Level, Record, Request};
use super::network::{LaneName, Sent};
use super::records::DevicesReported;
use super::report::Topic;
use super::schedule::problem_of;
use crate::codes::Code;
use margo::capabilities::DeviceCapabilities;
use margo::problem::ProblemType;
use margo::{DeviceId, Digest};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::collections::HashMap;

/// Some servers have no handler for DELETE (W-19): the agent gives up after this many attempts.
const DELETE_ATTEMPTS_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct Devices {
    /// Own device first. Empty until the shell has provided them.
    reports: Vec<DeviceReport>,
    sent_reports: HashMap<DeviceId, ReportAnswer>,
    record: DevicesReported,
    delete_attempts: u32,
}

/// The server's answer to a report, by digest of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReportAnswer {
    Taken(Digest),
    /// Sending the same report again cannot succeed.
    Refused(Digest),
}

impl Devices {
    pub(super) fn new(record: DevicesReported) -> Self {
        Self { reports: Vec::new(), sent_reports: HashMap::new(), record, delete_attempts: 0 }
    }
    pub(super) fn are_known(&self) -> bool {
        !self.reports.is_empty()
    }
    pub(super) fn own(&self) -> Option<&DeviceId> {
        self.reports.first().map(|report| &report.id)
    }
    pub(super) fn own_capabilities(&self) -> Option<&DeviceCapabilities> {
        self.reports.first().map(|report| &report.capabilities)
    }
    pub(super) fn capabilities(&self, device: &DeviceId) -> Option<&DeviceCapabilities> {
        self.reports.iter().find(|report| report.id == *device).map(|report| &report.capabilities)
    }
    pub(super) fn children_of<'a>(&'a self, gateway: &'a DeviceId) -> impl Iterator<Item = &'a DeviceReport> {
        self.reports.iter().filter(move |report| report.id.parent().as_ref() == Some(gateway))
    }
    pub(super) fn own_is_reported(&self) -> bool {
        self.reports.first().is_some_and(|report| self.answered(report))
    }
    pub(super) fn is_quiet(&self) -> bool {
        self.are_known() && self.reports.iter().all(|report| self.answered(report)) && self.vanished().is_none()
    }
    fn answered(&self, report: &DeviceReport) -> bool {
        let digest = Digest::of(&report.json);
        matches!(self.sent_reports.get(&report.id), Some(ReportAnswer::Taken(sent) | ReportAnswer::Refused(sent)) if *sent == digest)
    }
    fn vanished(&self) -> Option<&DeviceId> {
        // Deepest first: a child is deleted before its gateway.
        self.record.devices.iter().rev().find(|id| !self.reports.iter().any(|report| report.id == **id))
    }
}

impl Machine {
    pub(super) fn devices_changed(&mut self, reports: Vec<DeviceReport>, now: Timestamp) {
        if reports.is_empty() {
            return;
        }
        let changed = reports != self.devices.reports;
        self.devices.reports = reports;
        if changed {
            self.network.capabilities.attempts = 0;
            // Incompatible deployments may be compatible now.
            self.work.forget_retries();
            self.work.observe_soon(now);
        }
    }

    pub(super) fn next_capability_request(&self) -> Option<(Sent, Request)> {
        if let Some(report) = self.devices.reports.iter().find(|report| !self.devices.answered(report)) {
            let request = Request::PutCapabilities { device: report.id.clone(), json: report.json.clone() };
            return Some((Sent::PutCapabilities(report.id.clone()), request));
        }
        let vanished = self.devices.vanished()?.clone();
        Some((Sent::DeleteDevice(vanished.clone()), Request::DeleteDevice { device: vanished }))
    }

    pub(super) fn capabilities_answered(
        &mut self,
        device: DeviceId,
        answer: Answer,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        let Some(digest) =
            self.devices.reports.iter().find(|report| report.id == device).map(|report| Digest::of(&report.json))
        else {
            return;
        };
        let Answer::Response(response) = &answer else {
            self.request_failed(LaneName::Capabilities, "report capabilities", &answer, now, rng);
            return;
        };
        match response.status {
            200..=299 => {
                self.network.capabilities.succeeded(now);
                self.clear_trouble(Topic::Capabilities(device.clone()));
                self.log(Level::Info, None, None, format!("reported capabilities of device `{device}`"));
                self.devices.sent_reports.insert(device.clone(), ReportAnswer::Taken(digest));
                if !self.devices.record.devices.contains(&device) {
                    self.devices.record.devices.push(device);
                    let record = Record::Devices(self.devices.record.clone());
                    self.persist(vec![record]);
                }
            }
            // The server no longer has the gateway: start again with it (GW-02).
            404 if problem_of(response).and_then(|problem| problem.registered())
                == Some(ProblemType::GatewayNotFound)
                && device.parent().is_some() =>
            {
                self.devices.sent_reports.clear();
                let retry = self.settings.retry;
                let again = Answer::Failed { code: Code::CapabilitiesRefused, message: String::new() };
                self.network.capabilities.failed(&again, retry, now, rng);
            }
            _ if super::network::is_final(response) => {
                self.network.capabilities.succeeded(now);
                self.devices.sent_reports.insert(device.clone(), ReportAnswer::Refused(digest));
                let (_, message) =
                    super::network::explain_answer(&format!("report capabilities of `{device}`"), &answer);
                self.warn(Code::CapabilitiesRefused, None, message.clone());
                self.note_trouble(Topic::Capabilities(device), Code::CapabilitiesRefused, message, None, now);
            }
            _ => {
                self.request_failed(LaneName::Capabilities, "report capabilities", &answer, now, rng);
            }
        }
    }

    pub(super) fn delete_answered(&mut self, device: DeviceId, answer: Answer, now: Timestamp, rng: &mut dyn RngCore) {
        let gone = matches!(&answer, Answer::Response(response) if matches!(response.status, 200..=299 | 404));
        if !gone {
            self.request_failed(LaneName::Capabilities, "delete a device", &answer, now, rng);
            if matches!(answer, Answer::Response(_)) {
                self.devices.delete_attempts += 1;
            }
            if self.devices.delete_attempts < DELETE_ATTEMPTS_MAX {
                return;
            }
            self.warn(Code::CapabilitiesRefused, None, format!("the server does not delete device `{device}`"));
        }
        self.network.capabilities.succeeded(now);
        self.devices.delete_attempts = 0;
        self.devices.sent_reports.remove(&device);
        self.devices.record.devices.retain(|known| *known != device);
        let record = Record::Devices(self.devices.record.clone());
        self.persist(vec![record]);
    }
}
