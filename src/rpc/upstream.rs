//! One RPC node of one chain: what is known of it, and the calls that are made to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::fee_history::{BlockCount, FeeHistoryRequest};
use super::health::{Health, Penalty, Standing};
use super::read_record::ReadRecord;
use super::{Answer, Call, Client, Condition, Error, Node, Unanswered, quantity};
use crate::fees::FeeHistory;
use crate::memory::Memory;

/// A node behind one configured URL.
#[derive(Debug)]
pub struct Upstream {
    client: Client,
    node: Node,
    knowledge: Mutex<Knowledge>,
    reads: Mutex<ReadRecord>,
    /// Held by the one read that asks for the chain id while the others wait. No poll waits for it.
    check_for_reads: tokio::sync::Mutex<()>,
    /// Told when a node of the chain has asked to be left alone.
    limits: Arc<Notify>,
}

/// What the polls have learned.
#[derive(Debug, Clone, Copy)]
struct Knowledge {
    /// When the node last proved to serve the configured chain; `None`: it has to, before it is
    /// believed.
    chain_checked: Option<Instant>,
    /// When that was last in doubt.
    doubted: Option<Instant>,
    /// How the node wants the block count.
    block_count: BlockCount,
    health: Health,
}

impl Upstream {
    /// A load balancer may put another node behind the URL at any time.
    const CHAIN_CHECK_INTERVAL: Duration = Duration::from_mins(10);

    /// This `node`, whose chain has a block every `block_time`. Nothing is asked yet.
    pub(super) fn new(
        client: Client,
        node: Node,
        block_time: Duration,
        limits: Arc<Notify>,
    ) -> Self {
        let (block_count, health) = (BlockCount::Quantity, Health::new(block_time));
        let knowledge = Knowledge { chain_checked: None, doubted: None, block_count, health };
        Self {
            client,
            node,
            knowledge: Mutex::new(knowledge),
            reads: Mutex::new(ReadRecord::new(block_time)),
            check_for_reads: tokio::sync::Mutex::default(),
            limits,
        }
    }

    /// Remembers that an answer of this node was believed.
    pub fn succeeded(&self) {
        self.learn(|knowledge| knowledge.health.succeeded());
    }

    /// Remembers that a call to this node failed, which says when it is asked next.
    pub fn failed(&self, error: &Error) {
        self.learn(|knowledge| knowledge.health.failed(error.penalty(), Instant::now()));
        if matches!(error, Error::RateLimited(_)) {
            self.limits.notify_one();
        }
    }

    /// What others call this node, who must not learn its URL.
    pub(crate) fn alias(&self) -> String {
        self.node.url.alias()
    }

    /// For how much longer it has asked polls to let it be; zero: it has not. What it asks of reads is between it
    /// and them: no client can make it that others are not polled.
    pub(crate) fn rate_limited_for(&self, now: Instant) -> Duration {
        self.knowledge().health.rate_limited_for(now)
    }

    /// Takes note that it has asked another replica to be left alone for `wait`.
    pub(crate) fn is_rate_limiting(&self, wait: Duration) {
        self.learn(|knowledge| knowledge.health.is_cooling(wait, Instant::now()));
    }

    /// For how much longer it need not prove which chain it serves; zero: it has to.
    pub(crate) fn is_proved_for(&self) -> Duration {
        let checked = self.knowledge().chain_checked;
        checked.map_or(Duration::ZERO, |at| Self::CHAIN_CHECK_INTERVAL.saturating_sub(at.elapsed()))
    }

    /// Whether it has failed, and has not proved since then which chain it serves.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let Knowledge { chain_checked, doubted, .. } = self.knowledge();
        chain_checked.is_none() && doubted.is_some()
    }

    /// Takes note that another replica has seen it prove its chain, which holds for `remaining`. What has gone
    /// wrong here since then counts for more.
    pub(crate) fn was_proved(&self, remaining: Duration) {
        let since = Self::CHAIN_CHECK_INTERVAL.saturating_sub(remaining);
        let Some(checked) = Instant::now().checked_sub(since) else { return };
        self.learn(|knowledge| {
            if knowledge.doubted.is_none_or(|doubted| doubted < checked) {
                knowledge.chain_checked = knowledge.chain_checked.max(Some(checked));
            }
        });
    }

    /// Remembers that an answer of this node could not be believed for what it says.
    pub fn was_refused(&self) {
        self.learn(|knowledge| knowledge.health.failed(Penalty::Rest, Instant::now()));
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        self.knowledge().health.standing(now)
    }

    /// How this node stands among those that polls ask.
    pub(super) fn condition(&self, now: Instant) -> Condition {
        let health = self.knowledge().health;
        Condition {
            standing: health.standing(now),
            serves_another_chain: health.is_quarantined(now),
        }
    }

    /// Asks for a fee history, after the chain id where that is due: before the first use, after
    /// an error, and every ten minutes. Ends within `deadline`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being believed; the next call checks the chain again unless
    /// this one has.
    pub async fn fee_history(
        &self,
        request: &FeeHistoryRequest,
        deadline: Duration,
    ) -> Result<FeeHistory, Error> {
        let started = Instant::now();
        let Knowledge { chain_checked, doubted, .. } = self.knowledge();
        let asked = async {
            // Nobody has anything yet: the first answer is worth a call that may be in vain.
            if chain_checked.is_none() && doubted.is_none() {
                let (checked, history) =
                    tokio::join!(self.check_chain(), self.ask_fee_history(request));
                return checked.and(history);
            }
            self.check_chain().await?;
            self.ask_fee_history(request).await
        };
        let outcome = tokio::time::timeout(deadline, asked).await.unwrap_or(Err(Error::Timeout));
        if outcome.is_err() {
            // A check that this very attempt has made still holds. Without it a node that answers
            // one call within the deadline, but not two, would never be believed.
            self.learn(|knowledge| {
                knowledge.chain_checked = knowledge.chain_checked.filter(|at| *at >= started);
                knowledge.doubted = Some(Instant::now());
            });
            self.reads().doubt_chain_before(started);
        }
        outcome
    }

    async fn ask_fee_history(&self, request: &FeeHistoryRequest) -> Result<FeeHistory, Error> {
        let block_count = self.knowledge().block_count;
        let answer = self.call_fee_history(request, block_count).await;
        if !is_refused(&answer) {
            return answer;
        }
        // Remembered before it has worked, so that a deadline in between does not lose it.
        self.learn(|knowledge| knowledge.block_count = block_count.other());
        let answer = self.call_fee_history(request, block_count.other()).await;
        if is_refused(&answer) {
            self.learn(|knowledge| knowledge.block_count = block_count);
        }
        answer
    }

    async fn call_fee_history(
        &self,
        request: &FeeHistoryRequest,
        block_count: BlockCount,
    ) -> Result<FeeHistory, Error> {
        let params = request.params(block_count);
        let result = self.client.call(&self.node, "eth_feeHistory", &params).await?;
        Ok(request.read(&result)?)
    }

    async fn check_chain(&self) -> Result<(), Error> {
        let checked = self.knowledge().chain_checked;
        if checked.is_some_and(|instant| instant.elapsed() < Self::CHAIN_CHECK_INTERVAL) {
            return Ok(());
        }
        let chain_id = self.client.call(&self.node, "eth_chainId", &json!([])).await?;
        self.compare(&chain_id)?;
        self.learn(|knowledge| knowledge.chain_checked = Some(Instant::now()));
        Ok(())
    }

    fn compare(&self, chain_id: &RawValue) -> Result<(), Error> {
        let found = quantity::parse(chain_id.get())
            .map_err(|_| Error::InvalidReply("the chain id is not a quantity"))?;
        if found == u128::from(self.node.chain_id) {
            Ok(())
        } else {
            Err(Error::WrongChain { expected: self.node.chain_id, found })
        }
    }

    /// How the node stands for reads: by what the polls and what the reads know of it. To be told that
    /// it is well may be to be the one who finds out.
    pub(super) fn standing_for_reads(&self, now: Instant) -> Result<Standing, Unanswered> {
        let polls = self.knowledge().health;
        let mut reads = self.reads();
        if polls.is_rate_limited(now) || reads.is_rate_limited(now) {
            return Err(Unanswered::RateLimited);
        }
        match polls.standing_for_others(now).max(reads.standing(now)) {
            Standing::Barred => Err(Unanswered::Unavailable),
            standing => Ok(standing),
        }
    }

    /// Whether it said to a read lately that it does not have the method.
    pub(super) fn lacks(&self, method: &str, now: Instant) -> bool {
        self.reads().lacks(method, now)
    }

    /// Passes `call` on, after the chain id is known where that is due, as with
    /// [`fee_history`](Self::fee_history). It has no deadline of its own; what the answer takes is held
    /// in `memory`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being believed; the node's own error about the call is an
    /// answer.
    pub(super) async fn read(&self, call: Call<'_>, memory: &Memory) -> Result<Answer, Error> {
        self.check_chain_for_reads().await?;
        let outcome = self.client.read(&self.node, call, memory).await;
        match &outcome {
            Ok(_) => self.reads().succeeded(call.method, Instant::now()),
            Err(error) => self.reads().failed(error, call.method, Instant::now()),
        }
        outcome
    }

    /// Takes note that a read was given up that this node had been silent about since then.
    pub(super) fn was_silent(&self, since: Instant) {
        self.reads().was_silent(since, Instant::now());
    }

    async fn check_chain_for_reads(&self) -> Result<(), Error> {
        let waiting_since = Instant::now();
        if self.is_known_to_reads(waiting_since) {
            return Ok(());
        }
        let _turn = self.check_for_reads.lock().await;
        if self.is_known_to_reads(Instant::now()) {
            return Ok(());
        }
        // Those who waited for a check that failed do not each make another.
        if self.reads().has_failed_check_since(waiting_since) {
            return Err(Error::Unchecked);
        }
        let outcome = match self.client.chain_id(&self.node).await {
            Ok(chain_id) => self.compare(&chain_id),
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(()) => self.reads().checked_chain(Instant::now()),
            // Before the next in turn looks.
            Err(error) => self.reads().failed_check(error, Instant::now()),
        }
        outcome.map_err(|error| match error {
            Error::Unreachable(_) | Error::RateLimited(_) | Error::WrongChain { .. } => error,
            // Whatever it was, nothing was done with the call.
            _ => Error::Unchecked,
        })
    }

    /// Whether the node has proved to serve the chain, to a poll or a read, lately and since the last
    /// failure.
    fn is_known_to_reads(&self, now: Instant) -> bool {
        let of_polls = self.knowledge().chain_checked;
        self.reads().is_chain_known(of_polls, now, Self::CHAIN_CHECK_INTERVAL)
    }

    fn reads(&self) -> MutexGuard<'_, ReadRecord> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knowledge(&self) -> Knowledge {
        *self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, change: impl FnOnce(&mut Knowledge)) {
        change(&mut self.knowledge.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether the node finds fault with the parameters.
fn is_refused(answer: &Result<FeeHistory, Error>) -> bool {
    answer.as_ref().is_err_and(Error::is_about_parameters)
}
