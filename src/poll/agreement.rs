//! Polls with `agreement`: several upstreams at once, of which most must agree.

use futures_util::stream::StreamExt;

use super::active_poll::{ActivePoll, PricedReply, Reply};
use super::judge::Judge;
use super::reporter::PollError;
use crate::fees::{Market, Suggestion, TierName};
use crate::nodes::Candidate;

impl<'a> ActivePoll<'a> {
    /// Calls the first `count` candidates at once, and the others if some of these fail or disagree. Publishes the reply with the
    /// median price of those that agree, if they are most of `count` and of all replies.
    pub(crate) async fn poll_agreeing(&mut self, candidates: &[Candidate<'a>], count: usize) {
        let (first, others) = candidates.split_at(count.min(candidates.len()));
        let mut replies = self.fetch_all(first).await;
        if largest_agreeing(&replies).len() <= count / 2 || replies.len() < count {
            replies.extend(self.fetch_all(others).await);
        }
        replies.sort_by_key(|(candidate, _)| candidate.index);
        let group = largest_agreeing(&replies);
        let is_most = group.len() > count.max(replies.len()) / 2;
        let (mut agreeing, others): (Vec<_>, Vec<_>) =
            replies.into_iter().partition(|(it, _)| is_most && group.contains(&it.index));
        if !others.is_empty() {
            self.reporter.record_disagreement();
        }
        for (candidate, _) in others {
            self.record_failure(candidate, &PollError::Disagreement);
        }
        // The deadline adapts to the slowest, as each one counts.
        if let Some(slowest) = agreeing.iter().map(|(_, reply)| reply.took).max() {
            self.record_reply_time(slowest);
        }
        agreeing.sort_by_key(|(_, reply)| price_of(&reply.market));
        let median = agreeing.len().saturating_sub(1) / 2;
        agreeing.rotate_left(median);
        self.publish_best(agreeing);
    }

    /// Calls all these upstreams. Records the failures and returns the replies.
    async fn fetch_all(&mut self, candidates: &[Candidate<'a>]) -> Vec<Reply<'a>> {
        let mut pending = self.send_all(candidates);
        let mut replies = Vec::new();
        while let Some((candidate, reply)) = pending.next().await {
            match reply {
                Ok(priced) => replies.push((candidate, priced)),
                Err(failure) => self.record_failure(candidate, &failure),
            }
        }
        replies
    }
}

/// Returns the upstreams of the largest group of replies that agree with one of them.
fn largest_agreeing(replies: &[Reply<'_>]) -> Vec<usize> {
    let agreeing = |(_, one): &Reply<'_>| -> Vec<usize> {
        let others = replies.iter().filter(|(_, other)| agree(one, other));
        others.map(|(candidate, _)| candidate.index).collect()
    };
    // Of equal groups the first, whose upstream is preferred.
    replies.iter().map(agreeing).rev().max_by_key(Vec::len).unwrap_or_default()
}

/// Returns true if two replies have nearly the same head and prices.
fn agree(one: &PricedReply, other: &PricedReply) -> bool {
    let prices = |Suggestion { base_fee_per_gas, tiers, .. }: Suggestion| {
        let [medium, high] = TierName::SUGGESTED.map(|name| tiers[name].max_priority_fee_per_gas);
        [base_fee_per_gas, medium, high]
    };
    let (one_market, other_market) = (&one.market, &other.market);
    let pairs = prices(one_market.suggestion).into_iter().zip(prices(other_market.suggestion));
    one.history.newest_block().abs_diff(other.history.newest_block()) <= Judge::TOLERANCE_BLOCKS
        && one_market.suggestion.pricing_type == other_market.suggestion.pricing_type
        && pairs.into_iter().all(|(one, other)| is_near(one, other))
}

/// Returns true if two amounts differ by at most a quarter of the larger one.
fn is_near(one: u128, other: u128) -> bool {
    one.abs_diff(other) <= one.max(other) / 4
}

fn price_of(market: &Market) -> [u128; 2] {
    TierName::SUGGESTED.map(|name| market.suggestion.tiers[name].max_fee_per_gas)
}

#[cfg(test)]
mod tests;
