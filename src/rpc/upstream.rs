//! One RPC node of one chain: what is known of it, and the calls that are made to it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::fee_history::{BlockCount, FeeHistoryRequest};
use super::health::{Health, Penalty, Standing};
use super::{Client, Error, quantity};
use crate::config::RpcUrl;
use crate::fees::FeeHistory;

/// A node behind one configured URL.
#[derive(Debug)]
pub struct Upstream {
    client: Client,
    url: RpcUrl,
    chain_id: u64,
    knowledge: Mutex<Knowledge>,
}

#[derive(Debug, Clone, Copy)]
struct Knowledge {
    /// When the node last proved to serve the configured chain; `None`: it has to, before it is
    /// believed.
    chain_checked: Option<Instant>,
    /// How the node wants the block count.
    block_count: BlockCount,
    health: Health,
}

impl Upstream {
    /// A load balancer may put another node behind the URL at any time.
    const CHAIN_CHECK_INTERVAL: Duration = Duration::from_mins(10);

    /// The node at `url`, which has to serve `chain_id` with a block every `block_time`. Nothing is
    /// asked yet.
    #[must_use]
    pub fn new(client: Client, url: RpcUrl, chain_id: u64, block_time: Duration) -> Self {
        let (block_count, health) = (BlockCount::Quantity, Health::new(block_time));
        let knowledge = Knowledge { chain_checked: None, block_count, health };
        Self { client, url, chain_id, knowledge: Mutex::new(knowledge) }
    }

    /// Remembers that an answer of this node was believed.
    pub fn succeeded(&self) {
        self.learn(|knowledge| knowledge.health.succeeded());
    }

    /// Remembers that a call to this node failed, which says when it is asked next.
    pub fn failed(&self, error: &Error) {
        self.learn(|knowledge| knowledge.health.failed(error.penalty(), Instant::now()));
    }

    /// Remembers that an answer of this node could not be believed for what it says.
    pub fn was_refused(&self) {
        self.learn(|knowledge| knowledge.health.failed(Penalty::Rest, Instant::now()));
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        self.knowledge().health.standing(now)
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
        let asked = async {
            self.check_chain().await?;
            self.ask_fee_history(request).await
        };
        let outcome = tokio::time::timeout(deadline, asked).await.unwrap_or(Err(Error::Timeout));
        if outcome.is_err() {
            // A check that this very attempt has made still holds. Without it a node that answers
            // one call within the deadline, but not two, would never be believed.
            self.learn(|knowledge| {
                knowledge.chain_checked = knowledge.chain_checked.filter(|at| *at >= started);
            });
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
        let result = self.client.call(&self.url, "eth_feeHistory", &params).await?;
        Ok(request.read(&result)?)
    }

    async fn check_chain(&self) -> Result<(), Error> {
        let checked = self.knowledge().chain_checked;
        if checked.is_some_and(|instant| instant.elapsed() < Self::CHAIN_CHECK_INTERVAL) {
            return Ok(());
        }
        let result = self.client.call(&self.url, "eth_chainId", &json!([])).await?;
        let found = quantity::parse(result.get())
            .map_err(|_| Error::InvalidReply("the chain id is not a quantity"))?;
        if found != u128::from(self.chain_id) {
            return Err(Error::WrongChain { expected: self.chain_id, found });
        }
        self.learn(|knowledge| knowledge.chain_checked = Some(Instant::now()));
        Ok(())
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
    matches!(answer, Err(Error::Node(Some(Error::INVALID_PARAMS))))
}
