//! The REST API: asked within its limits, and believed as far as its answers have the right shape.
//!
//! What it says of delegations is the same for everybody, so its answers are shared and used again for a
//! while. What it answers to a client's own key is that client's alone, since it may be about the key: it
//! is neither taken from what is kept nor put there.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use axum::http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use moka::future::Cache;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::budget::{Budget, Spent};
use super::lookup::{Lookup, Question};
use super::standing::Standing;
use crate::blank::Blanks;
use crate::clients::Purse;
use crate::config;
use crate::json;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::outbound;
use crate::proxy::{self, Cut, Errand, Failure, NoBody, Proxy};
use crate::registry::Direction;

/// The header that a key is in.
pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The API with what it answered lately.
#[derive(Debug)]
pub(super) struct Rest {
    proxy: Proxy,
    api_key: Option<HeaderValue>,
    /// `None`: the configured key removes the limit.
    budget: Option<Budget>,
    answers: Cache<String, Statement>,
    cache_ttl: Duration,
    standing: Standing,
    blanks: Blanks,
    memory: Memory,
}

/// Whose look-up it is.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The client's own `X-API-KEY`.
    pub(crate) key: Option<HeaderValue>,
    pub(crate) purse: Purse,
}

/// What the API is asked.
struct Request<'a> {
    lookup: &'a Lookup,
    path: String,
    query: String,
    caller: &'a Caller,
}

/// What the API says of delegations, or against being asked.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) status: StatusCode,
    /// JSON.
    pub(crate) body: Bytes,
    pub(crate) retry_after: Option<Duration>,
    /// When it was received.
    pub(crate) received: Instant,
    /// For how long from then on it may be used again.
    pub(crate) good_for: Duration,
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

/// Why the API did not say anything of delegations.
#[derive(Debug, Clone)]
pub(super) enum Silence {
    /// It was asked as often as it may be; ask again after that.
    Spent(Duration),
    /// Nothing came of asking, or what is no answer of such an API.
    Failed(Failure),
    /// There is no memory for another answer.
    NoMemory,
    /// It answers with an error.
    Refused(Statement),
}

const INVALID: Silence = Silence::Failed(Failure::Invalid);

impl Rest {
    /// A wallet with about 2,500 delegations.
    const MAX_BYTES: usize = Blanks::MAX_BYTES;
    /// Of all kept answers.
    const MAX_KEPT_BYTES: u64 = 32 * 1024 * 1024;

    /// The configured API.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub(super) fn new(
        config: &config::Delegation,
        memory: &Memory,
        metrics: &Metrics,
    ) -> Result<Self, reqwest::Error> {
        let limits = proxy::Limits { timeout: config.timeout, max_in_flight: config.max_in_flight };
        let url = config.api_url.clone();
        let api_key = config.api_key.as_ref().map(|key| key.expose().clone());
        let answers = Cache::builder()
            .weigher(|key: &String, statement: &Statement| statement.weight(key))
            .max_capacity(Self::MAX_KEPT_BYTES)
            .time_to_live(config.cache_ttl)
            .build();
        Ok(Self {
            proxy: Proxy::new("delegation", url, limits, metrics)?,
            budget: api_key.is_none().then(|| Budget::new(config.timeout)),
            api_key,
            answers,
            cache_ttl: config.cache_ttl,
            standing: Standing::new(config.timeout),
            blanks: Blanks::of(config.secrets()),
            memory: memory.clone(),
        })
    }

    /// Whether it lately answered in time, or may have come back.
    pub(super) fn is_worth_waiting_for(&self) -> bool {
        self.standing.is_worth_waiting_for(Instant::now())
    }

    /// What the API says to `lookup`, in the direction that is asked for. Dropping the future leaves a
    /// request to others that wait for the same.
    pub(super) async fn ask(
        &self,
        lookup: &Lookup,
        caller: &Caller,
    ) -> Result<(Statement, Origin), Silence> {
        let (mut statement, origin) = self.find(lookup, caller).await?;
        if let &Question::List { address, direction: Some(direction) } = &lookup.question {
            statement.body = narrowed(&statement.body, direction, address, &self.memory)?;
        }
        Ok((statement, origin))
    }

    async fn find(&self, lookup: &Lookup, caller: &Caller) -> Result<(Statement, Origin), Silence> {
        let (path, query) = lookup.request();
        let key = format!("{path}?{query}");
        let request = Request { lookup, path, query, caller };
        if caller.key.is_some() {
            let statement = self.judged(&request).await?;
            return Ok((Statement { good_for: Duration::ZERO, ..statement }, Origin::Api));
        }
        loop {
            if let Some(statement) = self.answers.get(&key).await {
                return Ok((statement, Origin::Memory));
            }
            let is_asked = AtomicBool::new(false);
            let asking = async {
                is_asked.store(true, Ordering::Relaxed);
                self.judged(&request).await
            };
            let outcome = self.answers.try_get_with(key.clone(), asking).await;
            let is_own = is_asked.load(Ordering::Relaxed);
            let origin = if is_own { Origin::Api } else { Origin::Other };
            match outcome.map_err(|silence| Silence::clone(&silence)) {
                Ok(statement) => return Ok((statement, origin)),
                // Somebody else was, who asked for all.
                Err(Silence::Failed(Failure::TooManyOfClient)) if !is_own => {}
                Err(silence) => return Err(silence),
            }
        }
    }

    /// Asks once and takes note of whether the API answers at all.
    async fn judged(&self, request: &Request<'_>) -> Result<Statement, Silence> {
        const LONG: Duration = Duration::from_secs(1);
        let began = Instant::now();
        let outcome = self.ask_once(request).await;
        match &outcome {
            Err(Silence::Failed(failure))
                if *failure == Failure::Timeout || began.elapsed() >= LONG =>
            {
                self.standing.was_silent(Instant::now());
            }
            Ok(_) | Err(Silence::Failed(Failure::Invalid) | Silence::Refused(_)) => {
                self.standing.has_answered();
            }
            Err(Silence::Failed(_) | Silence::Spent(_) | Silence::NoMemory) => {}
        }
        outcome
    }

    async fn ask_once(&self, request: &Request<'_>) -> Result<Statement, Silence> {
        let Request { lookup, path, query, caller } = request;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = caller.key.as_ref().or(self.api_key.as_ref()) {
            headers.insert(X_API_KEY, key.clone());
        }
        let budget = self.budget.as_ref().filter(|_| caller.key.is_none());
        let place = budget.map(|budget| budget.take(Instant::now())).transpose();
        let place = place.map_err(|Spent(wait)| Silence::Spent(wait))?;
        if let Some(place) = &place {
            tokio::time::sleep_until(place.from().into()).await;
        }
        let segments: Vec<&str> = path.split('/').collect();
        let errand = Errand {
            method: Method::GET,
            segments: &segments,
            query: Some(query),
            headers: &headers,
            credentials: &[X_API_KEY],
            client: caller.purse.clone(),
        };
        let answer = self.proxy.forward(&errand, None::<NoBody>).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                if let Some(place) = place.filter(|_| never_arrived(failure)) {
                    place.was_not_sent();
                }
                return Err(Silence::Failed(failure));
            }
        };
        if let Some(budget) = budget.filter(|_| answer.status() == StatusCode::TOO_MANY_REQUESTS) {
            budget.close(Instant::now(), outbound::retry_after(answer.headers()));
        }
        let statement = self.read(answer, lookup).await?;
        if statement.status.is_success() { Ok(statement) } else { Err(Silence::Refused(statement)) }
    }

    /// What an answer says, if it is one.
    async fn read(
        &self,
        answer: Response<proxy::Answer>,
        lookup: &Lookup,
    ) -> Result<Statement, Silence> {
        let (parts, body) = answer.into_parts();
        let body = body.collect(Self::MAX_BYTES, &self.memory).await.map_err(|cut| match cut {
            Cut::Broken => Silence::Failed(Failure::Broken),
            Cut::Late => Silence::Failed(Failure::Timeout),
            Cut::TooLarge => INVALID,
            Cut::NoMemory(_) => Silence::NoMemory,
        })?;
        let is_readable = !outbound::is_encoded(&parts.headers) && !parts.status.is_redirection();
        let json = serde_json::from_slice::<&RawValue>(&body).ok().filter(|_| is_readable);
        let is_answer =
            json.is_some_and(|json| !parts.status.is_success() || answers(&lookup.question, json));
        if !is_answer {
            tracing::warn!(
                status = parts.status.as_u16(),
                "what the delegation API answered is no answer"
            );
            return Err(INVALID);
        }
        let shown = self.blanks.apply(&body, &self.memory).map_err(|_| INVALID)?;
        // Blanks in what it says of delegations would make something else of it.
        if parts.status.is_success() && shown != body {
            tracing::warn!("the delegation API answered with a configured secret");
            return Err(INVALID);
        }
        let retry_after = outbound::retry_after(&parts.headers);
        let (received, good_for) = (Instant::now(), self.cache_ttl);
        Ok(Statement { status: parts.status, body: shown, retry_after, received, good_for })
    }
}

impl Statement {
    /// What the cache itself takes for an entry, about.
    const ENTRY_BYTES: usize = 512;

    /// In bytes.
    fn weight(&self, key: &str) -> u32 {
        let bytes = key.len().saturating_add(self.body.len()).saturating_add(Self::ENTRY_BYTES);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Whether it is about the chain that was asked for rather than about anything else: of all that is
    /// asked, only that can be unknown to the API.
    fn is_about_the_chain(&self) -> bool {
        let text = self.body.to_ascii_lowercase();
        self.status.is_client_error() && text.windows(5).any(|word| word == b"chain")
    }
}

impl Silence {
    /// The kind of silence, from a closed list.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Spent(_) => "budget_spent",
            Self::Failed(_) => "failed",
            Self::NoMemory => "no_memory",
            Self::Refused(_) => "refused",
        }
    }

    /// Whether somebody else may answer in the API's place: it said nothing, or nothing about what it
    /// was asked.
    pub(super) fn leaves_others_to_ask(&self) -> bool {
        match self {
            Self::Refused(statement) => {
                statement.status.is_server_error()
                    || statement.status == StatusCode::TOO_MANY_REQUESTS
                    || statement.is_about_the_chain()
            }
            Self::Spent(_) | Self::Failed(_) | Self::NoMemory => true,
        }
    }
}

/// Whether the API has not even heard of the request.
fn never_arrived(failure: Failure) -> bool {
    matches!(failure, Failure::Unreachable | Failure::Overloaded | Failure::TooManyOfClient)
}

/// Those members of a list that lead in this direction from `address`, each as it came.
fn narrowed(
    list: &Bytes,
    direction: Direction,
    address: Address,
    memory: &Memory,
) -> Result<Bytes, Silence> {
    #[derive(Deserialize)]
    struct Ends<'a> {
        #[serde(borrow)]
        from: Option<Cow<'a, str>>,
        to: Option<Cow<'a, str>>,
    }
    let leads_there = |member: &&RawValue| {
        let ends = serde_json::from_str::<Ends>(member.get()).ok();
        let end = ends.and_then(|ends| match direction {
            Direction::Incoming => ends.to,
            Direction::Outgoing => ends.from,
        });
        // Its checksum is the API's business.
        end.is_some_and(|end| crate::address::parse(&end.to_ascii_lowercase()) == Ok(address))
    };
    let mut list: Vec<&RawValue> = serde_json::from_slice(list).map_err(|_| INVALID)?;
    list.retain(leads_there);
    let json = serde_json::to_vec(&list).map_err(|_| INVALID)?;
    let mut hold = memory.hold();
    hold.add(json.len()).map_err(|_| Silence::NoMemory)?;
    Ok(hold.over(json))
}

/// Whether `json` is of the type that answers `question`.
fn answers(question: &Question, json: &RawValue) -> bool {
    match question {
        Question::List { .. } => {
            let list = serde_json::from_str::<Vec<&RawValue>>(json.get());
            list.is_ok_and(|list| list.iter().all(|member| member.get().starts_with('{')))
        }
        Question::Check(check) if check.scope.has_amount() => is_amount(json),
        Question::Check(_) => matches!(json.get(), "true" | "false"),
    }
}

/// A number, or a string of decimal digits.
fn is_amount(json: &RawValue) -> bool {
    let text = json::text(json);
    let is_decimal =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.map_or_else(
        || json.get().starts_with(|first: char| first.is_ascii_digit()),
        |text| is_decimal(&text),
    )
}
