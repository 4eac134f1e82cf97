//! Checks of the section of a chain: mistakes, assumptions and keys without effect.

use std::time::Duration;

use humantime::format_duration;

use super::chain::Chain;
use super::keys::CHAINS;
use super::layers::Layers;
use super::mistakes::SectionMistakes;

impl Chain {
    const MAX_CURRENCY_LENGTH: usize = 12;
    /// Chain ids are JSON numbers in responses, and most JSON parsers round larger ones.
    const CHAIN_IDS: std::ops::RangeInclusive<u64> = 1..=9_007_199_254_740_991;
    const BLOCK_TIMES: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_hours(1);
    const POLL_INTERVALS: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_mins(1);

    /// Returns what is assumed or unknown of a chain without a preset, as a sentence; `None` if nothing is.
    pub(super) fn assumptions(&self, layers: &Layers) -> Option<String> {
        if self.preset.is_some() {
            return None;
        }
        let Self { key, chain_id, block_time, .. } = self;
        let assumptions = [
            ("block_time", format!("a block takes {}", format_duration(*block_time))),
            ("pricing.priority_fee_floor", "there is no minimum tip".into()),
            ("pricing.base_fee_floor", "there is no minimum base fee".into()),
        ];
        let assumed = assumptions.iter().filter(|(name, _)| {
            let path: Vec<_> = [CHAINS, key].into_iter().chain(name.split('.')).collect();
            !layers.has(&path)
        });
        let assumed = assumed.map(|(name, text)| format!("{text} ({name})"));
        let assumed = assumed.collect::<Vec<_>>().join(", ");
        (!assumed.is_empty()).then(|| {
            format!(
                "{CHAINS}.{key}: there is no preset for chain id {chain_id}; assumed: {assumed}"
            )
        })
    }

    /// Reports all values that are not allowed.
    pub(super) fn check(&self, mistakes: &mut SectionMistakes) {
        let is_name = self.name.as_deref().is_none_or(is_shown);
        mistakes.require("name", is_name, "must not be empty or contain control characters");
        let is_symbol =
            |text: &str| is_shown(text) && text.chars().count() <= Self::MAX_CURRENCY_LENGTH;
        let allowed = "must be a symbol of 1 to 12 characters, such as \"ETH\"";
        mistakes.require("currency", self.currency.as_deref().is_none_or(is_symbol), allowed);
        mistakes.require_range("chain_id", self.chain_id, Self::CHAIN_IDS);
        let allowed = "must name at least one http:// or https:// URL";
        mistakes.require("rpc_urls", !self.rpc_urls.is_empty(), allowed);
        let urls = self.rpc_urls.len();
        if self.agreement.get() > urls {
            let allowed = format!("must be from 1 to {urls}, the number of rpc_urls");
            mistakes.reject_with("agreement", &["rpc_urls"], allowed);
        }
        self.check_times(mistakes);
        mistakes.require_range("max_polls_per_block", self.max_polls_per_block.get(), 1..=10);
        let reads = self.reads_per_minute.unwrap_or_default();
        mistakes.require_range("reads_per_minute", reads, 0..=1_000_000);
        mistakes.require_range("history_blocks", self.history_blocks.get(), 1..=65_536);
        // geth limits a fee history to these.
        mistakes.require_range("pricing.window_blocks", self.pricing.window_blocks.get(), 1..=1024);
        // Larger ones would leave too few of the remembered blocks with known asks.
        mistakes.require_range("pricing.ask_interval", self.pricing.ask_interval, 0..=200);
        self.check_floors(mistakes);
        if let Some(mistake) = self.pricing.percentiles_mistake() {
            mistakes.reject_with("pricing.reward_percentiles", &["pricing.strategy"], mistake);
        }
    }

    fn check_times(&self, mistakes: &mut SectionMistakes) {
        let is_allowed = Self::BLOCK_TIMES.contains(&self.block_time);
        mistakes.require("block_time", is_allowed, "must be from 10ms to 1h");
        let is_allowed = Self::POLL_INTERVALS.contains(&self.min_poll_interval);
        mistakes.require("min_poll_interval", is_allowed, "must be from 10ms to 1m");
        let block_time = format_duration(self.block_time);
        let least_age = self.stale_after(self.block_time);
        let stale_after = format_duration(least_age);
        if self.flashblock_time.is_some_and(|time| time > self.block_time) {
            let allowed = format!("must be 0s (none) or at most {block_time} (block_time)");
            mistakes.reject_with("flashblock_time", &["block_time"], allowed);
        }
        if self.max_age <= least_age {
            let interval = self.block_time.max(self.min_poll_interval);
            let reason = match interval {
                _ if least_age == Self::MIN_STALE_AFTER => "",
                _ if interval == self.block_time => ", which is two block times",
                _ => ", which is two poll intervals",
            };
            let allowed = format!("must be longer than {stale_after}{reason}");
            mistakes.reject_with("max_age", &["block_time", "min_poll_interval"], allowed);
        }
        if self.poll_timeout.is_some_and(|timeout| timeout.is_zero() || timeout > self.max_age) {
            let max_age = format_duration(self.max_age);
            let allowed = format!("must be above 0s and at most {max_age} (max_age)");
            mistakes.reject_with("poll_timeout", &["block_time", "max_age"], allowed);
        }
        if self.stall_after(self.block_time).is_some_and(|after| after < self.block_time) {
            let allowed = format!("must be 0s (never) or at least {block_time} (block_time)");
            mistakes.reject_with("stall_after", &["block_time"], allowed);
        }
        if self.max_block_age(self.block_time).is_some_and(|age| age < least_age) {
            let allowed = format!("must be 0s (never) or at least {stale_after}");
            mistakes.reject_with("max_block_age", &["block_time"], allowed);
        }
    }

    fn check_floors(&self, mistakes: &mut SectionMistakes) {
        let pricing = &self.pricing;
        let highest_tip = pricing.high_multiplier.apply(pricing.priority_fee_floor);
        let highest_tip = highest_tip.unwrap_or(pricing.priority_fee_floor);
        for (least, floor, highest, most) in [
            ("base_fee_floor", pricing.base_fee_floor, "max_base_fee", pricing.max_base_fee),
            ("priority_fee_floor", highest_tip, "max_priority_fee", pricing.max_priority_fee),
        ] {
            if floor <= most {
                continue;
            }
            let (key, most_key) = (format!("pricing.{least}"), format!("pricing.{highest}"));
            let others = [key.as_str(), &most_key, "pricing.high_multiplier"];
            if mistakes.is_configured(&key) {
                let problem = format!("gives {floor} wei, more than the {most} wei of {most_key}");
                mistakes.reject_with(&key, &others, problem);
            } else {
                let allowed = format!("must be at least {floor} wei, as {key} gives");
                mistakes.reject_with(&most_key, &others, allowed);
            }
        }
    }
}

/// Returns true if the text can be shown. An SVG document cannot contain all characters.
fn is_shown(text: &str) -> bool {
    let is_forbidden =
        |character: char| character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}');
    !text.trim().is_empty() && !text.contains(is_forbidden)
}
