//! State of a chain: whether its newest snapshot may be served, and whether it is stale.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Snapshot, Timestamps};
use crate::config;
use crate::observe::clock;

/// A snapshot that may be served, and its age at the moment of the look-up.
#[derive(Debug, Clone)]
pub struct ServableSnapshot {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// Time since the reply was accepted.
    pub age: Duration,
    /// Time since the head changed.
    pub head_age: Duration,
    /// Reason why the data is stale, by the chain's settings; `None`: it is fresh.
    pub stale_reason: Option<StaleReason>,
    /// Time until the data becomes stale unless there is a newer reply; 0 if it is.
    pub fresh_for: Duration,
}

/// Reason why data that may be served is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StaleReason {
    /// No reply was accepted for two block times, or since the machine has slept or its clock was set.
    OldData,
    /// The newest block was too old already when this process first read it, or another node has a newer one.
    OldBlock,
    /// The newest block was young when it was read, and none has followed.
    StandingHead,
}

/// State of a chain, as in `/v1/chains`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainState {
    /// There is no data yet.
    #[default]
    NoData,
    /// Data is served, and none of it is old.
    Fresh,
    /// Data is served and labelled stale.
    Stale(StaleReason),
    /// The newest data is older than `max_age` and not served.
    Expired,
}

/// Reason why a chain has nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// No reply was ever accepted.
    NoData,
    /// The newest snapshot is older than `max_age`.
    Expired,
}

impl ServableSnapshot {
    /// Looks at the newest snapshot of a chain, one of whose clocks leapt last at `last_leap`.
    pub(super) fn new(
        newest: Option<Arc<Snapshot>>,
        chain: &config::Chain,
        last_leap: Option<Instant>,
    ) -> Result<Self, Unavailable> {
        let snapshot = newest.ok_or(Unavailable::NoData)?;
        let now = clock::now();
        let Timestamps { observed_at, head_changed_at } = snapshot.timestamps;
        let age = now.saturating_duration_since(observed_at);
        if age >= chain.max_age {
            return Err(Unavailable::Expired);
        }
        let head_age = now.saturating_duration_since(head_changed_at);
        let (block, max_age) = (&snapshot.block, chain.stale_after(snapshot.block_time));
        let block_age = block.age(now).zip(chain.max_block_age(snapshot.block_time));
        let stall_after = chain.stall_after(snapshot.block_time);
        let has_stalled = stall_after.is_some_and(|after| head_age >= after)
            || block_age.is_some_and(|(age, max)| age > max);
        let stale_reason = if age > max_age || last_leap > Some(snapshot.received_at) {
            Some(StaleReason::OldData)
        } else if block.was_old || (has_stalled && block.is_behind) {
            Some(StaleReason::OldBlock)
        } else {
            has_stalled.then_some(StaleReason::StandingHead)
        };
        let until_stalled = stall_after.map(|after| after.saturating_sub(head_age));
        let until_old_block = block_age.map(|(age, max)| max.saturating_sub(age));
        let until_stale = [until_stalled, until_old_block]
            .into_iter()
            .flatten()
            .fold(max_age.saturating_sub(age), Duration::min);
        let fresh_for = if stale_reason.is_none() { until_stale } else { Duration::ZERO };
        Ok(Self { snapshot, age, head_age, stale_reason, fresh_for })
    }

    /// Returns true if the data is labelled stale.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale_reason.is_some()
    }
}

impl StaleReason {
    /// Name of the reason in responses and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl ChainState {
    /// Returns the state that the result of a look-up shows.
    #[must_use]
    pub fn new(result: &Result<ServableSnapshot, Unavailable>) -> Self {
        match result {
            Ok(ServableSnapshot { stale_reason: None, .. }) => Self::Fresh,
            Ok(ServableSnapshot { stale_reason: Some(reason), .. }) => Self::Stale(*reason),
            Err(Unavailable::NoData) => Self::NoData,
            Err(Unavailable::Expired) => Self::Expired,
        }
    }

    /// `fresh`, `stale` or `unavailable`.
    #[must_use]
    pub fn status(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale(_) => "stale",
            Self::NoData | Self::Expired => "unavailable",
        }
    }

    /// Reason why the chain is not fresh; `None`: it is.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Fresh => None,
            Self::NoData => Some("no_data"),
            Self::Stale(reason) => Some(reason.name()),
            Self::Expired => Some(StaleReason::OldData.name()),
        }
    }
}
