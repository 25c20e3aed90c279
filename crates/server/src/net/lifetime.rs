//! How long connections last: one look at all of them every now and then, instead of timers in each.
//!
//! A connection is woken for every request it carries; whatever else it waited for would be asked each time as well.

use axum::body::{Body, Bytes, HttpBody};
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Silence is noticed to within this time; a look costs a few nanoseconds per connection.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(250);
/// However close together connections reach their age, looks are this far apart.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(20);

/// Why a connection has to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    Stop = 1,
    Age,
    Trust,
    Silence,
}

impl Reason {
    fn read(number: u8) -> Option<Self> {
        [Self::Stop, Self::Age, Self::Trust, Self::Silence].into_iter().find(|reason| *reason as u8 == number)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Stop => "the server stops",
            Self::Age => "it has reached its age",
            Self::Trust => "certificates or trust have changed",
            Self::Silence => "no request came",
        }
    }
}

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Lifetimes {
    begun: Instant,
    idle: Duration,
    rest_after: Duration,
    look_every: Duration,
    /// Milliseconds from the beginning to the last look: a clock for those who need no better one.
    now: AtomicU64,
    /// Counts changes of trust; a connection belongs to the one it was made under.
    trust: AtomicU64,
    all: Mutex<All>,
    /// A connection has come that ends before the next look.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct All {
    connections: Vec<Arc<Lifetime>>,
    next_look: u64,
}

/// One connection.
#[derive(Debug)]
pub struct Lifetime {
    waker: AtomicWaker,
    reason: AtomicU8,
    /// Whether silence between two requests counts, or only before the first.
    counts_silence: bool,
    trust: u64,
    ends_at: u64,
    /// When the last request ended, or the connection began.
    active_at: AtomicU64,
    requests: AtomicU32,
    under_way: AtomicU32,
    /// The last request had no body, so that nothing of it can be on the way still.
    bodyless: AtomicBool,
    /// Something written may not be on its way yet.
    unflushed: AtomicBool,
    /// Asked to come to rest, or at rest.
    rest: AtomicBool,
    shared: Arc<Lifetimes>,
}

impl Lifetimes {
    pub(super) fn new(idle: Duration, age_max: Duration, rest_after: Duration) -> Arc<Self> {
        let look_every = (idle.min(age_max) / 4).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX);
        Arc::new(Self {
            begun: Instant::now(),
            idle,
            rest_after,
            look_every,
            now: AtomicU64::new(0),
            trust: AtomicU64::new(0),
            all: Mutex::default(),
            sooner: Notify::new(),
        })
    }

    /// To be asked before the material of a handshake is taken.
    pub(super) fn trust(&self) -> u64 {
        self.trust.load(Ordering::Acquire)
    }

    /// A connection begins. Stop and trust are asked once more: they may have changed after the last look.
    pub(super) fn begin(
        self: &Arc<Self>,
        age_max: Duration,
        trust: u64,
        counts_silence: bool,
        stop: &CancellationToken,
    ) -> Arc<Lifetime> {
        let now = millis(self.begun.elapsed());
        let lifetime = Arc::new(Lifetime {
            waker: AtomicWaker::new(),
            reason: AtomicU8::new(0),
            counts_silence,
            trust,
            ends_at: now.saturating_add(millis(age_max)),
            active_at: AtomicU64::new(now),
            requests: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
            bodyless: AtomicBool::new(false),
            unflushed: AtomicBool::new(false),
            rest: AtomicBool::new(false),
            shared: Arc::clone(self),
        });
        let mut all = self.all.lock();
        all.connections.push(Arc::clone(&lifetime));
        if lifetime.ends_at < all.next_look {
            self.sooner.notify_one();
        }
        drop(all);
        if stop.is_cancelled() {
            lifetime.close(Reason::Stop);
        } else if trust != self.trust() {
            lifetime.close(Reason::Trust);
        }
        lifetime
    }

    /// Looks after all connections until the server stops, and tells them.
    pub(super) async fn run<T>(self: Arc<Self>, stop: CancellationToken, mut trust: watch::Receiver<T>) {
        loop {
            let pause = self.look(false);
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = trust.changed() => {
                    self.trust.fetch_add(1, Ordering::Release);
                }
                () = self.sooner.notified() => sleep(LOOK_EVERY_MIN).await,
                () = sleep(pause) => {}
            }
        }
        self.look(true);
    }

    /// Tells those who have to close, and gives the time to the next look.
    fn look(&self, stopping: bool) -> Duration {
        let now = millis(self.begun.elapsed());
        self.now.store(now, Ordering::Relaxed);
        // The last request may have been as long ago as the last look before it.
        let (trust, idle) = (self.trust(), millis(self.idle.saturating_add(self.look_every)));
        let mut next = now.saturating_add(millis(self.look_every));
        let mut all = self.all.lock();
        all.connections.retain(|one| {
            let reason = match () {
                () if stopping => Reason::Stop,
                () if one.trust != trust => Reason::Trust,
                () if now >= one.ends_at => Reason::Age,
                () if one.is_silent(now, idle) => Reason::Silence,
                () => {
                    next = next.min(one.ends_at);
                    if one.may_rest(now) {
                        one.rest.store(true, Ordering::Release);
                        one.waker.wake();
                    }
                    // The list holds one; a connection that is over holds none.
                    return Arc::strong_count(one) > 1;
                }
            };
            one.close(reason);
            false
        });
        next = next.max(now.saturating_add(millis(LOOK_EVERY_MIN)));
        all.next_look = next;
        Duration::from_millis(next.saturating_sub(now))
    }
}

impl Lifetime {
    fn is_silent(&self, now: u64, idle: u64) -> bool {
        let asked = self.requests.load(Ordering::Relaxed) > 0;
        (self.counts_silence || !asked)
            && self.under_way.load(Ordering::Acquire) == 0
            && now.saturating_sub(self.active_at.load(Ordering::Relaxed)) >= idle
    }

    /// Only the device listener's connections, between two requests.
    fn may_rest(&self, now: u64) -> bool {
        self.counts_silence
            && !self.rest.load(Ordering::Relaxed)
            && self.is_at_ease()
            && now.saturating_sub(self.active_at.load(Ordering::Relaxed)) >= millis(self.shared.rest_after)
    }

    fn is_at_ease(&self) -> bool {
        self.bodyless.load(Ordering::Relaxed)
            && self.under_way.load(Ordering::Acquire) == 0
            && !self.unflushed.load(Ordering::Relaxed)
    }

    fn close(&self, reason: Reason) {
        let _ = self.reason.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire);
        self.waker.wake();
    }

    /// Why it has to close, if it has to.
    pub fn closing(&self) -> Option<Reason> {
        Reason::read(self.reason.load(Ordering::Acquire))
    }

    /// For the task of the connection, which is the only one woken.
    pub(super) fn poll_closing(&self, context: &mut Context<'_>) -> Poll<Reason> {
        if let Some(reason) = self.closing() {
            return Poll::Ready(reason);
        }
        self.waker.register(context.waker());
        self.closing().map_or(Poll::Pending, Poll::Ready)
    }

    /// For the task of the connection, after it has found nothing to do: whether it may give back what it does it with.
    pub(super) fn rests(&self) -> bool {
        if !self.rest.load(Ordering::Acquire) {
            return false;
        }
        // A request may have come since the look.
        let rests = self.is_at_ease();
        self.rest.store(rests, Ordering::Release);
        rests
    }

    /// The connection has something to do again.
    pub(super) fn wakes(&self) {
        self.active_at.store(millis(self.shared.begun.elapsed()), Ordering::Relaxed);
        self.bodyless.store(false, Ordering::Relaxed);
        self.rest.store(false, Ordering::Release);
    }

    pub(super) fn wrote(&self, unflushed: bool) {
        self.unflushed.store(unflushed, Ordering::Relaxed);
    }

    /// A request without a body that is answered at once.
    pub fn asked(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bodyless.store(true, Ordering::Relaxed);
        self.active_at.store(self.shared.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A request that takes its time; it is over when the last byte of its answer is on its way.
    pub(super) fn begin_request(self: &Arc<Self>, bodyless: bool) -> UnderWay {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bodyless.store(bodyless, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }
}

#[derive(Debug)]
pub(super) struct UnderWay(Arc<Lifetime>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.active_at.store(millis(self.0.shared.begun.elapsed()), Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Release);
    }
}

/// The body of an answer; while it is being sent, its request is under way.
#[derive(Debug)]
pub(super) struct Tracked {
    body: Body,
    _under_way: Option<UnderWay>,
}

impl Tracked {
    pub(super) fn new(body: Body, under_way: Option<UnderWay>) -> Self {
        Self { body, _under_way: under_way }
    }
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
