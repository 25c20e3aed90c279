//! Change notifications for open pages: topics without data, so that pages reload. One reader for all viewers and at most one notice
//! per second, so that the cost depends on the viewers and not on the fleet.

use crate::state::ServerState;
use margrave_store::{EventFilter, EventOrder, EventRange};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Minimum time between two notices.
pub const PACE: Duration = Duration::from_secs(1);
/// Events read to determine the topics; with more events, all topics count as changed.
const EVENTS_READ_MAX: u32 = 200;

/// The subject of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    Devices,
    Deployments,
    Catalog,
    Settings,
    Activity,
}

impl Topic {
    pub const ALL: [Self; 5] = [Self::Devices, Self::Deployments, Self::Catalog, Self::Settings, Self::Activity];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Deployments => "deployments",
            Self::Catalog => "catalog",
            Self::Settings => "settings",
            Self::Activity => "activity",
        }
    }

    fn of(kind: &str) -> Self {
        match kind.split('.').next().unwrap_or_default() {
            "client" | "device" | "group" => Self::Devices,
            "deployment" | "rollout" => Self::Deployments,
            "application" | "copy" => Self::Catalog,
            "token" | "session" | "operator" | "enrollment" | "registry" => Self::Settings,
            _ => Self::Activity,
        }
    }
}

/// Number of changes per topic.
pub type Changed = [u64; Topic::ALL.len()];

#[derive(Debug)]
pub struct Notices(watch::Sender<Changed>);

impl Default for Notices {
    fn default() -> Self {
        Self(watch::Sender::new([0; Topic::ALL.len()]))
    }
}

impl Notices {
    pub fn subscribe(&self) -> watch::Receiver<Changed> {
        self.0.subscribe()
    }

    fn notify(&self, topics: impl Iterator<Item = Topic>) {
        let mut changed_topics: Vec<Topic> = topics.chain([Topic::Activity]).collect();
        changed_topics.dedup();
        self.0.send_modify(|changed| {
            for (topic, count) in Topic::ALL.into_iter().zip(changed.iter_mut()) {
                *count += u64::from(changed_topics.contains(&topic));
            }
        });
    }
}

/// The topics that differ, in order.
pub fn differing(before: &Changed, now: &Changed) -> Vec<Topic> {
    let pairs = before.iter().zip(now);
    Topic::ALL.into_iter().zip(pairs).filter(|(_, (before, now))| before != now).map(|(topic, _)| topic).collect()
}

/// Watches the events for all viewers.
pub async fn run(state: ServerState, stop: CancellationToken) {
    let mut news = state.store.events_newest();
    let mut position = *news.borrow_and_update();
    loop {
        let changed = tokio::select! {
            () = stop.cancelled() => return,
            changed = news.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let newest = *news.borrow_and_update();
        if state.notices.0.receiver_count() > 0 {
            notify(&state, position, newest).await;
        }
        position = newest;
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(PACE) => {}
        }
    }
}

async fn notify(state: &ServerState, position: i64, newest: i64) {
    let range = EventRange { above: position, below: newest.saturating_add(1) };
    let read =
        state.store.events_page(&EventFilter::default(), range, EventOrder::OldestFirst, EVENTS_READ_MAX + 1).await;
    match read {
        Ok(events) if events.len() <= EVENTS_READ_MAX as usize => {
            state.notices.notify(events.iter().map(|event| Topic::of(&event.what.kind)));
        }
        Ok(_) => state.notices.notify(Topic::ALL.into_iter()),
        Err(error) => {
            state.metrics.store_error();
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot read events for open pages");
            state.notices.notify(Topic::ALL.into_iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_only_the_changed_topics() {
        let notices = Notices::default();
        let viewer = notices.subscribe();
        let before = *viewer.borrow();
        notices.notify(["client.offline", "client.online"].map(Topic::of).into_iter());
        let now = *viewer.borrow();
        assert_eq!(differing(&before, &now), [Topic::Devices, Topic::Activity]);
        assert_eq!(differing(&now, &now), []);
    }

    #[test]
    fn combines_many_events_into_one_notice() {
        let notices = Notices::default();
        notices.notify(std::iter::repeat_n(Topic::Deployments, 1000));
        assert_eq!(*notices.subscribe().borrow(), [0, 1, 0, 0, 1]);
    }
}
