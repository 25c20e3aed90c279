//! Background loops: write last-seen times, detect offline clients, prune, renew and reload certificates.

use crate::app::{notices, overview};
use crate::identity::watched_files;
use crate::registry::run_collector;
use crate::state::ServerState;
use margo::ids::ClientId;
use margrave_core::time::Timestamp;
use margrave_store::{OFFLINE_MAX, Retention, SeenAt};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Last-seen times of this period may be lost when the machine fails.
const SEEN_EVERY: Duration = Duration::from_secs(5);
/// Lists use stored times: an online client must not look offline because its last-seen time is not written yet.
const SEEN_SHARE: u32 = 5;
/// Lower bound, however short `offline_after` is.
const SEEN_EVERY_MIN: Duration = Duration::from_millis(200);
/// Interval of the offline check; shorter than any sensible `offline_after`.
const SILENCE_EVERY: Duration = Duration::from_secs(15);
/// On a shared database: how long a stream may miss events of another server.
const EVENTS_EVERY: Duration = Duration::from_secs(1);
/// On a shared database: how long a polling device may get outdated answers after another server wrote.
const HEADS_EVERY: Duration = Duration::from_secs(5);
/// The same for a long poll: updates should reach it within a second.
const HEADS_EVERY_HELD: Duration = Duration::from_millis(400);
/// Audit records read at a time; a batch of the publisher writes two hundred at most.
const HEADS_RECORDS: u32 = 1_000;
/// Interval of SQLite write-ahead log checkpoints. A page that was written many times is moved once.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(500);
/// A replaced certificate file is noticed within this time.
const FILES_EVERY: Duration = Duration::from_secs(1);
/// Interval of the renewal check; the shortest certificate allowed lives a minute.
const RENEWAL_EVERY: Duration = Duration::from_secs(15);

pub(super) fn start(state: &ServerState, place_read: i64, stop: &CancellationToken, loops: &TaskTracker) {
    loops.spawn(seen(state.clone(), stop.clone()));
    loops.spawn(notices::run(state.clone(), stop.clone()));
    if state.config.listeners.operators.enabled {
        loops.spawn(overview::run(state.clone(), stop.clone()));
    }
    if state.store.is_shared() {
        loops.spawn(heads(state.clone(), place_read, stop.clone()));
        loops.spawn(events(state.clone(), stop.clone()));
    }
    loops.spawn(checkpoints(state.clone(), stop.clone()));
    loops.spawn(prune(state.clone(), stop.clone()));
    loops.spawn(certificates(state.clone(), stop.clone()));
    if let Some(hosted) = &state.registry {
        loops.spawn(run_collector(hosted.registry.clone(), stop.clone()));
    }
}

/// Writes last-seen times in batches, and once more at the end.
async fn seen(state: ServerState, stop: CancellationToken) {
    let mut unwritten: HashMap<ClientId, Timestamp> = HashMap::new();
    let started = state.now();
    let mut looked = started;
    let mut ticks = interval(seen_every(state.config.offline_after()));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let last = tokio::select! {
            () = stop.cancelled() => true,
            _ = ticks.tick() => false,
        };
        // Times that could not be written before are still here, replaced by newer ones.
        unwritten.extend(state.heads.drain_seen().into_iter().map(|SeenAt { client, at }| (client, at)));
        if !unwritten.is_empty() {
            let batch: Vec<SeenAt> =
                unwritten.iter().map(|(client, at)| SeenAt { client: client.clone(), at: *at }).collect();
            match state.store.seen_write(&batch).await {
                Ok(()) => unwritten.clear(),
                Err(error) => {
                    state.metrics.store_error();
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot write last-seen times of clients");
                }
            }
        }
        if last {
            return;
        }
        if unwritten.is_empty() && state.now().since(looked) >= SILENCE_EVERY {
            looked = state.now();
            offline_watch(&state, started).await;
        }
    }
}

fn seen_every(offline_after: Duration) -> Duration {
    (offline_after / SEEN_SHARE).clamp(SEEN_EVERY_MIN, SEEN_EVERY)
}

/// Records offline clients. Not before this server has been up that long itself: clients that could not reach it while
/// it was down are not reported.
async fn offline_watch(state: &ServerState, started: Timestamp) {
    // Other servers write their last-seen times with the same delay.
    let late = if state.store.is_shared() { seen_every(state.config.offline_after()) } else { Duration::ZERO };
    let since = state.offline_before().minus(late);
    if since <= started {
        return;
    }
    loop {
        match state.store.offline_write(since, state.now()).await {
            Ok(found) if found >= OFFLINE_MAX => {}
            Ok(_) => return,
            Err(error) => {
                state.metrics.store_error();
                return tracing::warn!(error = &error as &dyn std::error::Error, "cannot record offline clients");
            }
        }
    }
}

/// Keeps the write-ahead log of SQLite short, so that no commit has to.
async fn checkpoints(state: ServerState, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(CHECKPOINT_EVERY) => {}
        }
        if let Err(error) = state.store.checkpoint().await {
            // SQLite does it automatically in the end; writers report a full disk.
            tracing::debug!(error = &error as &dyn std::error::Error, "cannot shorten the write-ahead log");
        }
    }
}

/// Loads what other servers publish, and what was written here when the answer of the database got lost.
async fn heads(state: ServerState, mut place: i64, stop: CancellationToken) {
    loop {
        let rest = async {
            if state.long_polls.open_count() > 0 {
                return sleep(HEADS_EVERY_HELD).await;
            }
            tokio::select! {
                () = state.long_polls.started() => {}
                () = sleep(HEADS_EVERY) => {}
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = rest => {}
        }
        let followed = tokio::select! {
            () = stop.cancelled() => return,
            followed = follow(&state, &mut place) => followed,
        };
        if let Err(error) = followed {
            state.metrics.store_error();
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot read the manifests published by other servers"
            );
        }
    }
}

/// Reads the heads that changed after `place`: one row when none has.
async fn follow(state: &ServerState, place: &mut i64) -> margrave_store::Result<()> {
    let end = state.store.audit_newest_seq().await?;
    if end < *place {
        // The database was replaced, as after a restore.
        state.heads.refresh(&state.store).await?;
        *place = end;
    }
    while *place < end {
        let (read, heads) = state.store.heads_changed_since(*place, HEADS_RECORDS).await?;
        if read == *place {
            return Ok(());
        }
        for head in heads {
            state.heads.put(head);
        }
        *place = read;
    }
    Ok(())
}

/// Notifies streams of events from other servers.
async fn events(state: ServerState, stop: CancellationToken) {
    let mut ticks = interval(EVENTS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = state.store.events_refresh().await {
            state.metrics.store_error();
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot read events of other servers");
        }
    }
}

/// Removes history beyond its limits, a bounded number of rows at a time.
async fn prune(state: ServerState, stop: CancellationToken) {
    let settings = &state.config.retention;
    let retention = Retention {
        revisions_per_deployment: settings.revisions_per_deployment,
        statuses_per_deployment: settings.statuses_per_deployment,
        replaced_artifacts: settings.replaced_artifacts.0,
        finished_rollouts: settings.finished_rollouts.0,
        removed_deployments: settings.removed_deployments.0,
        idempotency_keys: settings.idempotency_keys.0,
        events: settings.events,
    };
    let mut ticks = interval(settings.prune_every.0);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Skips the first tick, which is immediate; a starting server is busy.
    ticks.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let mut removed = 0;
        while !stop.is_cancelled() {
            match state.store.prune(&retention, state.now()).await {
                Ok(0) => break,
                Ok(rows) => removed += rows,
                Err(error) => {
                    state.metrics.store_error();
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot prune the store");
                    break;
                }
            }
        }
        if removed > 0 {
            tracing::info!(rows = removed, "pruned the store");
        }
        // Reading everything has filled the caches with pages that are not needed.
        if let Err(error) = state.store.trim().await {
            tracing::debug!(error = &error as &dyn std::error::Error, "cannot give back memory");
        }
    }
}

/// Renews our own certificates in time and loads files that the operator has replaced.
async fn certificates(state: ServerState, stop: CancellationToken) {
    let files = watched_files(&state.config);
    let mut known = fingerprint(&files);
    let mut announced: Option<String> = None;
    let mut checks = interval(FILES_EVERY);
    let mut renewals = interval(RENEWAL_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = tokio::select! {
            () = stop.cancelled() => return,
            _ = renewals.tick() => true,
            _ = checks.tick() => false,
        };
        let now = fingerprint(&files);
        if !due && now == known {
            continue;
        }
        let identity = state.identity.clone();
        let outcome = tokio::task::spawn_blocking(move || identity.refresh()).await;
        match outcome {
            Ok(Ok(changed)) => {
                known = now;
                announced = None;
                if changed {
                    tracing::info!("loaded new certificates; closing connections that use the old ones");
                }
            }
            Ok(Err(error)) => {
                // Half-replaced files are common for a moment: retried, and logged once.
                let text = format!("{error:?}");
                if announced.as_ref() != Some(&text) {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "cannot load new certificates; the old ones stay in use"
                    );
                    announced = Some(text);
                }
            }
            Err(error) => tracing::error!(%error, "the certificate check panicked"),
        }
    }
}

/// Size and time of each file; `None` for a missing one.
fn fingerprint(files: &[PathBuf]) -> Vec<Option<(u64, Option<SystemTime>)>> {
    files.iter().map(|path| std::fs::metadata(path).ok().map(|data| (data.len(), data.modified().ok()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_last_seen_times_before_a_client_counts_as_offline() {
        let every = |seconds| seen_every(Duration::from_secs(seconds));
        assert_eq!((every(300), every(15), every(4)), (SEEN_EVERY, Duration::from_secs(3), Duration::from_millis(800)));
        // With the longest long poll (two fifths) there is time for the pause between two polls.
        for seconds in [4, 15, 300] {
            let offline_after = Duration::from_secs(seconds);
            assert!(offline_after * 2 / 5 + every(seconds) <= offline_after * 3 / 5, "{seconds} s");
        }
    }
}
