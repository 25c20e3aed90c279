//! Connection lifetimes: one periodic sweep over all connections, instead of timers in each.
//!
//! A connection is woken for every request; its own timers would be polled each time as well.

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

/// Idle connections are noticed within this time; a sweep costs a few nanoseconds per connection.
const SWEEP_EVERY_MAX: Duration = Duration::from_millis(250);
/// Minimum interval between sweeps, however close together connections reach their age.
const SWEEP_EVERY_MIN: Duration = Duration::from_millis(20);

/// Why a connection has to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CloseReason {
    Stop = 1,
    Age,
    Trust,
    Silence,
}

impl CloseReason {
    fn read(number: u8) -> Option<Self> {
        [Self::Stop, Self::Age, Self::Trust, Self::Silence].into_iter().find(|reason| *reason as u8 == number)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Stop => "the server is stopping",
            Self::Age => "maximum age reached",
            Self::Trust => "certificates or trust have changed",
            Self::Silence => "idle",
        }
    }
}

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Lifetimes {
    started: Instant,
    idle: Duration,
    rest_after: Duration,
    check_interval: Duration,
    /// Milliseconds from the start to the last sweep: a coarse clock.
    now: AtomicU64,
    /// Incremented when trust changes; a connection belongs to the value it started with.
    trust: AtomicU64,
    all: Mutex<All>,
    /// A new connection ends before the next sweep.
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
    /// Whether idle time between two requests counts, or only before the first.
    counts_offline: bool,
    trust: u64,
    ends_at: u64,
    /// When the last request ended, or the connection started.
    active_at: AtomicU64,
    requests: AtomicU32,
    in_progress: AtomicU32,
    /// The last request had no body, so no part of it can still be in flight.
    bodyless: AtomicBool,
    /// Written data may not be flushed yet.
    unflushed: AtomicBool,
    /// Asked to become idle, or idle.
    rest: AtomicBool,
    shared: Arc<Lifetimes>,
}

impl Lifetimes {
    pub(super) fn new(idle: Duration, age_max: Duration, rest_after: Duration) -> Arc<Self> {
        let check_interval = (idle.min(age_max) / 4).clamp(SWEEP_EVERY_MIN, SWEEP_EVERY_MAX);
        Arc::new(Self {
            started: Instant::now(),
            idle,
            rest_after,
            check_interval,
            now: AtomicU64::new(0),
            trust: AtomicU64::new(0),
            all: Mutex::default(),
            sooner: Notify::new(),
        })
    }

    /// Must be read before the material of a handshake is loaded.
    pub(super) fn trust(&self) -> u64 {
        self.trust.load(Ordering::Acquire)
    }

    /// Registers a connection. Stop and trust are checked once more: they may have changed after the last sweep.
    pub(super) fn begin(
        self: &Arc<Self>,
        age_max: Duration,
        trust: u64,
        counts_offline: bool,
        stop: &CancellationToken,
    ) -> Arc<Lifetime> {
        let now = millis(self.started.elapsed());
        let lifetime = Arc::new(Lifetime {
            waker: AtomicWaker::new(),
            reason: AtomicU8::new(0),
            counts_offline,
            trust,
            ends_at: now.saturating_add(millis(age_max)),
            active_at: AtomicU64::new(now),
            requests: AtomicU32::new(0),
            in_progress: AtomicU32::new(0),
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
            lifetime.close(CloseReason::Stop);
        } else if trust != self.trust() {
            lifetime.close(CloseReason::Trust);
        }
        lifetime
    }

    /// Sweeps all connections until the server stops, and wakes those that have to close.
    pub(super) async fn run<T>(self: Arc<Self>, stop: CancellationToken, mut trust: watch::Receiver<T>) {
        loop {
            let pause = self.look(false);
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = trust.changed() => {
                    self.trust.fetch_add(1, Ordering::Release);
                }
                () = self.sooner.notified() => sleep(SWEEP_EVERY_MIN).await,
                () = sleep(pause) => {}
            }
        }
        self.look(true);
    }

    /// Wakes connections that have to close, and returns the time to the next sweep.
    fn look(&self, stopping: bool) -> Duration {
        let now = millis(self.started.elapsed());
        self.now.store(now, Ordering::Relaxed);
        // The last request may have been as long ago as the sweep before it.
        let (trust, idle) = (self.trust(), millis(self.idle.saturating_add(self.check_interval)));
        let mut next = now.saturating_add(millis(self.check_interval));
        let mut all = self.all.lock();
        all.connections.retain(|one| {
            let reason = match () {
                () if stopping => CloseReason::Stop,
                () if one.trust != trust => CloseReason::Trust,
                () if now >= one.ends_at => CloseReason::Age,
                () if one.is_offline(now, idle) => CloseReason::Silence,
                () => {
                    next = next.min(one.ends_at);
                    if one.may_rest(now) {
                        one.rest.store(true, Ordering::Release);
                        one.waker.wake();
                    }
                    // The list holds one reference; a closed connection holds none.
                    return Arc::strong_count(one) > 1;
                }
            };
            one.close(reason);
            false
        });
        next = next.max(now.saturating_add(millis(SWEEP_EVERY_MIN)));
        all.next_look = next;
        Duration::from_millis(next.saturating_sub(now))
    }
}

impl Lifetime {
    fn is_offline(&self, now: u64, idle: u64) -> bool {
        let requested = self.requests.load(Ordering::Relaxed) > 0;
        (self.counts_offline || !requested)
            && self.in_progress.load(Ordering::Acquire) == 0
            && now.saturating_sub(self.active_at.load(Ordering::Relaxed)) >= idle
    }

    /// Only connections of the device listener, between two requests.
    fn may_rest(&self, now: u64) -> bool {
        self.counts_offline
            && !self.rest.load(Ordering::Relaxed)
            && self.is_idle()
            && now.saturating_sub(self.active_at.load(Ordering::Relaxed)) >= millis(self.shared.rest_after)
    }

    fn is_idle(&self) -> bool {
        self.bodyless.load(Ordering::Relaxed)
            && self.in_progress.load(Ordering::Acquire) == 0
            && !self.unflushed.load(Ordering::Relaxed)
    }

    fn close(&self, reason: CloseReason) {
        let _ = self.reason.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire);
        self.waker.wake();
    }

    /// Why it has to close, if so.
    pub fn closing(&self) -> Option<CloseReason> {
        CloseReason::read(self.reason.load(Ordering::Acquire))
    }

    /// For the task of the connection, which is the only one woken.
    pub(super) fn poll_closing(&self, context: &mut Context<'_>) -> Poll<CloseReason> {
        if let Some(reason) = self.closing() {
            return Poll::Ready(reason);
        }
        self.waker.register(context.waker());
        self.closing().map_or(Poll::Pending, Poll::Ready)
    }

    /// For the task of the connection, after it found nothing to do: whether it may release its buffers.
    pub(super) fn rests(&self) -> bool {
        if !self.rest.load(Ordering::Acquire) {
            return false;
        }
        // A request may have arrived since the sweep.
        let rests = self.is_idle();
        self.rest.store(rests, Ordering::Release);
        rests
    }

    /// The connection is active again.
    pub(super) fn wakes(&self) {
        self.active_at.store(millis(self.shared.started.elapsed()), Ordering::Relaxed);
        self.bodyless.store(false, Ordering::Relaxed);
        self.rest.store(false, Ordering::Release);
    }

    pub(super) fn wrote(&self, unflushed: bool) {
        self.unflushed.store(unflushed, Ordering::Relaxed);
    }

    /// A request without a body that is answered at once.
    pub fn requested(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bodyless.store(true, Ordering::Relaxed);
        self.active_at.store(self.shared.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Any other request; it ends when the last byte of its response is sent.
    pub(super) fn begin_request(self: &Arc<Self>, bodyless: bool) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bodyless.store(bodyless, Ordering::Relaxed);
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }
}

#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Lifetime>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active_at.store(millis(self.0.shared.started.elapsed()), Ordering::Relaxed);
        self.0.in_progress.fetch_sub(1, Ordering::Release);
    }
}

/// The body of a response; its request is in progress while it is sent.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: Body,
    _in_progress: Option<ActiveRequest>,
}

impl TrackedBody {
    pub(super) fn new(body: Body, in_progress: Option<ActiveRequest>) -> Self {
        Self { body, _in_progress: in_progress }
    }
}

impl HttpBody for TrackedBody {
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
