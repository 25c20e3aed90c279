//! Every client's policy and manifest head in memory; readers never wait for a writer.

mod waiting;

pub use waiting::{Waiting, Woken};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use margo::ids::ClientId;
use margrave_core::time::Timestamp;
use margrave_store::{Head, SeenAt, Store};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::task::JoinError;
use tracing::Instrument as _;
use waiting::Waiter;

/// A new client copies one shard: with 100,000 clients that is about a hundred pointers.
const SHARDS: usize = 1024;

/// Clients read from the store at a time when the server starts.
const LOAD_PAGE_ROWS: u32 = 5_000;

/// "Not heard of since the server started."
const NEVER: i64 = i64::MIN;

/// A head with its ETag ready to be sent.
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

/// One client, looked up once. Entries are never taken away, so it stays good.
#[derive(Debug, Clone)]
pub struct Known(Arc<Entry>);

impl Known {
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
    /// When it last asked and was not let in.
    asked: AtomicI64,
    /// The seen time last handed out for writing.
    drained: AtomicI64,
    /// Who waits for the next head of this client; nobody, most of the time.
    waiter: ArcSwapOption<Waiter>,
}

type Shard = ArcSwap<HashMap<ClientId, Arc<Entry>>>;

#[derive(Debug)]
pub struct Heads {
    hasher: RandomState,
    shards: Box<[Shard]>,
}

impl Default for Heads {
    fn default() -> Self {
        Self { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }
}

impl Heads {
    /// Reads every client's head from the store.
    pub async fn load(store: &Store) -> margrave_store::Result<Self> {
        let heads = Self::default();
        heads.refresh(store).await?;
        // Every page of the clients went through the caches and is not needed again soon.
        store.trim().await?;
        Ok(heads)
    }

    /// Takes in what others have written since, page by page.
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

    /// The head of a client, or `None` for one nobody has created.
    pub fn get(&self, client: &ClientId) -> Option<Arc<Head>> {
        self.shard(client).load().get(client).map(|entry| Arc::clone(&entry.current.load().head))
    }

    /// A client to come back to without looking it up.
    pub fn known(&self, client: &ClientId) -> Option<Known> {
        self.shard(client).load().get(client).map(|entry| Known(Arc::clone(entry)))
    }

    /// Takes a new head; an older version never replaces a newer one.
    ///
    /// Heads come from different transactions in any order: content goes by version, policy by the client's revision,
    /// so that a batch published a moment ago does not bring back a client that was retired meanwhile.
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
        // After the head has moved: whoever waits looks at it before going to sleep.
        if let Some(waiter) = &*entry.waiter.load() {
            waiter.wake();
        }
    }

    /// Begins to wait for the next head of a client, instead of whoever waited for it before. `None` for one nobody has created.
    pub fn wait(&self, client: &ClientId) -> Option<Waiting> {
        self.shard(client).load().get(client).map(|entry| Waiting::begin(Arc::clone(entry)))
    }

    /// Remembers that a client was heard of; written to the store in batches.
    pub fn seen(&self, client: &ClientId, at: Timestamp) {
        if let Some(entry) = self.shard(client).load().get(client) {
            entry.seen.fetch_max(at.0, Ordering::Relaxed);
        }
    }

    /// The freshest time a client was heard of, if it is fresher than what the store has.
    pub fn last_seen(&self, client: &ClientId) -> Option<Timestamp> {
        let seen = self.shard(client).load().get(client)?.seen.load(Ordering::Relaxed);
        (seen != NEVER).then_some(Timestamp(seen))
    }

    /// Remembers that a client asked and was not let in, while this server runs.
    pub fn asked(&self, client: &ClientId, at: Timestamp) {
        if let Some(entry) = self.shard(client).load().get(client) {
            entry.asked.fetch_max(at.0, Ordering::Relaxed);
        }
    }

    /// When a client last asked and was not let in.
    pub fn last_asked(&self, client: &ClientId) -> Option<Timestamp> {
        let asked = self.shard(client).load().get(client)?.asked.load(Ordering::Relaxed);
        (asked != NEVER).then_some(Timestamp(asked))
    }

    /// Seen times not yet written.
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

    /// The entry of this client, made on first sight.
    fn entry(&self, head: &Head) -> Arc<Entry> {
        let shard = self.shard(&head.client);
        if let Some(entry) = shard.load().get(&head.client) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(Entry {
            current: ArcSwap::from_pointee(Current::from(head.clone())),
            seen: AtomicI64::new(NEVER),
            asked: AtomicI64::new(NEVER),
            drained: AtomicI64::new(NEVER),
            waiter: ArcSwapOption::empty(),
        });
        shard.rcu(|clients| {
            let mut clients = HashMap::clone(clients);
            clients.entry(head.client.clone()).or_insert_with(|| Arc::clone(&entry));
            clients
        });
        // Another writer may have been first: everybody uses the entry that is in the map.
        shard.load().get(&head.client).map_or(entry, Arc::clone)
    }
}

/// Goes on to the end when the caller goes away, as a handler does whose connection breaks: between a commit and the head that
/// tells of it nothing may be given up.
pub async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, JoinError> {
    tokio::spawn(work.in_current_span()).await
}

/// The newcomer wins a draw.
fn newer<'h, T: Ord>(newcomer: &'h Head, held: &'h Head, by: impl Fn(&Head) -> T) -> &'h Head {
    if by(newcomer) >= by(held) { newcomer } else { held }
}

#[cfg(test)]
mod tests;
