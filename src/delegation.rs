//! Who may act for whom: looked up at the REST API, in the registry contract, or in the contract for want
//! of the API.
//!
//! An answer tells which of the two it is from. The contract is read through [`Reads`], with what that
//! shares and bounds; nothing is ever taken for "no" that is not one.

mod budget;
mod lookup;
mod rest;
mod sharing;
mod standing;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, hex};
use bytes::Bytes;
use metrics::Counter;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

pub(crate) use lookup::{Block, Lookup, Question};
pub(crate) use rest::{Caller, Statement, X_API_KEY};

use crate::config::{self, DelegationSource};
use crate::json;
use crate::metrics::Metrics;
use crate::proxy;
use crate::reads::{self, ChainReads, Reads, Refusal, Reuse, Unanswered};
use crate::registry::{Delegation, Direction, Grant, NotAnAnswer, Permission};
use crate::rpc::parse_quantity;
use crate::shared::Pool;
use rest::{Rest, Silence};
use sharing::{Origin, Patience, Sharing};

/// All that can be asked about delegations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Delegations {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None`: the contract is asked at once.
    api: Option<Sharing>,
    /// Whether the contract is asked where the API does not answer.
    falls_back: bool,
    registry: Address,
    reads: Reads,
    counts: Counts,
}

/// Look-ups by what came of them.
#[derive(Debug)]
struct Counts {
    reused: Counter,
    shared: Counter,
    api: Counter,
    chain: Counter,
    refused: Counter,
    over_budget: Counter,
    failed: Counter,
}

/// An answer, and whose it is.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Errors of the API among them.
    Api(Statement),
    /// JSON.
    Chain(Bytes),
}

/// A transaction that nobody has signed: what to call, and the gas that it takes.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) registry: Address,
    pub(crate) calldata: Vec<u8>,
    pub(crate) gas: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The API was asked as often as it may be; ask again after that.
    Spent(Duration),
    /// The API was not asked, or in vain.
    Api(proxy::Failure),
    /// The chain's nodes were not asked, or in vain.
    Chain(Refusal),
    /// There is no contract at the registry's address.
    RegistryAbsent,
    /// What is at the registry's address does not answer like one.
    RegistryInvalid,
    /// What a node answered is no answer.
    NodeInvalid,
    /// The registry refuses the transaction.
    Refused,
    /// There is no memory for another answer.
    NoMemory,
}

impl Delegations {
    /// What `config` says; `None`: it is switched off. Chains are read through `reads`. Replicas share what the
    /// API allows in the `pool`.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub fn new(
        config: &config::Delegation,
        reads: &Reads,
        pool: Option<Pool>,
        metrics: &Metrics,
    ) -> Result<Option<Self>, reqwest::Error> {
        let api = match config.source {
            DelegationSource::Off => return Ok(None),
            DelegationSource::Chain => None,
            DelegationSource::Api | DelegationSource::ApiThenChain => {
                let api = Rest::new(config, reads.memory(), pool, metrics)?;
                Some(Sharing::new(api, config.cache_ttl, metrics))
            }
        };
        let shared = Shared {
            api,
            falls_back: config.source == DelegationSource::ApiThenChain,
            registry: config.registry_address,
            reads: reads.clone(),
            counts: Counts::new(metrics),
        };
        Ok(Some(Self { shared: Arc::new(shared) }))
    }

    /// What keeps the API's budget in step with other replicas, if anything has to; it never ends by itself.
    #[must_use]
    pub fn keep_budget(&self) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        self.shared.api.as_ref()?.keep_budget()
    }

    /// The reads through which chains are asked.
    pub(crate) fn reads(&self) -> &Reads {
        &self.shared.reads
    }

    /// Answers `lookup`, which is about a configured chain. Pending state is the chain's to tell, whoever
    /// else is configured. Ends within the API's deadline, and where the chain is asked that of a read.
    ///
    /// # Errors
    ///
    /// What came of asking the last one that was asked.
    pub(crate) async fn look_up(
        &self,
        lookup: &Lookup,
        caller: &Caller,
    ) -> Result<Answer, Failure> {
        let counts = &self.shared.counts;
        let outcome = self.find(lookup, caller).await;
        let count = match &outcome {
            Ok((_, count)) => count,
            Err(Failure::Spent(_)) => &counts.over_budget,
            Err(_) => &counts.failed,
        };
        count.increment(1);
        outcome.map(|(answer, _)| answer)
    }

    /// Prepares the transaction by which `from` gives `grant` on `chain`, as of its newest block.
    ///
    /// # Errors
    ///
    /// When the registry is not there, refuses, or cannot be asked.
    pub(crate) async fn prepare(
        &self,
        chain: &ChainReads,
        from: Address,
        grant: &Grant,
    ) -> Result<Prepared, Failure> {
        let registry = self.shared.registry;
        let calldata = grant.calldata();
        let until = self.shared.reads.deadline();
        let [from, to] = [from, registry].map(|address| address.to_string());
        let call = json!({ "from": from, "to": to, "data": hex::encode_prefixed(&calldata) });
        // Shared with nobody: another's call may have begun before the last block.
        let code = ask(chain, "eth_getCode", &json!([to, LATEST]), Reuse::Never, until).await?;
        let reads::Answer::Result(code) = code else { return Err(Failure::NodeInvalid) };
        // Whatever is sent where there is no code succeeds, and does nothing.
        if bytes(&code).ok_or(Failure::NodeInvalid)?.is_empty() {
            return Err(Failure::RegistryAbsent);
        }
        let gas =
            ask(chain, "eth_estimateGas", &json!([call, LATEST]), Reuse::Never, until).await?;
        match gas {
            reads::Answer::Result(gas) => {
                let gas = gas_of(&gas).ok_or(Failure::NodeInvalid)?;
                Ok(Prepared { registry, calldata, gas })
            }
            reads::Answer::Error(error) if is_revert(&error) => Err(Failure::Refused),
            reads::Answer::Error(_) => Err(Failure::NodeInvalid),
        }
    }

    async fn find(&self, lookup: &Lookup, caller: &Caller) -> Result<(Answer, &Counter), Failure> {
        let Shared { api, falls_back, counts, .. } = &*self.shared;
        let api = api.as_ref().filter(|_| lookup.block == Block::Latest);
        if let Some(api) = api {
            match self.ask_api(api, lookup, caller).await {
                Ok((statement, origin)) => {
                    let count = match origin {
                        Origin::Memory => &counts.reused,
                        Origin::Other => &counts.shared,
                        Origin::Api => &counts.api,
                    };
                    return Ok((Answer::Api(statement), count));
                }
                Err(silence) if *falls_back && silence.leaves_others_to_ask() => {
                    let reason = silence.reason();
                    tracing::debug!(reason, "the chain answers in the place of the API");
                }
                Err(Silence::Refused(statement)) => {
                    return Ok((Answer::Api(statement), &counts.refused));
                }
                Err(Silence::Spent(wait)) => return Err(Failure::Spent(wait)),
                Err(Silence::Failed(failure)) => return Err(Failure::Api(failure)),
                // Who lets it be has somebody else to ask.
                Err(Silence::LetBe) => return Err(Failure::Api(proxy::Failure::Timeout)),
                Err(Silence::NoMemory) => return Err(Failure::NoMemory),
            }
        }
        let body = self.ask_chain(lookup).await?;
        Ok((Answer::Chain(body), &counts.chain))
    }

    /// What the API says, in the direction that is asked for.
    async fn ask_api(
        &self,
        api: &Sharing,
        lookup: &Lookup,
        caller: &Caller,
    ) -> Result<(Statement, Origin), Silence> {
        let patience =
            if self.shared.falls_back { Patience::WhileItAnswers } else { Patience::Always };
        let (statement, origin) = api.ask(lookup, caller, patience).await?;
        let statement = match lookup.question {
            Question::List { address, direction: Some(direction) } => {
                statement.narrowed(direction, address, self.shared.reads.memory())?
            }
            Question::List { direction: None, .. } | Question::Check(_) => statement,
        };
        Ok((statement, origin))
    }

    /// What the registry contract says.
    async fn ask_chain(&self, lookup: &Lookup) -> Result<Bytes, Failure> {
        let reads = &self.shared.reads;
        let chain = reads.chain(&lookup.chain_id.to_string());
        let chain = chain.ok_or(Failure::Chain(Unanswered::Unavailable.into()))?;
        let registry = Registry {
            address: self.shared.registry,
            chain,
            tag: lookup.block.tag(),
            until: reads.deadline(),
        };
        let json = match &lookup.question {
            Question::Check(check) => match check.read(&registry.call(check.calldata()).await?)? {
                Permission::Is(is_allowed) => to_raw_value(&is_allowed),
                Permission::UpTo(amount) => to_raw_value(&amount.to_string()),
            },
            Question::List { address, direction: Some(direction) } => {
                to_raw_value(&registry.list(*direction, *address).await?)
            }
            Question::List { address, direction: None } => {
                let mut both = registry.list(Direction::Incoming, *address).await?;
                let mut outgoing = registry.list(Direction::Outgoing, *address).await?;
                // Those are there already.
                outgoing.retain(|delegation| !delegation.is_to_itself());
                both.append(&mut outgoing);
                to_raw_value(&both)
            }
        };
        let json: Box<RawValue> = json.expect("strings and their lists serialise");
        let mut hold = reads.memory().hold();
        hold.add(json.get().len()).map_err(|_| Failure::NoMemory)?;
        Ok(hold.over(Box::<str>::from(json).into_string().into_bytes()))
    }
}

const LATEST: &str = Block::Latest.tag();

/// The contract on one chain in one state.
struct Registry<'a> {
    address: Address,
    chain: &'a ChainReads,
    tag: &'static str,
    until: Instant,
}

impl Registry<'_> {
    async fn list(
        &self,
        direction: Direction,
        address: Address,
    ) -> Result<Vec<Delegation>, Failure> {
        let returned = self.call(direction.calldata(address)).await?;
        Ok(Delegation::read_list(&returned)?)
    }

    /// What it returns to `calldata`.
    async fn call(&self, calldata: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let call =
            json!({ "to": self.address.to_string(), "data": hex::encode_prefixed(calldata) });
        let params = json!([call, self.tag]);
        match ask(self.chain, "eth_call", &params, Reuse::WhileUnderWay, self.until).await? {
            reads::Answer::Result(returned) => bytes(&returned).ok_or(Failure::NodeInvalid),
            // A registry does not.
            reads::Answer::Error(error) if is_revert(&error) => Err(Failure::RegistryInvalid),
            reads::Answer::Error(_) => Err(Failure::NodeInvalid),
        }
    }
}

/// The bytes that a result has in hex.
fn bytes(json: &[u8]) -> Option<Vec<u8>> {
    let text = serde_json::from_slice::<Cow<str>>(json).ok()?;
    text.starts_with("0x").then(|| hex::decode(&*text).ok()).flatten()
}

/// What a transaction takes, where a transaction can take that.
fn gas_of(json: &[u8]) -> Option<u64> {
    /// Of one that does nothing at all (yellow paper, appendix G).
    const LEAST: u64 = 21_000;
    /// No delegation takes a thousandth of it.
    const MOST: u64 = 1_000_000_000;
    let gas = parse_quantity(str::from_utf8(json).ok()?).ok()?;
    u64::try_from(gas).ok().filter(|gas| (LEAST..=MOST).contains(gas))
}

/// Whether a node's error is about what was called rather than the node's own.
fn is_revert(error: &[u8]) -> bool {
    const REVERT: i64 = 3;
    #[derive(Deserialize)]
    struct NodeError<'a> {
        code: Option<i64>,
        #[serde(borrow)]
        message: Option<Cow<'a, str>>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    serde_json::from_slice::<NodeError>(error).is_ok_and(|error| {
        let data = error.data.and_then(json::text);
        let mut texts = [error.message, data].into_iter().flatten();
        error.code == Some(REVERT) || texts.any(|text| text.to_ascii_lowercase().contains("revert"))
    })
}

async fn ask(
    chain: &ChainReads,
    method: &str,
    params: &Value,
    reuse: Reuse,
    until: Instant,
) -> Result<reads::Answer, Failure> {
    let params = to_raw_value(params).expect("a value serialises");
    chain.answer_service(method, &params, reuse, until).await.map_err(Failure::Chain)
}

impl From<NotAnAnswer> for Failure {
    fn from(why: NotAnAnswer) -> Self {
        match why {
            NotAnAnswer::Absent => Self::RegistryAbsent,
            NotAnAnswer::Malformed => Self::RegistryInvalid,
        }
    }
}

impl Counts {
    fn new(metrics: &Metrics) -> Self {
        let count = |outcome| metrics.delegation_lookups(outcome);
        Self {
            reused: count("reused"),
            shared: count("shared"),
            api: count("api"),
            chain: count("chain"),
            refused: count("refused"),
            over_budget: count("over_budget"),
            failed: count("failed"),
        }
    }
}
