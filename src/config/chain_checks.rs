//! Checks of the section of a chain: mistakes, assumptions and keys without effect.

use std::time::Duration;

use super::CHAINS;
use super::chain::Chain;
use super::layers::Layers;
use super::mistakes::SectionMistakes;

impl Chain {
    /// Largest window of one call: geth limits a fee history to 1,024 blocks.
    const MAX_WINDOW_BLOCKS: usize = 1024;
    const MAX_HISTORY_BLOCKS: usize = 65_536;
    const MAX_READS_PER_MINUTE: usize = 1_000_000;
    /// Larger ones would leave too few of the remembered blocks with known asks.
    const MAX_ASK_INTERVAL: usize = 200;
    const MAX_CURRENCY_LENGTH: usize = 12;
    const MAX_POLLS_PER_BLOCK: usize = 10;
    /// Chain ids are JSON numbers in responses, and most JSON parsers round larger ones.
    const CHAIN_IDS: std::ops::RangeInclusive<u64> = 1..=9_007_199_254_740_991;
    const BLOCK_TIMES: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_hours(1);

    /// Returns what is assumed or unknown of a chain without a preset, as a sentence; `None` if nothing is.
    pub(crate) fn assumptions(&self, layers: &Layers) -> Option<String> {
        if self.preset.is_some() {
            return None;
        }
        let is_set = |key: &str| {
            let path = [CHAINS, &self.key].into_iter().chain(key.split('.'));
            layers.has(&path.map(str::to_owned).collect::<Vec<_>>())
        };
        let block_time = humantime::format_duration(self.block_time);
        let assumptions = [
            ("block_time", format!("a block takes {block_time} (block_time)")),
            (
                "pricing.priority_fee_floor",
                "there is no minimum tip (pricing.priority_fee_floor)".into(),
            ),
            (
                "pricing.base_fee_floor",
                "there is no minimum base fee (pricing.base_fee_floor)".into(),
            ),
        ];
        let assumed = assumptions.into_iter().filter(|(key, _)| !is_set(key));
        let assumed: Vec<String> = assumed.map(|(_, assumption)| assumption).collect();
        let assumed = (!assumed.is_empty()).then(|| format!("assumed: {}", assumed.join(", ")));
        let Self { key, chain_id, .. } = self;
        let statements: Vec<String> = assumed.into_iter().chain(self.unknown_rule()).collect();
        (!statements.is_empty()).then(|| {
            let statements = statements.join("; ");
            format!("{CHAINS}.{key}: there is no preset for chain id {chain_id}; {statements}")
        })
    }

    /// Returns what is unknown without a denominator; `None` if there is one.
    fn unknown_rule(&self) -> Option<String> {
        let pricing = &self.pricing;
        let unknown =
            "unknown: how full blocks move the base fee (pricing.base_fee_change_denominator)";
        let unused = ". Without it or a header's, pricing.empty_block_denominator has no effect";
        let unused = pricing.empty_block_denominator.map_or("", |_| unused);
        pricing.base_fee_change_denominator.is_none().then(|| format!("{unknown}{unused}"))
    }

    /// Reports all values that are not allowed.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        self.check_identity(mistakes);
        self.check_nodes(mistakes);
        self.check_times(mistakes);
        self.check_amounts(mistakes);
    }

    fn check_identity(&self, mistakes: &mut SectionMistakes) {
        // An SVG document cannot contain these.
        let is_forbidden = |character: char| {
            character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}')
        };
        let is_shown = |text: &str| !text.trim().is_empty() && !text.contains(is_forbidden);
        if !self.name.as_deref().is_none_or(is_shown) {
            mistakes.reject("name", "must not be empty or contain control characters");
        }
        let is_symbol =
            |text: &str| is_shown(text) && text.chars().count() <= Self::MAX_CURRENCY_LENGTH;
        if !self.currency.as_deref().is_none_or(is_symbol) {
            mistakes.reject("currency", "must be a symbol of 1 to 12 characters, such as \"ETH\"");
        }
        if !Self::CHAIN_IDS.contains(&self.chain_id) {
            mistakes.reject("chain_id", "must be from 1 to 9007199254740991");
        }
    }

    fn check_nodes(&self, mistakes: &mut SectionMistakes) {
        if self.rpc_urls.is_empty() {
            mistakes.reject("rpc_urls", "must name at least one http:// or https:// URL");
        }
        let urls = self.rpc_urls.len();
        if self.agreement.get() > urls {
            let allowed = format!("must be from 1 to {urls}, the number of rpc_urls");
            mistakes.reject_with("agreement", &["rpc_urls"], allowed);
        }
    }

    fn check_times(&self, mistakes: &mut SectionMistakes) {
        if !Self::BLOCK_TIMES.contains(&self.block_time) {
            mistakes.reject("block_time", "must be from 10ms to 1h");
        }
        let duration = humantime::format_duration;
        let block_time = duration(self.block_time);
        if self.flashblock_time.is_some_and(|time| time > self.block_time) {
            let allowed = format!("must be 0s (none) or at most {block_time} (block_time)");
            mistakes.reject_with("flashblock_time", &["block_time"], allowed);
        }
        if self.max_age <= self.stale_after() {
            let least = duration(self.stale_after());
            let allowed = if self.stale_after() > Self::MIN_STALE_AFTER {
                format!("must be longer than {least}, which is two block times")
            } else {
                format!("must be longer than {least}")
            };
            mistakes.reject_with("max_age", &["block_time"], allowed);
        }
        if self.poll_timeout.is_some_and(|timeout| timeout.is_zero() || timeout > self.max_age) {
            let allowed =
                format!("must be above 0s and at most {} (max_age)", duration(self.max_age));
            mistakes.reject_with("poll_timeout", &["block_time", "max_age"], allowed);
        }
        if self.stall_after().is_some_and(|after| after < self.block_time) {
            let allowed = format!("must be 0s (never) or at least {block_time} (block_time)");
            mistakes.reject_with("stall_after", &["block_time"], allowed);
        }
        if self.max_block_age().is_some_and(|age| age < self.stale_after()) {
            let least = duration(self.stale_after());
            let allowed = format!("must be 0s (never) or at least {least}");
            mistakes.reject_with("max_block_age", &["block_time"], allowed);
        }
    }

    fn check_amounts(&self, mistakes: &mut SectionMistakes) {
        let reads_per_minute = self.reads_per_minute.unwrap_or_default();
        let reads_per_minute = usize::try_from(reads_per_minute).unwrap_or(usize::MAX);
        let ask_interval = usize::try_from(self.pricing.ask_interval).unwrap_or(usize::MAX);
        for (key, value, least, most) in [
            ("max_polls_per_block", self.max_polls_per_block.get(), 1, Self::MAX_POLLS_PER_BLOCK),
            ("reads_per_minute", reads_per_minute, 0, Self::MAX_READS_PER_MINUTE),
            ("history_blocks", self.history_blocks.get(), 1, Self::MAX_HISTORY_BLOCKS),
            ("pricing.window_blocks", self.pricing.window_blocks.get(), 1, Self::MAX_WINDOW_BLOCKS),
            ("pricing.ask_interval", ask_interval, 0, Self::MAX_ASK_INTERVAL),
        ] {
            if value > most {
                mistakes.reject(key, format!("must be from {least} to {most}"));
            }
        }
        let highest_floor = self.pricing.high_multiplier.apply(self.pricing.priority_fee_floor);
        let highest_floor = highest_floor.unwrap_or(self.pricing.priority_fee_floor);
        for (key, floor, most_key, most, others) in [
            (
                "pricing.base_fee_floor",
                self.pricing.base_fee_floor,
                "pricing.max_base_fee",
                self.pricing.max_base_fee,
                &[][..],
            ),
            (
                "pricing.priority_fee_floor",
                highest_floor,
                "pricing.max_priority_fee",
                self.pricing.max_priority_fee,
                &["pricing.high_multiplier"],
            ),
        ] {
            if floor <= most {
                continue;
            }
            let others = [others, &[key, most_key]].concat();
            if mistakes.is_configured(key) {
                let problem = format!("gives {floor} wei, more than the {most} wei of {most_key}");
                mistakes.reject_with(key, &others, problem);
            } else {
                let allowed = format!("must be at least {floor} wei, as {key} gives");
                mistakes.reject_with(most_key, &others, allowed);
            }
        }
        if let Some(mistake) = self.pricing.percentiles_mistake() {
            mistakes.reject_with("pricing.reward_percentiles", &["pricing.strategy"], mistake);
        }
    }
}
