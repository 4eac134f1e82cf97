//! Requests to a service, and the rules for its suggestions.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use alloy_transport::{TransportError, TransportResult};
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url, redirect};
use serde_json::Value;

use crate::{Options, Tier};

/// Fits `/v1/chains` with 900 chains.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Fees in wei per gas. Under legacy pricing both are the gas price.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fees {
    pub(crate) is_legacy: bool,
    pub(crate) max_fee: u128,
    pub(crate) priority_fee: u128,
}

/// A service and its options. All clones of a filler share it.
#[derive(Debug)]
pub(crate) struct Service {
    client: Client,
    base: String,
    options: Options,
    /// Id of the chain of the options. That of a key is requested once.
    id: OnceLock<u64>,
    /// Chains whose last request failed.
    warned: Mutex<HashSet<u64>>,
}

impl Service {
    /// Fails if the URL or an option cannot be right.
    pub(crate) fn new(url: &str, options: Options) -> TransportResult<Self> {
        let id = OnceLock::new();
        if let Some(chain) = &options.chain {
            let is_segment = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if chain.is_empty() || !chain.chars().all(is_segment) {
                return Err(usage(&format!("chain must be a key or a chain id, not {chain:?}")));
            }
            if let Some(number) = decimal(chain).and_then(|id| id.try_into().ok()) {
                id.get_or_init(|| number);
            }
        }
        if options.timeout.is_zero() {
            return Err(usage("timeout must be above 0"));
        }
        // The service is the operator's own, and a redirect could lead anywhere.
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().build();
        let client = client.map_err(TransportError::local_usage)?;
        Ok(Self { client, base: base(url)?, options, id, warned: Mutex::default() })
    }

    /// Requests the fees of a chain. Returns `None`, with a warning, if there are none to use.
    ///
    /// Fails if the options name another chain.
    pub(crate) async fn fees(&self, chain_id: u64) -> TransportResult<Option<Fees>> {
        let tier = match self.options.tier {
            Tier::Medium => "medium",
            Tier::High => "high",
        };
        self.request(chain_id, "gas-suggestion", |body| parse_fees(body, tier)).await
    }

    /// Requests the blob base fee of a chain's next block, in wei per blob gas. Returns `None` if the chain has none or the
    /// service does not know it, and with a warning if there is none to use.
    ///
    /// Fails if the options name another chain.
    pub(crate) async fn blob_base_fee(&self, chain_id: u64) -> TransportResult<Option<u128>> {
        let fee = |body: &Value| match body.get("blob_base_fee_per_gas")? {
            Value::Null => Some(None),
            fees => amount(fees.get("next")).map(Some),
        };
        Ok(self.request(chain_id, "fee-market", fee).await?.flatten())
    }

    async fn request<T>(
        &self,
        chain_id: u64,
        route: &str,
        parse: impl Fn(&Value) -> Option<T>,
    ) -> TransportResult<Option<T>> {
        self.refuse_others(chain_id)?;
        let timeout = self.options.timeout;
        let result = tokio::time::timeout(timeout, self.body(chain_id, route)).await;
        self.refuse_others(chain_id)?;
        let value = result
            .unwrap_or_else(|_| Err(format!("timeout: no response within {timeout:?}")))
            .and_then(|body| {
                parse(&body).ok_or_else(|| "the response is not a suggestion".to_owned())
            });
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Ok(value) => {
                warned.remove(&chain_id);
                Ok(Some(value))
            }
            // A failing service must not stop a payment.
            Err(reason) => {
                if warned.insert(chain_id) {
                    tracing::warn!(
                        "no gas suggestion, the node sets the fees: {}",
                        one_line(&reason)
                    );
                }
                Ok(None)
            }
        }
    }

    fn refuse_others(&self, chain_id: u64) -> TransportResult<()> {
        match self.id.get() {
            Some(id) if *id != chain_id => {
                Err(usage(&format!("these are the fees of chain {id}, not of chain {chain_id}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the body of a route of the chain, if its headers permit its use. Errors are reasons in words.
    async fn body(&self, chain_id: u64, route: &str) -> Result<Value, String> {
        let id = chain_id.to_string();
        let chain = self.options.chain.as_ref().unwrap_or(&id);
        if self.options.chain.is_some() && self.id.get().is_none() {
            // A suggestion has no chain id.
            let (chains, _) = self.get("chains").await?;
            let id = id_of_key(&chains, chain)
                .ok_or_else(|| format!("the service has no chain `{chain}`"))?;
            if *self.id.get_or_init(|| id) != chain_id {
                return Ok(Value::Null); // the caller refuses it
            }
        }
        let (body, headers) = self.get(&format!("{chain}/{route}")).await?;
        self.refuse_old_and_doubted(&headers)?;
        Ok(body)
    }

    fn refuse_old_and_doubted(&self, headers: &HeaderMap) -> Result<(), String> {
        let header =
            |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        if !self.options.accept_stale && header("x-stale").is_some_and(|value| value == "true") {
            return Err("the suggestion is stale".to_owned());
        }
        if let Some(doubt) = header("x-doubt").filter(|_| !self.options.accept_doubt) {
            return Err(format!("the suggestion is doubted: {doubt}"));
        }
        if let Some(max_age) = self.options.max_age {
            let age = header("age").unwrap_or_default();
            let seconds = decimal(&age).and_then(|age| age.try_into().ok());
            if seconds.is_none_or(|seconds| Duration::from_secs(seconds) > max_age) {
                let age = if age.is_empty() { "unknown" } else { &age };
                return Err(format!("the suggestion is older than {max_age:?}: age {age}"));
            }
        }
        Ok(())
    }

    /// Returns body and headers of a response with status 200.
    async fn get(&self, path: &str) -> Result<(Value, HeaderMap), String> {
        let url = format!("{}/v1/{path}", self.base);
        let mut response = self.client.get(url).send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY_BYTES {
                return Err(format!("the response has more than {MAX_BODY_BYTES} bytes"));
            }
        }
        let json = serde_json::from_slice(&body);
        if response.status() == StatusCode::OK {
            let body = json.map_err(|_| "the response is not JSON".to_owned())?;
            return Ok((body, response.headers().clone()));
        }
        let text = json.ok().and_then(|body: Value| {
            let text = |name| body.get(name)?.as_str();
            Some(format!("{}: {}", text("code")?, text("detail")?))
        });
        let text = text.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
        Err(format!("{}: {text}", response.status().as_u16()))
    }
}

fn parse_fees(body: &Value, tier: &str) -> Option<Fees> {
    let is_legacy = match body.get("type")?.as_str()? {
        "eip-1559" => false,
        "legacy" => true,
        _ => return None,
    };
    let tier = body.get(tier)?;
    let max_fee = amount(tier.get("max_fee_per_gas"))?;
    let priority_fee = amount(tier.get("max_priority_fee_per_gas"))?;
    (max_fee >= priority_fee).then_some(Fees { is_legacy, max_fee, priority_fee })
}

/// Returns the id of the only chain with this key in a body of `/v1/chains`.
fn id_of_key(chains: &Value, key: &str) -> Option<u64> {
    let has_key = |chain: &&Value| chain.get("chain").and_then(Value::as_str) == Some(key);
    let mut found = chains.as_array()?.iter().filter(has_key);
    let id = found.next()?.get("chain_id")?.as_u64();
    id.filter(|_| found.next().is_none())
}

/// Returns an amount in wei, which is a string of digits.
fn amount(value: Option<&Value>) -> Option<u128> {
    decimal(value?.as_str()?)
}

fn decimal(text: &str) -> Option<u128> {
    // `parse` takes a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn base(url: &str) -> TransportResult<String> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let parsed = parsed.ok_or_else(|| usage("url must begin with http:// or https://"))?;
    let has_more = parsed.query().is_some() || parsed.fragment().is_some();
    if has_more || !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(usage("url must have no password, query or fragment"));
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

fn usage(text: &str) -> TransportError {
    TransportError::local_usage_str(text)
}

fn unreachable(error: reqwest::Error) -> String {
    // The path may have a key.
    let error = error.without_url();
    let mut text = format!("the service is unreachable: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        // A `String` takes everything.
        _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Returns the text in one line of at most 300 characters, because parts of it may come from a server.
fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(300).collect()
}
