//! Polls that are held until there is news, by servers that do it, do not do it, or only say so.

use super::messages::name;
use super::{Event, World};
use crate::simulation::violation::Violation;
use margrave_agent::machine::io::{Request, RequestId};
use margrave_core::time::Timestamp;
use rand::Rng as _;
use rand::rngs::StdRng;
use std::time::Duration;

/// What the server of a world makes of `Prefer: wait=N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Holds the poll until its manifest or the policy changes, or its time is up.
    Honest,
    /// Another server: answers at once and says nothing about it.
    Ignored,
    /// Answers at once and says that it has waited.
    Claimed,
}

impl Holding {
    pub(crate) fn draw(dice: &mut StdRng) -> Self {
        match dice.random_range(0..4) {
            0 => Self::Ignored,
            1 => Self::Claimed,
            _ => Self::Honest,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) until: Timestamp,
}

impl World {
    /// Keeps a poll; an older one of the same client is let go.
    pub(super) fn hold(&mut self, held: Held) {
        let Held { node, life, id, until, .. } = held;
        self.note(format_args!("server holds a poll of agent {node}"));
        self.held.retain(|older| older.node != node);
        self.held.push(held);
        self.schedule(until.since(self.now), Event::HoldEnds { node, life, id });
    }

    pub(super) async fn hold_ends(&mut self, node: usize, life: u32, id: RequestId) -> Result<(), Violation> {
        let found = self.held.iter().position(|held| (held.node, held.life, held.id) == (node, life, id));
        match found {
            Some(index) => {
                let held = self.held.swap_remove(index);
                self.answer_held(held).await
            }
            None => Ok(()),
        }
    }

    /// Answers every held poll that an ordinary poll would not be told the same any more.
    pub(super) async fn let_go(&mut self) -> Result<(), Violation> {
        let (changed, unchanged) = std::mem::take(&mut self.held).into_iter().partition(|held| self.is_news(held));
        self.held = unchanged;
        for held in changed {
            self.answer_held(held).await?;
        }
        Ok(())
    }

    fn is_news(&self, held: &Held) -> bool {
        let Request::Poll { if_none_match: Some(etag), .. } = &held.request else { return true };
        let current = self.server.parts().heads.get(&self.nodes[held.node].client);
        current
            .is_none_or(|head| head.state != margrave_core::model::ClientState::Accepted || head.digest.etag() != *etag)
    }

    async fn answer_held(&mut self, held: Held) -> Result<(), Violation> {
        let Held { node, life, id, request, until } = held;
        let client = self.nodes[node].client.clone();
        let mut response = self.server.handle(&client, &request, self.now, &self.options).await?;
        if let Request::Poll { wait, .. } = &request {
            response.waited = *wait;
        }
        let early = until.since(self.now) > Duration::ZERO;
        self.note(format_args!("server lets {} of {client} go, early {early}: {}", name(&request), response.status));
        self.answer_checked(node, &request, &response).await?;
        self.send_back(node, life, id, &request, &response);
        Ok(())
    }
}
