//! The newest blocks of a chain, asked of one of its nodes in as many calls as that wants.

use std::fmt;

use serde_json::{Value, json};

use super::estimators::Estimator;
use super::fee_history::{self, Part};
use super::measures::REALISED_PERCENTILE;
use super::recording::Recording;
use super::unusable::Unusable;
use crate::config::UpstreamUrl;
use crate::rpc::{Error, Inquiry};

/// How many blocks may be asked for: about a day and a half of blocks every two seconds.
pub const MOST_BLOCKS: usize = 65_536;

/// What most nodes give at most to one call.
const CHUNK: usize = 1024;

/// A node that gives so few blocks to each call is not asked any further.
const MOST_CALLS: usize = 256;

/// Why a node's blocks cannot be had. Its text never shows the node's URL.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Http(#[source] reqwest::Error),
    /// A call failed.
    #[error("eth_feeHistory of {0} failed")]
    Call(Asked, #[source] Error),
    /// What it answered is no fee history.
    #[error("the answer to eth_feeHistory of {0} cannot be used")]
    Answer(Asked, #[source] Unusable),
    /// Blocks were asked for and others came.
    #[error("eth_feeHistory of {0} gave other blocks")]
    OtherBlocks(Asked),
    /// It gives a few blocks to each call.
    #[error(
        "{MOST_CALLS} calls of eth_feeHistory gave {0} blocks only; ask for fewer with --blocks"
    )]
    TooFew(usize),
}

/// What a call asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    count: usize,
    /// `None`: the newest.
    newest: Option<u64>,
}

impl fmt::Display for Asked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.newest {
            Some(newest) => write!(out, "{} blocks up to {newest}", self.count),
            None => write!(out, "the newest {} blocks", self.count),
        }
    }
}

/// The percentiles that `estimators` and the measures need, ascending.
fn percentiles(estimators: &[Estimator], landing_percentile: f64) -> Vec<f64> {
    let needed = estimators.iter().flat_map(|estimator| estimator.percentiles.iter().copied());
    let mut all: Vec<_> = needed.chain([landing_percentile, REALISED_PERCENTILE]).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Asks the node at `url` for its newest `count` blocks with all percentiles that are needed; fewer come where the
/// chain has no more. `advance` is told how many have come.
///
/// # Errors
///
/// [`Unavailable`]: nothing is made of a part.
pub async fn fetch(
    url: UpstreamUrl,
    count: usize,
    estimators: &[Estimator],
    landing_percentile: f64,
    mut advance: impl FnMut(usize),
) -> Result<Recording, Unavailable> {
    let node = Inquiry::of(url).map_err(Unavailable::Http)?;
    let percentiles = percentiles(estimators, landing_percentile);
    let mut source = Source { node, percentiles, wants_integers: false };
    // The newest part first.
    let mut parts: Vec<Part> = Vec::new();
    let (mut missing, mut newest, mut calls) = (count, None, 0_usize);
    while missing > 0 {
        if calls >= MOST_CALLS {
            return Err(Unavailable::TooFew(count.saturating_sub(missing)));
        }
        calls = calls.saturating_add(1);
        let asked = Asked { count: missing.min(CHUNK), newest };
        let mut part = source.ask(asked).await?;
        let surplus = part.blocks.len().saturating_sub(asked.count);
        part.blocks.drain(..surplus);
        let oldest = part.oldest_block.saturating_add(u64::try_from(surplus).unwrap_or(u64::MAX));
        part.oldest_block = oldest;
        let after = oldest.checked_add(u64::try_from(part.blocks.len()).unwrap_or(u64::MAX));
        let is_asked = newest.is_none_or(|newest| after == u64::checked_add(newest, 1));
        if !is_asked || part.blocks.is_empty() {
            return Err(Unavailable::OtherBlocks(asked));
        }
        missing = missing.saturating_sub(part.blocks.len());
        advance(part.blocks.len());
        parts.push(part);
        match oldest.checked_sub(1) {
            Some(before) => newest = Some(before),
            None => break,
        }
    }
    Ok(source.join(parts))
}

struct Source {
    node: Inquiry,
    percentiles: Vec<f64>,
    /// A few nodes take the block count as a JSON integer only.
    wants_integers: bool,
}

impl Source {
    async fn ask(&mut self, asked: Asked) -> Result<Part, Unavailable> {
        let failed = |error| Unavailable::Call(asked, error);
        let answer = match self.call(asked).await {
            Err(error) if error.is_about_parameters() && !self.wants_integers => {
                self.wants_integers = true;
                self.call(asked).await.map_err(|_| failed(error))?
            }
            answer => answer.map_err(failed)?,
        };
        fee_history::read(&answer, Some(&self.percentiles))
            .map_err(|error| Unavailable::Answer(asked, error))
    }

    async fn call(&self, asked: Asked) -> Result<String, Error> {
        let count = if self.wants_integers {
            Value::from(asked.count)
        } else {
            format!("{:#x}", asked.count).into()
        };
        let newest = asked.newest.map_or("latest".into(), |newest| format!("{newest:#x}"));
        let percentiles: Vec<_> = self.percentiles.iter().copied().map(number).collect();
        let params = json!([count, newest, percentiles]);
        let answer = self.node.call("eth_feeHistory", &params).await?;
        Ok(answer.get().to_owned())
    }

    /// All parts as one; they have come with the newest first.
    fn join(self, parts: Vec<Part>) -> Recording {
        let oldest_block = parts.last().map(|part| part.oldest_block).unwrap_or_default();
        let has_tips = parts.iter().any(|part| !part.percentiles.is_empty());
        let blocks = parts.into_iter().rev().flat_map(|part| part.blocks).collect();
        let percentiles = if has_tips { self.percentiles } else { Vec::new() };
        Recording { name: "the node's newest blocks".into(), oldest_block, percentiles, blocks }
    }
}

/// A whole one without the decimal point that some nodes do not expect.
fn number(percentile: f64) -> Value {
    percentile.to_string().parse::<serde_json::Number>().map_or(Value::Null, Value::Number)
}
