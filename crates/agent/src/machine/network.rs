//! Scheduling of requests: one at a time, besides a long poll.

use super::Machine;
use super::io::{Answer, Effect, Level, Request, RequestId, Response};
use super::long_poll::{LongPoll, Wait};
use super::report::Topic;
use super::schedule::{Lane, problem_of, requested_delay};
use crate::codes::Code;
use margo::DeploymentId;
use margo::problem::ProblemType;
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// Capabilities come first (CAP-01), but a server that fails on them must not keep a device from its desired state.
const CAPABILITIES_ATTEMPTS_BEFORE_POLL: u32 = 3;

/// Each kind of request has its own backoff, so that a server that fails on one still gets the others.
#[derive(Debug)]
pub(super) struct Network {
    busy: Option<(RequestId, Sent)>,
    /// The long poll in flight; no other request waits for it.
    held: Option<(RequestId, Wait)>,
    pub(super) hold: LongPoll,
    pub(super) capabilities: Lane,
    pub(super) desired: Lane,
    pub(super) statuses: Lane,
    /// Set by a poke: poll now, within what the server allows.
    not_before: Timestamp,
    /// Since when the server has rejected this client.
    refused_since: Option<Timestamp>,
}

/// The request in flight, to interpret its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sent {
    PutCapabilities(margo::DeviceId),
    DeleteDevice(margo::DeviceId),
    Poll { conditional: bool, wait: Option<Wait> },
    FetchBundle,
    FetchYaml(DeploymentId),
    PostStatus { deployment: DeploymentId, sequence: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneName {
    Capabilities,
    Desired,
    Statuses,
}

impl Network {
    pub(super) fn new(first_poll: Timestamp) -> Self {
        Self {
            busy: None,
            held: None,
            hold: LongPoll::new(first_poll),
            capabilities: Lane::at(first_poll),
            desired: Lane::at(first_poll),
            statuses: Lane::at(first_poll),
            not_before: Timestamp::default(),
            refused_since: None,
        }
    }
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_none()
    }
    pub(super) fn poke(&mut self, now: Timestamp) {
        // After a failure the backoff stays: the server may have requested it.
        for lane in [&mut self.capabilities, &mut self.desired, &mut self.statuses] {
            if lane.attempts == 0 {
                lane.due = lane.due.min(now.max(self.not_before));
            }
        }
    }
    pub(super) fn shift_back(&mut self, back: Duration) {
        for lane in [&mut self.capabilities, &mut self.desired, &mut self.statuses] {
            lane.due = lane.due.minus(back);
        }
        self.not_before = self.not_before.minus(back);
        self.refused_since = self.refused_since.map(|since| since.minus(back));
        self.hold.shift_back(back);
        if let Some((_, wait)) = &mut self.held {
            wait.sent_at = wait.sent_at.minus(back);
        }
    }
    pub(super) fn lane(&mut self, name: LaneName) -> &mut Lane {
        match name {
            LaneName::Capabilities => &mut self.capabilities,
            LaneName::Desired => &mut self.desired,
            LaneName::Statuses => &mut self.statuses,
        }
    }
    /// Whether the other lanes have to wait for the first capability report.
    fn capabilities_first(&self, reported: bool) -> bool {
        !reported && self.capabilities.attempts < CAPABILITIES_ATTEMPTS_BEFORE_POLL
    }
}

impl Machine {
    /// Sends what is due, in the order of the standard: capabilities, then reports, then desired state.
    pub(super) fn advance_network(&mut self, now: Timestamp) {
        if !self.network.is_idle() || !self.devices.are_known() {
            return;
        }
        let calendar = &self.settings.poll.calendar;
        if calendar.talk_from(now) > now {
            return;
        }
        if self.network.capabilities.due <= now
            && let Some((sent, request)) = self.next_capability_request()
        {
            return self.send(sent, request);
        }
        if self.network.capabilities_first(self.devices.own_is_reported()) {
            return;
        }
        if self.network.statuses.due <= now
            && let Some((sent, request)) = self.next_status_request()
        {
            return self.send(sent, request);
        }
        if !self.desired_is_free() {
            return;
        }
        if let Some((sent, request)) = self.next_fetch() {
            if self.network.desired.due <= now {
                self.send(sent, request);
            }
        } else if self.network.held.is_none()
            && self.poll_due() <= now
            && self.settings.poll.calendar.poll_from(now) <= now
        {
            self.poll(now);
        }
    }

    fn poll(&mut self, now: Timestamp) {
        let if_none_match = self.if_none_match();
        let conditional = if_none_match.is_some();
        // The first poll is not a long poll: the state of the server must be known at once.
        let may_wait = conditional && self.polled_at.is_some();
        let seconds = if may_wait { self.network.hold.seconds(&self.settings.poll, now) } else { None };
        let wait = seconds.map(|seconds| Wait { seconds, sent_at: now });
        self.network.hold.from = None;
        self.send(Sent::Poll { conditional, wait }, Request::Poll { if_none_match, wait: seconds });
    }

    /// When the next poll is due: after the period, or earlier as a long poll.
    pub(super) fn poll_due(&self) -> Timestamp {
        let Network { desired, hold, not_before, .. } = &self.network;
        match hold.from {
            Some(from)
                if !self.settings.poll.long_poll.is_zero()
                    && desired.attempts == 0
                    && self.pending.is_none()
                    && self.if_none_match().is_some() =>
            {
                desired.due.min(from.max(*not_before))
            }
            _ => desired.due,
        }
    }

    pub(super) fn network_wake(&self, now: Timestamp) -> Timestamp {
        let calendar = &self.settings.poll.calendar;
        let far = now.plus(Duration::from_hours(1));
        if !self.network.is_idle() || !self.devices.are_known() {
            return far;
        }
        let mut wake = far;
        if self.next_capability_request().is_some() {
            wake = wake.min(calendar.talk_from(self.network.capabilities.due.max(now)));
        }
        if self.network.capabilities_first(self.devices.own_is_reported()) {
            return wake;
        }
        if self.statuses.next_undelivered().is_some() {
            wake = wake.min(calendar.talk_from(self.network.statuses.due.max(now)));
        }
        if self.desired_is_free() {
            if self.next_fetch().is_some() {
                wake = wake.min(calendar.talk_from(self.network.desired.due.max(now)));
            } else if self.network.held.is_none() {
                wake = wake.min(calendar.poll_from(self.poll_due().max(now)));
            }
        }
        wake
    }

    fn send(&mut self, sent: Sent, request: Request) {
        let id = RequestId(self.id());
        match sent {
            Sent::Poll { wait: Some(wait), .. } => self.network.held = Some((id, wait)),
            sent => self.network.busy = Some((id, sent)),
        }
        self.effects.push(Effect::Request { id, request });
    }

    pub(super) fn answered(&mut self, request: RequestId, answer: Answer, now: Timestamp, rng: &mut dyn RngCore) {
        // Late or repeated answers are ignored.
        let held = self.network.held.take_if(|(id, _)| *id == request);
        let sent = match held {
            Some((_, wait)) => Sent::Poll { conditional: true, wait: Some(wait) },
            None => match self.network.busy.take_if(|(id, _)| *id == request) {
                Some((_, sent)) => sent,
                None => return,
            },
        };
        if let Answer::Response(response) = &answer {
            self.clear_trouble(Topic::Server);
            if response.status < 400 {
                self.network.refused_since = None;
            }
        }
        match sent {
            Sent::PutCapabilities(device) => self.capabilities_answered(device, answer, now, rng),
            Sent::DeleteDevice(device) => self.delete_answered(device, answer, now, rng),
            Sent::Poll { conditional, wait } => self.poll_answered(conditional, wait, answer, now, rng),
            Sent::FetchBundle => self.bundle_answered(answer, now, rng),
            Sent::FetchYaml(deployment) => self.yaml_answered(deployment, answer, now, rng),
            Sent::PostStatus { deployment, sequence } => self.status_answered(deployment, sequence, answer, now, rng),
        }
    }

    /// The request failed. Workloads keep running; the lane backs off.
    pub(super) fn request_failed(
        &mut self,
        lane: LaneName,
        what: &str,
        answer: &Answer,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) -> Code {
        let retry = self.settings.retry;
        self.network.lane(lane).failed(answer, retry, now, rng);
        let (code, message) = explain_answer(what, answer);
        let mut due = self.network.lane(lane).due;
        if code == Code::NotAuthorized {
            // An operator must accept this client first, possibly soon: retry often at first, then less and less often.
            let since = *self.network.refused_since.get_or_insert(now);
            let wait = self.settings.poll.after_refusal(now.since(since), rng);
            due = now.plus(requested_delay(answer, now, rng).map_or(wait, |requested| requested.max(wait)));
            self.network.lane(lane).due = due;
        }
        if matches!(
            code,
            Code::NotAuthorized
                | Code::ServerBusy
                | Code::ServerUnreachable
                | Code::ServerNotTrusted
                | Code::IdentityUnusable
        ) {
            // This concerns the server or this client, not the request: it applies to every lane.
            for lane in [LaneName::Capabilities, LaneName::Desired, LaneName::Statuses] {
                let lane = self.network.lane(lane);
                lane.due = lane.due.max(due);
            }
            self.network.not_before = due;
        }
        self.note_trouble(Topic::Server, code, message, Some(due), now);
        code
    }
}

/// The error code and message of a failed request.
pub(super) fn explain_answer(what: &str, answer: &Answer) -> (Code, String) {
    match answer {
        Answer::Failed { code, message } => (*code, format!("{what}: {message}")),
        Answer::Response(response) => {
            let code = code_of(response);
            (code, format!("{what}: the server answered {}{}", response.status, detail(response)))
        }
    }
}

/// Whether the same report can never succeed. Only the server itself decides this: by a registered problem type, or by
/// a status about the content. A bare 404 or 407 may come from a proxy (PRB-04).
pub(super) fn is_final(response: &Response) -> bool {
    match (problem_of(response).and_then(|problem| problem.registered()), response.status) {
        // These may change with time or policy.
        (Some(ProblemType::NotAuthorized), _) | (_, 401 | 403 | 408 | 425 | 429) => false,
        (Some(_), 400..=499) | (None, 400 | 413 | 422) => true,
        _ => false,
    }
}

fn code_of(response: &Response) -> Code {
    // PRB-04: the type decides; without a known one the status does.
    let registered = problem_of(response).and_then(|problem| problem.registered());
    match (registered, response.status) {
        (Some(ProblemType::NotAuthorized), _) | (_, 401 | 403) => Code::NotAuthorized,
        (_, 429 | 503) => Code::ServerBusy,
        (_, 500..) => Code::ServerError,
        _ => Code::AnswerUnexpected,
    }
}

/// The longest part of a server's explanation that goes into a log line.
const DETAIL_CHARS_MAX: usize = 300;

fn detail(response: &Response) -> String {
    let Some(problem) = problem_of(response) else { return String::new() };
    let text = problem.detail.unwrap_or(problem.title);
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({})", text.chars().take(DETAIL_CHARS_MAX).collect::<String>())
    }
}

impl Machine {
    pub(super) fn warn(&mut self, code: Code, deployment: Option<DeploymentId>, message: impl Into<String>) {
        let level = if code.is_security() { Level::Error } else { Level::Warn };
        self.log(level, Some(code), deployment, message);
    }
}
