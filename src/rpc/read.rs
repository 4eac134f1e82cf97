//! Reads for clients: one call, passed on to the first node that can answer it.

use std::time::Instant;

use serde_json::value::RawValue;

use super::health::Standing;
use super::{Answer, Error, Upstream, Upstreams};
use crate::memory::Memory;

/// A call as the client made it, but for its id.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The method's name.
    pub method: &'a str,
    /// A JSON array.
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
    /// Asks one upstream after the other, in the order that the polls know them in too, until one
    /// answers. Each but the last may take half of the time that is left before `until`.
    ///
    /// A node's own error about what was asked is an answer. What an answer takes is held in
    /// `memory`. Dropping the future ends the call.
    ///
    /// # Errors
    ///
    /// What became of the last upstream that was asked. Nothing in it is of a node's making.
    pub(crate) async fn read(
        &self,
        call: Call<'_>,
        until: Instant,
        memory: &Memory,
    ) -> Result<Answer, Unanswered> {
        let order = self.in_order_for(call.method, Instant::now())?;
        let mut order = order.into_iter().peekable();
        let mut outcome = Err(Unanswered::Unavailable);
        while let Some((index, upstream)) = order.next() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unanswered::TimedOut);
            }
            let deadline = if order.peek().is_some() { left / 2 } else { left };
            let answer = upstream.read(call, deadline, memory).await;
            let reason = answer.as_ref().map_or_else(Error::reason, |_| "ok");
            self.metrics().read_attempt(self.chain(), index, reason);
            let error = match answer {
                Ok(answer) => return self.blanked(answer),
                Err(error) => error,
            };
            tracing::debug!(
                chain = self.chain(),
                rpc_url = index,
                reason,
                %error,
                "an upstream did not answer a read"
            );
            outcome = Err(Unanswered::of(&error));
            if !error.leaves_others_to_ask(call.is_repeatable) {
                break;
            }
        }
        outcome
    }

    fn blanked(&self, answer: Answer) -> Result<Answer, Unanswered> {
        match answer {
            Answer::Result(_) => Ok(answer),
            Answer::Error(error) => {
                let error = self.blanks().apply(&error).ok_or(Unanswered::Unavailable)?;
                Ok(Answer::Error(error))
            }
        }
    }

    /// Those that may be asked for `method`, by their standing in the polls and in the reads.
    fn in_order_for(
        &self,
        method: &str,
        now: Instant,
    ) -> Result<Vec<(usize, &Upstream)>, Unanswered> {
        let standings = self.all().iter().map(|upstream| upstream.standing_for_reads(method, now));
        let mut order: Vec<_> = standings.zip(self.all().iter().enumerate()).collect();
        // Stable: in order of preference where they stand alike.
        order.sort_by_key(|(standing, _)| standing.ok());
        let refusal = order.iter().find_map(|(standing, _)| standing.err());
        let able: Vec<_> = order
            .into_iter()
            .filter_map(|(standing, upstream)| standing.is_ok().then_some(upstream))
            .collect();
        if able.is_empty() { Err(refusal.unwrap_or(Unanswered::Unavailable)) } else { Ok(able) }
    }
}

impl Unanswered {
    fn of(error: &Error) -> Self {
        match error {
            Error::Timeout => Self::TimedOut,
            Error::RateLimited(_) => Self::RateLimited,
            Error::TooLarge(_) => Self::TooLarge,
            Error::NoMemory(_) => Self::NoMemory,
            Error::Unsupported => Self::Unsupported,
            _ => Self::Unavailable,
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

/// What an upstream may be asked: its standing, or why it may not.
pub(super) type ReadStanding = Result<Standing, Unanswered>;
