//! Message faults: lost, duplicated, late, reordered, corrupted.

use super::long_polls::{LongPollSupport, OpenLongPoll};
use super::{Event, World};
use crate::simulation::violation::Violation;
use margrave_agent::codes::Code;
use margrave_agent::machine::io::{Answer, Request, RequestId, Response};
use rand::Rng as _;
use std::time::Duration;

/// How long an agent waits for a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest delay of a message: longer than the agent's timeout.
const DELAY_MS_MAX: u64 = 25_000;

impl World {
    /// Sends a request. Whatever happens to it, the agent gets exactly one result or timeout.
    pub(super) fn send(&mut self, node: usize, life: u32, id: RequestId, request: Request) {
        self.note(format_args!("agent {node} requests {}", name(&request)));
        let refused = self.nodes[node].partitioned || (!self.server.is_up() && self.chance(0.5));
        if refused {
            let answer = failed("connection refused");
            let delay = self.between_ms(1, 100);
            return self.schedule(delay, Event::Answered { node, life, id, answer });
        }
        let wait = match &request {
            Request::Poll { wait, .. } => Duration::from_secs(wait.unwrap_or(0)),
            _ => Duration::ZERO,
        };
        self.schedule(wait + PATIENCE, Event::Answered { node, life, id, answer: failed("timed out") });
        let copies = if self.chance(self.faults.duplicated) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.chance(self.faults.lost) {
                let delay = self.latency();
                self.schedule(delay, Event::Arrives { node, life, id, request: request.clone() });
            }
        }
    }

    fn latency(&mut self) -> Duration {
        if self.chance(self.faults.very_late) {
            return self.between_ms(1_000, DELAY_MS_MAX);
        }
        self.between_ms(1, 300)
    }

    pub(super) async fn arrives(
        &mut self,
        node: usize,
        life: u32,
        id: RequestId,
        request: Request,
    ) -> Result<(), Violation> {
        if !self.server.is_up() {
            return Ok(());
        }
        if is_write(&request) {
            if (life, id) < self.nodes[node].newest_write {
                return Ok(());
            }
            self.nodes[node].newest_write = (life, id);
        }
        let crash = self.chance(self.faults.crash_in_request);
        if crash && self.chance(0.5) {
            self.server_dies();
            return Ok(());
        }
        let client = self.nodes[node].client.clone();
        let mut response = self.server.handle(&client, &request, self.now, &self.options).await?;
        if let (Request::Poll { wait: Some(seconds), .. }, 304) = (&request, response.status) {
            match self.holding {
                LongPollSupport::Ignored => {}
                LongPollSupport::Claimed => response.waited = Some(*seconds),
                LongPollSupport::Honest if crash => {}
                LongPollSupport::Honest => {
                    let length = Duration::from_secs(*seconds);
                    self.hold(OpenLongPoll { node, life, id, request, until: self.now.plus(length) });
                    return Ok(());
                }
            }
        }
        self.note(format_args!("server responds to {} of {client}: {}", name(&request), response.status));
        // Committed; a crash from here on loses only the response.
        self.answer_checked(node, &request, &response).await?;
        if crash {
            self.server_dies();
            return Ok(());
        }
        self.send_back(node, life, id, &request, &response);
        Ok(())
    }

    /// Sends a response.
    pub(super) fn send_back(&mut self, node: usize, life: u32, id: RequestId, request: &Request, response: &Response) {
        let copies = if self.chance(self.faults.duplicated) { 2 } else { 1 };
        for _ in 0..copies {
            if self.chance(self.faults.lost) || self.nodes[node].partitioned {
                continue;
            }
            let response = self.travel(node, request, response.clone());
            let delay = self.latency();
            self.schedule(delay, Event::Answered { node, life, id, answer: Answer::Response(response) });
        }
    }

    /// Records a response in the checker.
    pub(super) async fn answer_checked(
        &mut self,
        node: usize,
        request: &Request,
        response: &Response,
    ) -> Result<(), Violation> {
        let client = self.nodes[node].client.clone();
        match request {
            Request::Poll { .. } if response.status == 200 => {
                self.checker.manifest_served(&client, &response.body, response.etag.as_deref())
            }
            Request::PostStatus { deployment, json } if (200..300).contains(&response.status) => {
                self.checker.status_acknowledged(json);
                let reported = self.server.reported(*deployment).await?;
                self.checker.status_kept(*deployment, reported.as_ref(), &[])
            }
            _ => Ok(()),
        }
    }

    /// A broken proxy, a stale cache, a hostile peer: bytes other than the server sent.
    fn travel(&mut self, node: usize, request: &Request, response: Response) -> Response {
        let is_body = response.status == 200 && !response.body.is_empty();
        if !is_body || is_write(request) || !self.chance(self.faults.garbled) {
            return response;
        }
        let client = self.nodes[node].client.clone();
        let mut response = response;
        let older = matches!(request, Request::Poll { .. }).then(|| self.server.older_manifest(&client)).flatten();
        match (self.dice.random_range(0..2), older) {
            (0, Some(older)) => response = older,
            // Only TLS protects a manifest from changed bytes, so only artifacts are corrupted this way.
            (0, None) if !matches!(request, Request::Poll { .. }) => {
                let at = self.dice.random_range(0..response.body.len());
                response.body[at] ^= 0x01;
            }
            _ => response.body.truncate(response.body.len() / 2),
        }
        self.note(format_args!("a response to {client} is corrupted"));
        response
    }
}

/// Requests that change something at the server.
fn is_write(request: &Request) -> bool {
    match request {
        Request::PutCapabilities { .. } | Request::DeleteDevice { .. } | Request::PostStatus { .. } => true,
        Request::Poll { .. } | Request::FetchBundle { .. } | Request::FetchYaml { .. } => false,
    }
}

fn failed(message: &str) -> Answer {
    Answer::Failed { code: Code::ServerUnreachable, message: message.to_owned() }
}

pub(super) fn name(request: &Request) -> String {
    match request {
        Request::PutCapabilities { device, .. } => format!("put {device}"),
        Request::DeleteDevice { device } => format!("delete {device}"),
        Request::Poll { if_none_match, wait } => format!("poll {} {wait:?}", if_none_match.is_some()),
        Request::FetchBundle { path } | Request::FetchYaml { path } => format!("fetch {path}"),
        Request::PostStatus { deployment, json } => format!("status {deployment} {}", String::from_utf8_lossy(json)),
    }
}
