//! Requests to the API that are shared by those who ask the same, and its answers while they hold.
//!
//! A shared request is a task of its own. It goes on when whoever asked first leaves: so nobody waits for
//! longer than one request takes, nothing is asked again for those who stay, and it is known when the
//! request is over. The tasks end with this.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{FutureExt, Shared};
use moka::future::Cache;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::lookup::Lookup;
use super::rest::{Caller, Request, Rest, Silence, Statement};
use crate::metrics::Metrics;
use crate::proxy::Failure;
use crate::traces;

/// The API, asked as seldom as can be.
#[derive(Debug)]
pub(super) struct Sharing {
    api: Arc<Rest>,
    /// By what was asked.
    answers: Cache<String, Statement>,
    under_way: Arc<UnderWay>,
    tasks: Mutex<JoinSet<()>>,
}

/// What will be known of each request under way, by what it asks.
type UnderWay = Mutex<HashMap<String, Outcome>>;

type Outcome = Shared<oneshot::Receiver<Result<Statement, Silence>>>;

/// Whether the API is waited for although it was silent lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Nobody else can answer.
    Always,
    /// Not until it is back.
    WhileItAnswers,
}

/// Where a statement is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// What was kept.
    Memory,
    /// The request of somebody else that was under way.
    Other,
    Api,
}

impl Sharing {
    /// Of all kept answers.
    const MAX_KEPT_BYTES: u64 = 32 * 1024 * 1024;

    /// Keeps each answer of `api` for as long as `cache_ttl`.
    pub(super) fn new(api: Rest, cache_ttl: Duration, metrics: &Metrics) -> Self {
        let answers = Cache::builder()
            .weigher(|asked: &String, statement: &Statement| statement.weight(asked))
            .max_capacity(Self::MAX_KEPT_BYTES)
            .time_to_live(cache_ttl)
            .build();
        let kept = answers.clone();
        metrics.watch_cache("delegations", move || [kept.entry_count(), kept.weighted_size()]);
        Self {
            api: Arc::new(api),
            answers,
            under_way: Arc::default(),
            tasks: Mutex::new(JoinSet::new()),
        }
    }

    /// What keeps the API's budget in step with other replicas, if anything has to.
    pub(super) fn keep_budget(&self) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        self.api.keep_budget()
    }

    /// What the API says to `lookup`. Dropping the future leaves a shared request to itself; that of a
    /// client with a key of its own ends.
    ///
    /// # Errors
    ///
    /// Why it says nothing of delegations.
    pub(super) async fn ask(
        &self,
        lookup: &Lookup,
        caller: &Caller,
        patience: Patience,
    ) -> Result<(Statement, Origin), Silence> {
        let request = Request::new(lookup, caller);
        let is_worth_it = || patience == Patience::Always || self.api.is_worth_waiting_for();
        if caller.key.is_some() {
            if !is_worth_it() {
                return Err(Silence::LetBe);
            }
            // What it is told may be about the key.
            let statement = self.api.ask(&request).await?;
            return Ok((Statement { good_for: Duration::ZERO, ..statement }, Origin::Api));
        }
        let asked = request.text();
        loop {
            if let Some(statement) = self.answers.get(&asked).await {
                return Ok((statement, Origin::Memory));
            }
            if !is_worth_it() {
                return Err(Silence::LetBe);
            }
            let (outcome, origin) = self.join_or_begin(&asked, &request);
            // Without an outcome its task has come to nothing: the service is about to end.
            match outcome.await.unwrap_or(Err(Silence::Failed(Failure::Broken))) {
                Ok(statement) => return Ok((statement, origin)),
                // Somebody else was, who asked for all.
                Err(Silence::Failed(Failure::TooManyOfClient)) if origin == Origin::Other => {}
                Err(silence) => return Err(silence),
            }
        }
    }

    /// The request under way that asks the same, or a new one.
    fn join_or_begin(&self, asked: &str, request: &Request) -> (Outcome, Origin) {
        let (tell, outcome) = oneshot::channel();
        let outcome = outcome.shared();
        // A task that cannot be spawned any more leaves its place at once, so nothing is locked then.
        match lock(&self.under_way).entry(asked.to_owned()) {
            Entry::Occupied(other) => return (other.get().clone(), Origin::Other),
            Entry::Vacant(place) => place.insert(outcome.clone()),
        };
        let place = PlaceAmong { under_way: Arc::clone(&self.under_way), asked: asked.to_owned() };
        let (api, answers, request) =
            (Arc::clone(&self.api), self.answers.clone(), request.clone());
        let task = async move {
            // Whoever looked for a kept answer just before it was there asks for it again.
            let outcome = answers.try_get_with(place.asked.clone(), api.ask(&request)).await;
            drop(place);
            // Nobody may be left to wait for it.
            let _ = tell.send(outcome.map_err(|silence| Silence::clone(&silence)));
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(traces::carried(task));
        (outcome, Origin::Api)
    }
}

fn lock(under_way: &UnderWay) -> MutexGuard<'_, HashMap<String, Outcome>> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request's place among those under way, which it leaves whatever becomes of it.
struct PlaceAmong {
    under_way: Arc<UnderWay>,
    asked: String,
}

impl Drop for PlaceAmong {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.asked);
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::super::lookup::{Block, Question};
    use super::*;
    use crate::clients::Purse;
    use crate::config;
    use crate::memory::Memory;
    use crate::metrics::Metrics;

    #[test]
    fn a_request_that_comes_while_the_service_ends_leaves_nothing_behind() {
        let config = config::Delegation {
            api_url: "http://127.0.0.1:9".parse().unwrap(),
            ..config::Delegation::default()
        };
        let api = Rest::new(&config, &Memory::new(0), None, &Metrics::new()).unwrap();
        let sharing = Arc::new(Sharing::new(api, Duration::ZERO, &Metrics::new()));
        let question = Question::List { address: Address::ZERO, direction: None };
        let lookup = Lookup { chain_id: 1, question, block: Block::Latest };
        let request = Request::new(&lookup, &Caller { key: None, purse: Purse::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let (tell, outcome) = std::sync::mpsc::channel();
        let asked = Arc::clone(&sharing);
        std::thread::spawn(move || {
            // Nothing that is spawned here ever runs.
            let _guard = handle.enter();
            let (outcome, _) = asked.join_or_begin("anything", &request);
            tell.send(outcome.now_or_never()).unwrap();
        });
        let outcome = outcome.recv_timeout(Duration::from_secs(20)).expect("it does not hang");
        assert!(matches!(outcome, Some(Err(_))), "{outcome:?}");
        assert!(lock(&sharing.under_way).is_empty());
    }
}
