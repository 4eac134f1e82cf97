//! State of one connection, for its deadlines.
//!
//! The connection's task records its progress without reading a clock. The accept loop checks all connections every
//! [`TICK`](CoarseClock::TICK) and aborts late ones, which is much cheaper than a timer per request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use crossbeam_utils::atomic::AtomicCell;
use futures_util::task::AtomicWaker;

use super::framing::{Framing, FramingTracker};
use crate::config::Limits;

/// Clock in steps of [`TICK`](CoarseClock::TICK); its owner advances it.
#[derive(Debug)]
pub(super) struct CoarseClock {
    started_at: Instant,
    millis: AtomicU64,
}

impl CoarseClock {
    /// Interval of `advance`: the precision of deadlines.
    pub(super) const TICK: Duration = Duration::from_millis(200);

    pub(super) fn new() -> Self {
        Self { started_at: Instant::now(), millis: AtomicU64::new(0) }
    }

    pub(super) fn advance(&self, now: Instant) {
        self.millis.store(self.millis_at(now), Ordering::Relaxed);
    }

    /// Milliseconds of the clock at this time.
    fn millis_at(&self, time: Instant) -> u64 {
        let elapsed = time.saturating_duration_since(self.started_at).as_millis();
        u64::try_from(elapsed).unwrap_or(u64::MAX)
    }

    fn now_millis(&self) -> u64 {
        self.millis.load(Ordering::Relaxed)
    }
}

/// State of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    clock: Arc<CoarseClock>,
    phase: AtomicCell<Phase>,
    /// When the phase began or last made progress, in milliseconds of the clock.
    last_progress: AtomicU64,
    /// Deadline of the response body, in milliseconds of the clock.
    body_deadline: AtomicU64,
    /// True if the response is an endless stream, which ends only with the connection.
    is_streaming: AtomicBool,
    /// True if the kernel closed the connection because the client acknowledged no data (`TCP_USER_TIMEOUT`).
    timed_out_in_kernel: AtomicBool,
    response: AtomicCell<ResponseProgress>,
    command: AtomicCell<ConnectionCommand>,
    connection_waker: AtomicWaker,
    /// Wakes the response body when the socket becomes writable.
    body_waker: AtomicWaker,
    framing: Mutex<FramingTracker>,
}

/// Phase of a connection: what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rest of a request's headers.
    Header,
    /// The next request.
    Idle,
    /// The handler.
    Serving,
    /// The client, to read the response.
    Writing,
}

/// Progress of the response to the last request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseProgress {
    /// Sent, or no request has arrived yet.
    Sent,
    /// The body is not complete yet.
    Producing,
    /// The body is complete, but not all of it is written.
    Produced,
}

/// Command to the connection's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionCommand {
    /// Continue.
    Run,
    /// Finish the request in flight, if any, and end.
    Drain,
    /// End at once, because this deadline was missed.
    Abort(Timeout),
}

/// A deadline that was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, enum_map::Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Timeout {
    /// The headers of a request were not complete.
    Header,
    /// No next request arrived.
    Idle,
    /// The client did not read the response.
    Write,
}

/// Maximum duration of each phase; `None`: no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    header: Option<Duration>,
    idle: Option<Duration>,
    write: Option<Duration>,
}

impl Timeouts {
    pub(super) fn new(limits: &Limits) -> Self {
        let enabled = |limit: Duration| (!limit.is_zero()).then_some(limit);
        Self {
            header: enabled(limits.header_timeout),
            idle: enabled(limits.idle_timeout),
            write: enabled(limits.write_timeout),
        }
    }
}

impl ConnectionState {
    const NEVER: u64 = u64::MAX;

    /// Creates the state of a connection that waits for its first request.
    pub(super) fn new(clock: &Arc<CoarseClock>) -> Self {
        Self {
            last_progress: AtomicU64::new(clock.now_millis()),
            body_deadline: AtomicU64::new(Self::NEVER),
            is_streaming: AtomicBool::new(false),
            timed_out_in_kernel: AtomicBool::new(false),
            clock: Arc::clone(clock),
            phase: AtomicCell::new(Phase::Header),
            response: AtomicCell::new(ResponseProgress::Sent),
            command: AtomicCell::new(ConnectionCommand::Run),
            connection_waker: AtomicWaker::new(),
            body_waker: AtomicWaker::new(),
            framing: Mutex::default(),
        }
    }

    /// Records bytes from the client.
    pub(super) fn on_read(&self, bytes: &[u8]) {
        let has_request_bytes = {
            let mut framing = self.framing();
            framing.record(bytes);
            !framing.is_empty()
        };
        if has_request_bytes && self.phase.load() == Phase::Idle {
            self.enter_phase(Phase::Header);
        }
    }

    /// Records a complete request head; returns how its body is delimited.
    pub(super) fn on_request_head(&self, headers: &HeaderMap) -> Framing {
        self.response.store(ResponseProgress::Producing);
        self.enter_phase(Phase::Serving);
        self.framing().take_head(headers)
    }

    /// Sets the deadline of the response body.
    pub(super) fn set_body_deadline(&self, deadline: Instant) {
        self.body_deadline.store(self.clock.millis_at(deadline), Ordering::Relaxed);
    }

    /// Marks the response as an endless stream.
    pub(super) fn mark_streaming(&self) {
        self.is_streaming.store(true, Ordering::Relaxed);
    }

    /// Records that the kernel closed the connection because the client acknowledged no data.
    pub(super) fn mark_kernel_timeout(&self) {
        self.timed_out_in_kernel.store(true, Ordering::Relaxed);
    }

    /// Returns true if the kernel closed the connection because the client acknowledged no data.
    pub(super) fn timed_out_in_kernel(&self) -> bool {
        self.timed_out_in_kernel.load(Ordering::Relaxed)
    }

    /// Returns true if the client reads; otherwise wakes the task when it does. Data is produced only then, so that it
    /// is fresh and nothing is buffered.
    pub(super) fn poll_writable(&self, context: &Context<'_>) -> bool {
        let is_writable = self.phase.load() != Phase::Writing;
        if !is_writable {
            self.body_waker.register(context.waker());
        }
        is_writable
    }

    /// Records that the response body is complete.
    pub(super) fn on_body_finished(&self) {
        if self.body_deadline.load(Ordering::Relaxed) != Self::NEVER {
            self.body_deadline.store(Self::NEVER, Ordering::Relaxed);
        }
        self.response.store(ResponseProgress::Produced);
    }

    /// Records that the client has read a part of the response.
    pub(super) fn on_partial_write(&self) {
        if self.phase.load() == Phase::Writing {
            self.enter_phase(Phase::Writing);
        }
    }

    /// Records that the client reads no more for now.
    pub(super) fn on_write_blocked(&self) {
        if self.phase.load() != Phase::Writing {
            self.enter_phase(Phase::Writing);
        }
    }

    /// Records that all data produced so far is written.
    pub(super) fn on_flushed(&self) {
        if self.response.load() == ResponseProgress::Produced {
            self.response.store(ResponseProgress::Sent);
            // The beginning of the next request may have arrived with the last one.
            self.enter_phase(if self.framing().is_empty() { Phase::Idle } else { Phase::Header });
        } else if self.phase.load() == Phase::Writing {
            self.enter_phase(Phase::Serving);
            self.body_waker.wake();
        }
    }

    /// Returns true if the service has no response in flight: what is written now is hyper's own response to an
    /// unreadable request.
    pub(super) fn has_no_response_in_flight(&self) -> bool {
        self.response.load() == ResponseProgress::Sent
    }

    /// Returns true if a part of an unanswered request has arrived.
    pub(super) fn has_partial_request(&self) -> bool {
        self.phase.load() == Phase::Header && !self.framing().is_empty()
    }

    /// Returns true if more of the last request's body may come.
    pub(super) fn may_be_in_body(&self) -> bool {
        self.framing().may_be_in_body()
    }

    /// Returns true if the request in flight has no complete first line.
    pub(super) fn is_in_request_line(&self) -> bool {
        self.framing().is_in_request_line()
    }

    /// Returns the current command; wakes the task when it changes.
    pub(super) fn poll_command(&self, context: &Context<'_>) -> ConnectionCommand {
        self.connection_waker.register(context.waker());
        self.command.load()
    }

    /// Commands the task to finish the request in flight.
    pub(super) fn drain(&self) {
        self.command.store(ConnectionCommand::Drain);
        self.connection_waker.wake();
    }

    /// Aborts the connection if a deadline has passed. Returns that deadline the first time only, so that it is counted
    /// once.
    pub(super) fn check_timeouts(&self, timeouts: Timeouts) -> Option<Timeout> {
        let (limit, timeout) = match self.phase.load() {
            Phase::Header => (timeouts.header, Timeout::Header),
            Phase::Idle => (timeouts.idle, Timeout::Idle),
            Phase::Writing => (timeouts.write, Timeout::Write),
            Phase::Serving => return None,
        };
        let last_progress = Duration::from_millis(self.last_progress.load(Ordering::Relaxed));
        let elapsed = Duration::from_millis(self.clock.now_millis()).saturating_sub(last_progress);
        // The clock may have been a step behind when the phase began.
        let is_in_time =
            limit.is_none_or(|limit| elapsed <= limit.saturating_add(CoarseClock::TICK));
        // While the client does not read, hyper does not poll the body, so its deadline is checked here.
        let is_past_end = self.clock.now_millis() > self.body_deadline.load(Ordering::Relaxed)
            || self.is_streaming.load(Ordering::Relaxed)
                && self.command.load() == ConnectionCommand::Drain;
        let may_continue = timeout != Timeout::Write || !is_past_end;
        if is_in_time && may_continue {
            return None;
        }
        let is_first_abort = !matches!(self.command.load(), ConnectionCommand::Abort(_));
        self.command.store(ConnectionCommand::Abort(timeout));
        self.connection_waker.wake();
        is_first_abort.then_some(timeout)
    }

    fn enter_phase(&self, phase: Phase) {
        self.phase.store(phase);
        self.last_progress.store(self.clock.now_millis(), Ordering::Relaxed);
    }

    fn framing(&self) -> MutexGuard<'_, FramingTracker> {
        self.framing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct FlagWaker(AtomicBool);

    impl Wake for FlagWaker {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn body_is_not_polled_while_the_client_does_not_read() {
        let state = ConnectionState::new(&Arc::new(CoarseClock::new()));
        let woken = Arc::new(FlagWaker::default());
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        state.on_request_head(&HeaderMap::new());
        assert!(state.poll_writable(&context));
        state.on_write_blocked();
        assert!(!state.poll_writable(&context));
        // A part of the data is not all of it.
        state.on_partial_write();
        assert!(!state.poll_writable(&context) && !woken.0.load(Ordering::Relaxed));
        state.on_flushed();
        assert!(state.poll_writable(&context) && woken.0.load(Ordering::Relaxed));
    }
}
