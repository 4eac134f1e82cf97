//! Reads for clients: one call, passed on to the first node that can answer it.

use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::value::RawValue;

use super::read_record::ReadRecord;
use super::{Answer, Error, Upstream, Upstreams};
use crate::blank::Unshowable;
use crate::memory::Memory;

/// A call as the client made it, but for its id.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The method's name.
    pub method: &'a str,
    /// A JSON array, or an object where nothing is known of the method.
    pub params: &'a RawValue,
    /// Whether it may be sent to another node when nobody knows what came of it at the first.
    pub is_repeatable: bool,
}

/// Why no node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Not before the deadline.
    #[error("no upstream answered in time")]
    TimedOut,
    /// All that can be asked limit the rate of calls.
    #[error("the upstreams limit the rate of calls; try again later")]
    RateLimited,
    /// The answer is larger than what is passed on.
    #[error("the answer is too large; ask for less")]
    TooLarge,
    /// There is no memory for another answer.
    #[error("too many large answers at a time; try again later")]
    NoMemory,
    /// None of them has the method.
    #[error("the method asked for does not exist at the upstreams")]
    Unsupported,
    /// None can be asked, or none gave a usable answer.
    #[error("no upstream gave a usable answer")]
    Unavailable,
}

impl Upstreams {
    /// Asks the upstreams in the order that the polls know them in too, until one answers: the next
    /// when one fails, and also when it thinks for long, while its answer is still waited for. So the
    /// last one is asked in time however many are silent, and a slow one can still answer.
    ///
    /// A node's own error about what was asked is an answer. What an answer takes is held in
    /// `memory`. Dropping the future ends the call.
    ///
    /// # Errors
    ///
    /// What became of the last upstream that failed, a missing method only where all that may be asked
    /// lack it. Nothing in it is of a node's making.
    pub(crate) async fn read(
        &self,
        call: Call<'_>,
        until: Instant,
        memory: &Memory,
    ) -> Result<Answer, Unanswered> {
        let now = Instant::now();
        let (order, skipped) = self.in_order_for(call.method, now);
        let mut order = order.into_iter();
        let share = until.saturating_duration_since(now)
            / u32::try_from(order.len()).unwrap_or(u32::MAX).max(1);
        let patience = share.min(ReadRecord::PATIENCE);
        let mut thinking = Thinking { chain: self, since: Vec::new() };
        let mut under_way = FuturesUnordered::new();
        let mut outcome = skipped;
        loop {
            if let Some((index, upstream)) = order.next() {
                thinking.since.push((index, Instant::now()));
                let answer = upstream.read(call, memory);
                under_way.push(async move { (index, answer.await) });
            }
            let is_last = order.len() == 0 || !call.is_repeatable;
            let next = if is_last { until } else { until.min(Instant::now() + patience) };
            let (index, answer) = match tokio::time::timeout_at(next.into(), under_way.next()).await
            {
                Ok(Some(answered)) => answered,
                Ok(None) => return Err(outcome.unwrap_or(Unanswered::Unavailable)),
                Err(_) if Instant::now() >= until => {
                    thinking.are_given_up("timeout");
                    return Err(Unanswered::TimedOut);
                }
                Err(_) => continue,
            };
            thinking.since.retain(|(thinker, _)| *thinker != index);
            let reason = answer.as_ref().map_or_else(Error::reason, |_| "ok");
            self.metrics().read_attempt(self.chain(), index, reason);
            match answer {
                Ok(answer) => {
                    thinking.are_given_up("outpaced");
                    return self.blanked(answer, memory);
                }
                Err(error) => {
                    tracing::debug!(
                        chain = self.chain(),
                        upstream = index,
                        reason,
                        %error,
                        "an upstream did not answer a read"
                    );
                    let failure = Unanswered::of(&error);
                    if !error.leaves_others_to_ask(call.is_repeatable) {
                        return Err(failure);
                    }
                    outcome = Some(match outcome {
                        // That one lacks the method says nothing of one that did not tell.
                        Some(other) if failure == Unanswered::Unsupported => other,
                        _ => failure,
                    });
                }
            }
        }
    }

    fn blanked(&self, answer: Answer, memory: &Memory) -> Result<Answer, Unanswered> {
        match answer {
            Answer::Result(_) => Ok(answer),
            Answer::Error(error) => Ok(Answer::Error(self.blanks().apply(&error, memory)?)),
        }
    }

    /// Those that may be asked for `method`, by their standing in the polls and in the reads, and of
    /// those that stand alike last the ones that did not have it; and why others may not be asked.
    fn in_order_for(
        &self,
        method: &str,
        now: Instant,
    ) -> (Vec<(usize, &Upstream)>, Option<Unanswered>) {
        let mut skipped = None;
        let mut order = Vec::with_capacity(self.all().len());
        for (index, upstream) in self.all().iter().enumerate() {
            match upstream.standing_for_reads(now) {
                Ok(standing) => {
                    order.push((standing, upstream.lacks(method, now), (index, upstream)));
                }
                Err(why) => skipped = Some(why),
            }
        }
        // Stable: in order of preference where they stand alike.
        order.sort_by_key(|(standing, lacks, _)| (*standing, *lacks));
        (order.into_iter().map(|(_, _, upstream)| upstream).collect(), skipped)
    }
}

/// The upstreams that have a call before them, with the times from which on they have.
struct Thinking<'a> {
    chain: &'a Upstreams,
    since: Vec<(usize, Instant)>,
}

impl Thinking<'_> {
    fn are_given_up(&mut self, reason: &'static str) {
        for (index, since) in self.since.drain(..) {
            self.chain.metrics().read_attempt(self.chain.chain(), index, reason);
            if let Some(upstream) = self.chain.all().get(index) {
                upstream.was_silent(since);
            }
        }
    }
}

impl Drop for Thinking<'_> {
    /// A client that goes before there is an answer may do so because there is none.
    fn drop(&mut self) {
        self.are_given_up("abandoned");
    }
}

impl Unanswered {
    fn of(error: &Error) -> Self {
        match error {
            Error::RateLimited(_) => Self::RateLimited,
            Error::TooLarge(_) => Self::TooLarge,
            Error::NoMemory(_) => Self::NoMemory,
            Error::Unsupported => Self::Unsupported,
            _ => Self::Unavailable,
        }
    }
}

impl From<Unshowable> for Unanswered {
    fn from(why: Unshowable) -> Self {
        match why {
            Unshowable::TooLarge => Self::TooLarge,
            Unshowable::Opaque => Self::Unavailable,
            Unshowable::NoMemory(_) => Self::NoMemory,
        }
    }
}

impl Error {
    /// Whether the next upstream may do better with a call that failed like this.
    fn leaves_others_to_ask(&self, is_repeatable: bool) -> bool {
        match self {
            Self::TooLarge(_) | Self::NoMemory(_) => false,
            // The node did nothing with the call.
            Self::Unreachable(_)
            | Self::RateLimited(_)
            | Self::Unsupported
            | Self::WrongChain { .. }
            | Self::Unchecked => true,
            _ => is_repeatable,
        }
    }
}
