//! What happens on one connection, as far as its deadlines are concerned.
//!
//! The connection's own task writes it as it goes, with a few atomic stores per request and without
//! reading a clock; the accept loop looks at all of them a few times a second and cuts those that
//! are late. That is several times cheaper than timers of each request's own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use crossbeam_utils::atomic::AtomicCell;
use futures_util::task::AtomicWaker;

use super::tape::{Framing, Tape};
use crate::config::Limits;

/// Time in steps of [`STEP`](Clock::STEP), which whoever owns the clock makes.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    millis: AtomicU64,
}

impl Clock {
    /// How often the time is to be told: deadlines are kept to about this.
    pub(super) const STEP: Duration = Duration::from_millis(200);

    pub(super) fn new() -> Self {
        Self { started: Instant::now(), millis: AtomicU64::new(0) }
    }

    pub(super) fn tell(&self, now: Instant) {
        self.millis.store(self.at(now), Ordering::Relaxed);
    }

    /// What it says at this time.
    fn at(&self, time: Instant) -> u64 {
        let elapsed = time.saturating_duration_since(self.started).as_millis();
        u64::try_from(elapsed).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        self.millis.load(Ordering::Relaxed)
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Line {
    clock: Arc<Clock>,
    phase: AtomicCell<Phase>,
    /// When the phase began, or last made progress.
    since: AtomicU64,
    /// When the answer under way has to be made, if there is such a time.
    end_by: AtomicU64,
    /// Whether that has no end of its own.
    is_endless: AtomicBool,
    /// Whether the system gave the client up, which took nothing of what it was to be sent.
    was_given_up: AtomicBool,
    answer: AtomicCell<Answer>,
    order: AtomicCell<Order>,
    waker: AtomicWaker,
    /// Of what makes the answer, while the client takes nothing.
    maker: AtomicWaker,
    tape: Mutex<Tape>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rest of a request's headers.
    Head,
    /// Another request.
    Idle,
    /// Ourselves.
    Serving,
    /// The client, to take what is sent to it.
    Writing,
}

/// How far the answer to the last request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// All of it is sent, or nothing was asked yet.
    Sent,
    /// It is being made.
    Open,
    /// All of it is made.
    Made,
}

/// What the connection's task is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Go on.
    Serve,
    /// Finish the request under way, if any, and end.
    Finish,
    /// End at once, for this deadline was missed.
    Cut(Missed),
}

/// A deadline of the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// For the headers of a request.
    Head,
    /// For another request.
    Idle,
    /// For taking an answer.
    Write,
}

/// How long a phase may take; `None`: for ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    head: Option<Duration>,
    idle: Option<Duration>,
    write: Option<Duration>,
}

impl Deadlines {
    pub(super) fn new(limits: &Limits) -> Self {
        let some = |limit: Duration| (!limit.is_zero()).then_some(limit);
        Self {
            head: some(limits.header_timeout),
            idle: some(limits.idle_timeout),
            write: some(limits.write_timeout),
        }
    }
}

impl Line {
    const NEVER: u64 = u64::MAX;

    /// A new connection, which owes its first request.
    pub(super) fn new(clock: &Arc<Clock>) -> Self {
        Self {
            since: AtomicU64::new(clock.now()),
            end_by: AtomicU64::new(Self::NEVER),
            is_endless: AtomicBool::new(false),
            was_given_up: AtomicBool::new(false),
            clock: Arc::clone(clock),
            phase: AtomicCell::new(Phase::Head),
            answer: AtomicCell::new(Answer::Sent),
            order: AtomicCell::new(Order::Serve),
            waker: AtomicWaker::new(),
            maker: AtomicWaker::new(),
            tape: Mutex::default(),
        }
    }

    /// Bytes came from the client.
    pub(super) fn received(&self, bytes: &[u8]) {
        let is_request = {
            let mut tape = self.tape();
            tape.record(bytes);
            !tape.is_empty()
        };
        if is_request && self.phase.load() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// The headers of a request are complete; how its body is delimited.
    pub(super) fn received_head(&self, headers: &HeaderMap) -> Framing {
        self.answer.store(Answer::Open);
        self.enter(Phase::Serving);
        self.tape().next_head(headers)
    }

    /// The answer has to be made until then.
    pub(super) fn has_to_end_by(&self, deadline: Instant) {
        self.end_by.store(self.clock.at(deadline), Ordering::Relaxed);
    }

    /// The answer ends when its connection is to.
    pub(super) fn is_endless(&self) {
        self.is_endless.store(true, Ordering::Relaxed);
    }

    /// The system has ended the connection, as the client took nothing.
    pub(super) fn is_given_up(&self) {
        self.was_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether the system has ended the connection, as the client took nothing.
    pub(super) fn was_given_up(&self) -> bool {
        self.was_given_up.load(Ordering::Relaxed)
    }

    /// Whether the client takes what is made; if not, the task is woken when it does. What is not made yet
    /// can still be newer, and takes no memory.
    pub(super) fn is_taking(&self, context: &Context<'_>) -> bool {
        let is_taking = self.phase.load() != Phase::Writing;
        if !is_taking {
            self.maker.register(context.waker());
        }
        is_taking
    }

    /// The last byte of the answer is made.
    pub(super) fn made_answer(&self) {
        if self.end_by.load(Ordering::Relaxed) != Self::NEVER {
            self.end_by.store(Self::NEVER, Ordering::Relaxed);
        }
        self.answer.store(Answer::Made);
    }

    /// The client took a part of what is sent to it.
    pub(super) fn sent_some(&self) {
        if self.phase.load() == Phase::Writing {
            self.enter(Phase::Writing);
        }
    }

    /// The client takes nothing more for now.
    pub(super) fn is_blocked(&self) {
        if self.phase.load() != Phase::Writing {
            self.enter(Phase::Writing);
        }
    }

    /// The client took all that there is to send so far.
    pub(super) fn sent_all(&self) {
        if self.answer.load() == Answer::Made {
            self.answer.store(Answer::Sent);
            // The beginning of the next request may have come together with the last one.
            self.enter(if self.tape().is_empty() { Phase::Idle } else { Phase::Head });
        } else if self.phase.load() == Phase::Writing {
            self.enter(Phase::Serving);
            self.maker.wake();
        }
    }

    /// Whether no answer of ours is under way: what is written now is hyper's own, to a request
    /// that it could not read.
    pub(super) fn owes_nothing(&self) -> bool {
        self.answer.load() == Answer::Sent
    }

    /// Whether anything of a request came that is not answered.
    pub(super) fn has_part_of_a_request(&self) -> bool {
        self.phase.load() == Phase::Head && !self.tape().is_empty()
    }

    /// Whether more of the last request's body may come.
    pub(super) fn may_owe_a_body(&self) -> bool {
        self.tape().may_be_in_body()
    }

    /// Whether the request under way has no complete first line.
    pub(super) fn is_in_first_line(&self) -> bool {
        self.tape().is_in_first_line()
    }

    /// What the task is to do; it is woken when that changes.
    pub(super) fn order(&self, context: &Context<'_>) -> Order {
        self.waker.register(context.waker());
        self.order.load()
    }

    /// Tells the task to finish what it does.
    pub(super) fn finish(&self) {
        self.order.store(Order::Finish);
        self.waker.wake();
    }

    /// Cuts the connection when it is late.
    pub(super) fn check(&self, deadlines: Deadlines) -> Option<Missed> {
        let (limit, missed) = match self.phase.load() {
            Phase::Head => (deadlines.head, Missed::Head),
            Phase::Idle => (deadlines.idle, Missed::Idle),
            Phase::Writing => (deadlines.write, Missed::Write),
            Phase::Serving => return None,
        };
        let since = Duration::from_millis(self.since.load(Ordering::Relaxed));
        let elapsed = Duration::from_millis(self.clock.now()).saturating_sub(since);
        // The clock may have been a step behind when the phase began.
        let is_in_time = limit.is_none_or(|limit| elapsed <= limit.saturating_add(Clock::STEP));
        // Nobody looks for the end of an answer while the client does not take what there is of it.
        let is_over = self.clock.now() > self.end_by.load(Ordering::Relaxed)
            || self.is_endless.load(Ordering::Relaxed) && self.order.load() == Order::Finish;
        let may_go_on = missed != Missed::Write || !is_over;
        if is_in_time && may_go_on {
            return None;
        }
        let is_news = !matches!(self.order.load(), Order::Cut(_));
        self.order.store(Order::Cut(missed));
        self.waker.wake();
        is_news.then_some(missed)
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase);
        self.since.store(self.clock.now(), Ordering::Relaxed);
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn nothing_more_is_made_for_a_client_that_takes_nothing_until_it_does() {
        let line = Line::new(&Arc::new(Clock::new()));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        line.received_head(&HeaderMap::new());
        assert!(line.is_taking(&context));
        line.is_blocked();
        assert!(!line.is_taking(&context));
        // Some of it is not all of it.
        line.sent_some();
        assert!(!line.is_taking(&context) && !woken.0.load(Ordering::Relaxed));
        line.sent_all();
        assert!(line.is_taking(&context) && woken.0.load(Ordering::Relaxed));
    }
}
