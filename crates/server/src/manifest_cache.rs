//! Manifest cache: every client's policy and manifest head in memory; readers never wait for a writer.

mod waiting;

pub use waiting::{Waiting, WakeReason};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use margo::ids::ClientId;
use margrave_core::time::Timestamp;
use margrave_store::{Head, SeenAt, Store};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::task::JoinError;
use tracing::Instrument as _;
use waiting::Waiter;

/// Adding a client copies one shard: with 100,000 clients that is about a hundred pointers.
const SHARDS: usize = 1024;

/// Clients read from the store per page at start.
const LOAD_PAGE_ROWS: u32 = 5_000;

/// "Not seen since the server started."
const NEVER: i64 = i64::MIN;

/// A head with its ETag as a header value.
#[derive(Debug)]
pub struct Current {
    pub head: Arc<Head>,
    pub etag: HeaderValue,
}

impl From<Head> for Current {
    fn from(head: Head) -> Self {
        let etag = HeaderValue::try_from(head.digest.etag()).expect("a digest fits into a header");
        Self { head: Arc::new(head), etag }
    }
}

/// One client, looked up once. Entries are never removed, so it stays valid.
#[derive(Debug, Clone)]
pub struct ClientHandle(Arc<Entry>);

impl ClientHandle {
    pub fn current(&self) -> arc_swap::Guard<Arc<Current>> {
        self.0.current.load()
    }
    pub fn seen(&self, at: Timestamp) {
        self.0.seen.fetch_max(at.0, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Entry {
    current: ArcSwap<Current>,
    seen: AtomicI64,
    /// When it last connected without being accepted.
    requested: AtomicI64,
    /// The manifest version of the last report that was rejected because no such version was issued; 0 if there was none.
    rejected_version: AtomicU64,
    /// The last-seen time that was last returned for writing.
    drained: AtomicI64,
    /// The waiting long poll of this client, if any.
    waiter: ArcSwapOption<Waiter>,
}

type Shard = ArcSwap<HashMap<ClientId, Arc<Entry>>>;

#[derive(Debug)]
pub struct ManifestCache {
    hasher: RandomState,
    shards: Box<[Shard]>,
}

impl Default for ManifestCache {
    fn default() -> Self {
        Self { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }
}

impl ManifestCache {
    /// Loads every client's head from the store.
    pub async fn load(store: &Store) -> margrave_store::Result<Self> {
        let heads = Self::default();
        heads.refresh(store).await?;
        // All client pages went through the database caches and are not needed again soon.
        store.trim().await?;
        Ok(heads)
    }

    /// Loads what other servers have written since, page by page.
    pub async fn refresh(&self, store: &Store) -> margrave_store::Result<()> {
        let mut after = None;
        loop {
            let page = store.heads_page(after.as_ref(), LOAD_PAGE_ROWS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.client.clone());
            for head in page {
                self.put(head);
            }
        }
    }

    /// The head of a client, or `None` for an unknown one.
    pub fn get(&self, client: &ClientId) -> Option<Arc<Head>> {
        self.shard(client).load().get(client).map(|entry| Arc::clone(&entry.current.load().head))
    }

    /// A handle to a client that avoids further lookups.
    pub fn handle(&self, client: &ClientId) -> Option<ClientHandle> {
        self.shard(client).load().get(client).map(|entry| ClientHandle(Arc::clone(entry)))
    }

    /// Stores a new head; an older version never replaces a newer one.
    ///
    /// The heads come from different transactions in any order: content follows the version, policy the revision,
    /// so that a batch published a moment ago does not re-enable a client that was decommissioned in the meantime.
    pub fn put(&self, head: Head) {
        let entry = self.entry(&head);
        entry.current.rcu(|current| {
            let before = &current.head;
            let (content, policy) =
                (newer(&head, before, |head| head.version), newer(&head, before, |head| head.revision));
            Current::from(Head {
                client: head.client.clone(),
                state: policy.state,
                revision: policy.revision,
                version: content.version,
                digest: content.digest.clone(),
            })
        });
        // After the head is stored: a waiter checks it before it sleeps.
        if let Some(waiter) = &*entry.waiter.load() {
            waiter.wake();
        }
    }

    /// Starts a wait for the next head of a client and replaces a previous wait. `None` for an unknown client.
    pub fn wait(&self, client: &ClientId) -> Option<Waiting> {
        self.shard(client).load().get(client).map(|entry| Waiting::begin(Arc::clone(entry)))
    }

    /// Records that a client was seen; written to the store in batches.
    pub fn seen(&self, client: &ClientId, at: Timestamp) {
        if let Some(entry) = self.shard(client).load().get(client) {
            entry.seen.fetch_max(at.0, Ordering::Relaxed);
        }
    }

    /// The last time a client was seen, if it is newer than in the store.
    pub fn last_seen(&self, client: &ClientId) -> Option<Timestamp> {
        let seen = self.shard(client).load().get(client)?.seen.load(Ordering::Relaxed);
        (seen != NEVER).then_some(Timestamp(seen))
    }

    /// Records that a client connected without being accepted, while this server runs.
    pub fn requested(&self, client: &ClientId, at: Timestamp) {
        if let Some(entry) = self.shard(client).load().get(client) {
            entry.requested.fetch_max(at.0, Ordering::Relaxed);
        }
    }

    /// When a client last connected without being accepted.
    pub fn last_requested(&self, client: &ClientId) -> Option<Timestamp> {
        let requested = self.shard(client).load().get(client)?.requested.load(Ordering::Relaxed);
        (requested != NEVER).then_some(Timestamp(requested))
    }

    /// Records a report with a manifest version that was never issued, while this server runs; true if the version is
    /// another one than before.
    pub fn reject_version(&self, client: &ClientId, version: u64) -> bool {
        let shard = self.shard(client).load();
        shard.get(client).is_some_and(|entry| entry.rejected_version.swap(version, Ordering::Relaxed) != version)
    }

    /// The version of the last such report.
    pub fn rejected_version(&self, client: &ClientId) -> Option<u64> {
        let version = self.shard(client).load().get(client)?.rejected_version.load(Ordering::Relaxed);
        (version != 0).then_some(version)
    }

    /// Last-seen times not yet written.
    pub fn drain_seen(&self) -> Vec<SeenAt> {
        let mut fresh = Vec::new();
        for shard in &self.shards {
            for (client, entry) in shard.load().iter() {
                let seen = entry.seen.load(Ordering::Relaxed);
                if entry.drained.swap(seen, Ordering::Relaxed) < seen {
                    fresh.push(SeenAt { client: client.clone(), at: Timestamp(seen) });
                }
            }
        }
        fresh
    }

    fn shard(&self, client: &ClientId) -> &Shard {
        &self.shards[self.hasher.hash_one(client) as usize % SHARDS]
    }

    /// The entry of this client, created if missing.
    fn entry(&self, head: &Head) -> Arc<Entry> {
        let shard = self.shard(&head.client);
        if let Some(entry) = shard.load().get(&head.client) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(Entry {
            current: ArcSwap::from_pointee(Current::from(head.clone())),
            seen: AtomicI64::new(NEVER),
            requested: AtomicI64::new(NEVER),
            rejected_version: AtomicU64::new(0),
            drained: AtomicI64::new(NEVER),
            waiter: ArcSwapOption::empty(),
        });
        shard.rcu(|clients| {
            let mut clients = HashMap::clone(clients);
            clients.entry(head.client.clone()).or_insert_with(|| Arc::clone(&entry));
            clients
        });
        // Another writer may have been first: use the entry that is in the map.
        shard.load().get(&head.client).map_or(entry, Arc::clone)
    }
}

/// Runs to the end even if the caller is dropped, as for a handler whose connection breaks: between a commit and
/// the update of its head nothing may be lost.
pub async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    tokio::spawn(work.in_current_span()).await
}

/// On a tie the new head wins.
fn newer<'h, T: Ord>(newcomer: &'h Head, held: &'h Head, by: impl Fn(&Head) -> T) -> &'h Head {
    if by(newcomer) >= by(held) { newcomer } else { held }
}

#[cfg(test)]
mod tests;
