//! The REST API: asked within its limits, and believed as far as its answers have the right shape.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use axum::http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::budget::{Budget, Spent};
use super::lookup::{Lookup, Question};
use super::standing::Standing;
use crate::blank::Blanks;
use crate::clients::Purse;
use crate::config::{self, DelegationSource};
use crate::json;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::news::News;
use crate::outbound;
use crate::proxy::{self, Cut, Errand, Failure, NoBody, Proxy};
use crate::registry::Direction;
use crate::shared::Pool;

/// The header that a key is in.
pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The API.
#[derive(Debug)]
pub(super) struct Rest {
    proxy: Proxy,
    api_key: Option<HeaderValue>,
    /// `None`: the configured key removes the limit.
    budget: Option<Budget>,
    cache_ttl: Duration,
    standing: Standing,
    /// What is blanked in errors.
    blanks: Blanks,
    /// The key alone, which no answer has to tell.
    key: Option<Blanks>,
    memory: Memory,
    /// Of what it answers.
    news: News,
}

/// Whose look-up it is.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The client's own `X-API-KEY`.
    pub(crate) key: Option<HeaderValue>,
    pub(crate) purse: Purse,
}

/// What the API is asked.
#[derive(Debug, Clone)]
pub(super) struct Request {
    question: Question,
    path: String,
    query: String,
    caller: Caller,
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

/// Why the API did not say anything of delegations.
#[derive(Debug, Clone)]
pub(super) enum Silence {
    /// It was asked as often as it may be; ask again after that.
    Spent(Duration),
    /// It was silent lately, and somebody else can answer.
    LetBe,
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
    const MAX_BYTES: usize = 1024 * 1024;
    const MAX_ERROR_BYTES: usize = 64 * 1024;
    /// A shorter key may be part of an answer by chance.
    const LONG_KEY: usize = 8;

    /// The configured API.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub(super) fn new(
        config: &config::Delegation,
        memory: &Memory,
        pool: Option<Pool>,
        metrics: &Metrics,
    ) -> Result<Self, reqwest::Error> {
        let limits = proxy::Limits { timeout: config.timeout, max_in_flight: config.max_in_flight };
        let url = config.api_url.clone();
        let api_key = config.api_key.as_ref().map(|key| key.expose().clone());
        // The chain answers sooner than a place gets free.
        let has_another = config.source == DelegationSource::ApiThenChain;
        let patience = if has_another { Duration::ZERO } else { Budget::PATIENCE };
        Ok(Self {
            proxy: Proxy::new("delegation", url, limits, metrics)?,
            budget: api_key.is_none().then(|| Budget::new(config.timeout, patience, pool, metrics)),
            api_key,
            cache_ttl: config.cache_ttl,
            standing: Standing::new(config.timeout),
            blanks: Blanks::of(config.secrets()),
            key: config.api_key.is_some().then(|| Blanks::of(config.key_spellings(Self::LONG_KEY))),
            memory: memory.clone(),
            news: News::default(),
        })
    }

    /// What keeps the budget in step with other replicas, if anything has to.
    pub(super) fn keep_budget(&self) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        self.budget.as_ref()?.keep()
    }

    /// Whether it lately answered in time, or may have come back.
    pub(super) fn is_worth_waiting_for(&self) -> bool {
        self.standing.is_worth_waiting_for(Instant::now())
    }

    /// Asks once, within the configured time, and takes note of whether the API answers at all.
    ///
    /// # Errors
    ///
    /// Why it says nothing of delegations.
    pub(super) async fn ask(&self, request: &Request) -> Result<Statement, Silence> {
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
            Err(
                Silence::Failed(Failure::Overloaded | Failure::TooManyOfClient) | Silence::Spent(_),
            ) => {
                self.standing.was_not_asked(Instant::now());
            }
            Err(Silence::Failed(_) | Silence::LetBe | Silence::NoMemory) => {}
        }
        outcome
    }

    async fn ask_once(&self, request: &Request) -> Result<Statement, Silence> {
        let Request { question, path, query, caller } = request;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = caller.key.as_ref().or(self.api_key.as_ref()) {
            headers.insert(X_API_KEY, key.clone());
        }
        let budget = self.budget.as_ref().filter(|_| caller.key.is_none());
        let mut place = match budget {
            Some(budget) => Some(budget.take().await.map_err(|Spent(wait)| Silence::Spent(wait))?),
            None => None,
        };
        if let Some(place) = &mut place {
            tokio::time::sleep_until(place.from().into()).await;
            place.is_sent();
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
        match (place, &answer) {
            (Some(place), Err(failure)) if never_arrived(*failure) => place.was_not_sent(),
            // Nobody knows where it is.
            (None, _) | (Some(_), Err(Failure::Timeout)) => {}
            (Some(place), _) => place.ended(),
        }
        let answer = answer.map_err(Silence::Failed)?;
        if let Some(budget) = budget.filter(|_| answer.status() == StatusCode::TOO_MANY_REQUESTS) {
            let retry_after = outbound::retry_after(answer.headers());
            budget.close(Budget::pause(retry_after));
        }
        let statement = self.read(answer, question).await?;
        if statement.status.is_success() { Ok(statement) } else { Err(Silence::Refused(statement)) }
    }

    /// What an answer says, if it is one.
    async fn read(
        &self,
        answer: Response<proxy::Answer>,
        question: &Question,
    ) -> Result<Statement, Silence> {
        let (parts, body) = answer.into_parts();
        let status = parts.status;
        let most = if status.is_success() { Self::MAX_BYTES } else { Self::MAX_ERROR_BYTES };
        let body = body.collect(most, &self.memory).await.map_err(|cut| match cut {
            Cut::Broken => Silence::Failed(Failure::Broken),
            Cut::Late => Silence::Failed(Failure::Timeout),
            Cut::TooLarge => INVALID,
            Cut::NoMemory(_) => Silence::NoMemory,
        })?;
        let is_error = status.is_client_error() || status.is_server_error();
        let json = serde_json::from_slice::<&RawValue>(&body).ok();
        let is_answer = json.is_some_and(|json| {
            is_error || status.is_success() && answers(question, json) && !self.tells_the_key(&body)
        });
        if !is_answer || outbound::is_encoded(&parts.headers) {
            if self.news.is(Err("invalid")) {
                let status = status.as_u16();
                tracing::warn!(status, "what the delegation API answered is no answer");
            }
            return Err(INVALID);
        }
        if self.news.is(Ok(())) {
            tracing::debug!("what the delegation API answers is understood");
        }
        // What it says of delegations stays as it is: blanks would make something else of it.
        let body = if is_error {
            self.blanks.apply(&body, &self.memory).map_err(|_| INVALID)?
        } else {
            body
        };
        let retry_after = outbound::retry_after(&parts.headers).filter(|_| is_error);
        let retry_after = match status {
            StatusCode::TOO_MANY_REQUESTS => Some(Budget::pause(retry_after)),
            _ => retry_after,
        };
        let (received, good_for) = (Instant::now(), self.cache_ttl);
        Ok(Statement { status, body, retry_after, received, good_for })
    }

    fn tells_the_key(&self, body: &[u8]) -> bool {
        self.key.as_ref().is_some_and(|key| key.are_in(body))
    }
}

impl Request {
    pub(super) fn new(lookup: &Lookup, caller: &Caller) -> Self {
        let (path, query) = lookup.request();
        Self { question: lookup.question.clone(), path, query, caller: caller.clone() }
    }

    /// What is asked, the same for those who ask the same.
    pub(super) fn text(&self) -> String {
        format!("{}?{}", self.path, self.query)
    }
}

impl Statement {
    /// What the cache itself takes for an entry, about.
    const ENTRY_BYTES: usize = 512;

    /// In bytes.
    pub(super) fn weight(&self, asked: &str) -> u32 {
        let bytes = asked.len().saturating_add(self.body.len()).saturating_add(Self::ENTRY_BYTES);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Whether it says that it does not know the chain. What an error of the API is like is not documented;
    /// of all that is asked, only the chain can be unknown to it.
    fn is_about_the_chain(&self) -> bool {
        const REFUSALS: [StatusCode; 3] =
            [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY];
        let text = self.body.to_ascii_lowercase();
        let names = |name: &str| text.windows(name.len()).any(|word| word == name.as_bytes());
        REFUSALS.contains(&self.status) && (names("chain") || names("network"))
    }

    /// The same of a list with those members alone that lead in this direction from `address`, each as it
    /// came.
    ///
    /// # Errors
    ///
    /// When it cannot be told of each where it leads.
    pub(super) fn narrowed(
        mut self,
        direction: Direction,
        address: Address,
        memory: &Memory,
    ) -> Result<Self, Silence> {
        #[derive(Deserialize)]
        struct Ends<'a> {
            #[serde(borrow)]
            from: Cow<'a, str>,
            to: Cow<'a, str>,
        }
        let list: Vec<&RawValue> = serde_json::from_slice(&self.body).map_err(|_| INVALID)?;
        let mut narrowed = Vec::new();
        for member in list {
            let Ends { from, to } = serde_json::from_str(member.get()).map_err(|_| INVALID)?;
            // Its checksum is the API's business.
            let read = |end: &str| crate::address::parse(&end.to_ascii_lowercase());
            let (from, to) = (read(&from).map_err(|_| INVALID)?, read(&to).map_err(|_| INVALID)?);
            let end = match direction {
                Direction::Incoming => to,
                Direction::Outgoing => from,
            };
            if end == address {
                narrowed.push(member);
            }
        }
        let json = serde_json::to_vec(&narrowed).map_err(|_| INVALID)?;
        let mut hold = memory.hold();
        hold.add(json.len()).map_err(|_| Silence::NoMemory)?;
        self.body = hold.over(json);
        Ok(self)
    }
}

impl Silence {
    /// The kind of silence, from a closed list.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Spent(_) => "budget_spent",
            Self::LetBe => "let_be",
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
            Self::Spent(_) | Self::LetBe | Self::Failed(_) | Self::NoMemory => true,
        }
    }
}

/// Whether the API has not even heard of the request.
fn never_arrived(failure: Failure) -> bool {
    matches!(failure, Failure::Unreachable | Failure::Overloaded | Failure::TooManyOfClient)
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

/// A number, which the API may write as it likes, or a string of decimal digits.
fn is_amount(json: &RawValue) -> bool {
    json::text(json).map_or_else(
        || json.get().starts_with(|first: char| first.is_ascii_digit()),
        |text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
    )
}
