//! Long polls, with servers that support them, do not support them, or only claim to.

use super::messages::name;
use super::{Event, World};
use crate::simulation::violation::Violation;
use margrave_agent::machine::io::{Request, RequestId};
use margrave_core::time::Timestamp;
use rand::Rng as _;
use rand::rngs::StdRng;
use std::time::Duration;

/// How the server handles `Prefer: wait=N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LongPollSupport {
    /// Waits until the manifest or the policy changes, or the time is up.
    Honest,
    /// Another server: responds at once and does not claim to have waited.
    Ignored,
    /// Responds at once and claims to have waited.
    Claimed,
}

impl LongPollSupport {
    pub(crate) fn draw(dice: &mut StdRng) -> Self {
        match dice.random_range(0..4) {
            0 => Self::Ignored,
            1 => Self::Claimed,
            _ => Self::Honest,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct OpenLongPoll {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) until: Timestamp,
}

impl World {
    /// Stores a long poll; releases an older one of the same client.
    pub(super) fn hold(&mut self, held: OpenLongPoll) {
        let OpenLongPoll { node, life, id, until, .. } = held;
        self.note(format_args!("server starts a long poll of agent {node}"));
        self.held.retain(|older| older.node != node);
        self.held.push(held);
        self.schedule(until.since(self.now), Event::HoldEnds { node, life, id });
    }

    pub(super) async fn long_poll_ends(&mut self, node: usize, life: u32, id: RequestId) -> Result<(), Violation> {
        let found = self.held.iter().position(|held| (held.node, held.life, held.id) == (node, life, id));
        match found {
            Some(index) => {
                let held = self.held.swap_remove(index);
                self.answer_long_poll(held).await
            }
            None => Ok(()),
        }
    }

    /// Responds to every long poll whose result has changed.
    pub(super) async fn release_changed_polls(&mut self) -> Result<(), Violation> {
        let (changed, unchanged) = std::mem::take(&mut self.held).into_iter().partition(|held| self.is_news(held));
        self.held = unchanged;
        for held in changed {
            self.answer_long_poll(held).await?;
        }
        Ok(())
    }

    fn is_news(&self, held: &OpenLongPoll) -> bool {
        let Request::Poll { if_none_match: Some(etag), .. } = &held.request else { return true };
        let current = self.server.parts().heads.get(&self.nodes[held.node].client);
        current
            .is_none_or(|head| head.state != margrave_core::model::ClientState::Accepted || head.digest.etag() != *etag)
    }

    async fn answer_long_poll(&mut self, held: OpenLongPoll) -> Result<(), Violation> {
        let OpenLongPoll { node, life, id, request, until } = held;
        let client = self.nodes[node].client.clone();
        let mut response = self.server.handle(&client, &request, self.now, &self.options).await?;
        if let Request::Poll { wait, .. } = &request {
            response.waited = *wait;
        }
        let early = until.since(self.now) > Duration::ZERO;
        self.note(format_args!(
            "server ends long poll {} of {client}, early {early}: {}",
            name(&request),
            response.status
        ));
        self.answer_checked(node, &request, &response).await?;
        self.send_back(node, life, id, &request, &response);
        Ok(())
    }
}
