//! The keys of a chain's table that say what a transaction pays beside its gas, and what the coin costs in dollars.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use alloy_primitives::Address;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor, value};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::config::mistakes::SectionMistakes;
use crate::config::section::Section;
use crate::config::{CHAINS, Chain, SectionKind, TableKeys, address};

/// Keys of all chains by the key of the chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct CostKeys(BTreeMap<String, ChainKeys>);

/// Keys of one chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ChainKeys {
    /// Fee that transactions pay beside their gas; `None`: unknown.
    data_fee: Option<DataFeeKind>,
    /// Price feed of the coin; `None`: there is none.
    usd_feed: Option<UsdFeedSetting>,
}

/// Fee that transactions pay beside their gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum DataFeeKind {
    /// There is none.
    None,
    /// The gas estimate of a node contains it.
    Included,
    /// The tip contains it, so the tip that a transaction needs grows with its data.
    IncludedInTip,
    /// That of OP Stack chains, from the L1 attributes in each block.
    OpStack,
    /// That of Mantle: OP Stack's, times the price of ETH in its coin.
    Mantle,
    /// It is not known, and nothing about costs is read.
    Off,
}

impl DataFeeKind {
    /// Returns true if the L1 attributes in each block tell the fee.
    pub(super) fn has_attributes(self) -> bool {
        matches!(self, Self::OpStack | Self::Mantle)
    }
}

/// The price feed of a chain's coin, `"off"` or `"par"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum UsdFeedSetting {
    Word(UsdFeedWord),
    /// This feed is read.
    Feed(UsdFeed),
}

/// Reason why no feed is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum UsdFeedWord {
    /// None is wanted.
    Off,
    /// The coin is a dollar.
    Par,
}

/// A price feed contract with the interface of Chainlink's aggregators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsdFeed {
    /// Address of the contract.
    #[serde(with = "address")]
    pub(crate) address: Address,
    /// Key of the chain that has the contract; `None`: the chain itself.
    pub(crate) chain: Option<String>,
    /// `description()` of the contract, such as `ETH / USD`.
    pub(crate) pair: String,
    /// Time after which the contract is written even if the price has not moved.
    #[serde(with = "humantime_serde")]
    pub(crate) heartbeat: Duration,
}

impl CostKeys {
    pub(super) const SECTION: SectionKind =
        SectionKind::new::<Self>(TableKeys::in_chains(&["data_fee", "usd_feed"]));

    /// Returns the kind of a chain's data fee; `None`: unknown.
    pub(super) fn data_fee(&self, chain: &Chain) -> Option<DataFeeKind> {
        self.0.get(&chain.key)?.data_fee
    }

    /// Returns the price feed of a chain's coin; `None`: none is read.
    pub(super) fn usd_feed(&self, chain: &Chain) -> Option<&UsdFeed> {
        self.0.get(&chain.key)?.feed()
    }

    /// Returns true if the coin is a dollar.
    pub(super) fn is_dollar(&self, chain: &Chain) -> bool {
        let par = Some(UsdFeedSetting::Word(UsdFeedWord::Par));
        self.0.get(&chain.key).is_some_and(|keys| keys.usd_feed == par)
    }
}

impl ChainKeys {
    fn feed(&self) -> Option<&UsdFeed> {
        match self.usd_feed.as_ref()? {
            UsdFeedSetting::Word(_) => None,
            UsdFeedSetting::Feed(feed) => Some(feed),
        }
    }
}

impl Section for CostKeys {
    fn check(&self, mistakes: &mut SectionMistakes) {
        for (chain, keys) in &self.0 {
            if let Some((key, allowed)) = keys.feed().and_then(UsdFeed::mistake) {
                mistakes.table(chain).reject(key, allowed);
            }
        }
    }

    fn check_chains(&self, chains: &[Chain], mistakes: &mut SectionMistakes) {
        for (chain, keys) in &self.0 {
            if let Some(at) = keys.feed().and_then(|feed| feed.chain.as_ref())
                && !chains.iter().any(|known| known.key == *at)
            {
                let allowed =
                    format!("must be the key of a configured chain; there is no {CHAINS}.{at}");
                mistakes.table(chain).reject("usd_feed.chain", allowed);
            }
        }
    }
}

impl UsdFeed {
    const MAX_PAIR_LENGTH: usize = 64;
    const HEARTBEATS: std::ops::RangeInclusive<Duration> =
        Duration::from_secs(10)..=Duration::from_hours(7 * 24);
    const QUOTE: &'static str = "USD";

    /// Returns what is wrong with a value, with its key.
    fn mistake(&self) -> Option<(&'static str, &'static str)> {
        let quote = self.pair.rsplit_once('/').map(|(_, quote)| quote.trim());
        if quote != Some(Self::QUOTE) || self.pair.len() > Self::MAX_PAIR_LENGTH {
            return Some(("usd_feed.pair", "must be a pair in dollars, such as \"ETH / USD\""));
        }
        let is_right = Self::HEARTBEATS.contains(&self.heartbeat);
        (!is_right).then_some(("usd_feed.heartbeat", "must be from 10s to 7days"))
    }
}

impl<'de> Deserialize<'de> for UsdFeedSetting {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct WordOrFeed;

        impl<'de> Visitor<'de> for WordOrFeed {
            type Value = UsdFeedSetting;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("\"off\", \"par\", or a table of address, pair, heartbeat and chain")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<UsdFeedSetting, E> {
                let word = text.parse().map(UsdFeedSetting::Word);
                word.map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UsdFeedSetting, A::Error> {
                UsdFeed::deserialize(value::MapAccessDeserializer::new(map))
                    .map(UsdFeedSetting::Feed)
            }
        }

        input.deserialize_any(WordOrFeed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::chain_toml;

    const ADDRESS: &str = "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419";

    fn parse(chain_id: u64, line: &str) -> Result<Config, String> {
        let text = chain_toml("a", chain_id, line);
        Config::from_toml(&text, &[CostKeys::SECTION]).map_err(|errors| errors.to_string())
    }

    fn feed(chain_id: u64, line: &str) -> Option<UsdFeed> {
        let config = parse(chain_id, line).unwrap();
        config.section::<CostKeys>().usd_feed(&config.chains[0]).cloned()
    }

    #[test]
    fn a_feed_comes_from_the_preset_or_the_configuration() {
        let preset = feed(1, "").unwrap();
        assert_eq!(preset.address.to_string(), ADDRESS);
        assert_eq!((preset.pair.as_str(), preset.chain), ("ETH / USD", None));
        assert_eq!(preset.heartbeat, Duration::from_hours(1));
        assert_eq!(feed(1, "usd_feed = \"off\""), None);
        assert_eq!(feed(4711, ""), None);
        let line = format!(
            "usd_feed = {{ address = \"{ADDRESS}\", pair = \"XYZ / USD\", heartbeat = \"1d\" }}"
        );
        let configured = feed(4711, &line).unwrap();
        assert_eq!(configured.pair, "XYZ / USD");
        assert_eq!(configured.address.to_string(), ADDRESS);
        // One key of a preset's table can be replaced.
        let longer = feed(1, "usd_feed.heartbeat = \"2h\"").unwrap();
        assert_eq!((longer.address, longer.heartbeat), (preset.address, Duration::from_hours(2)));
    }

    #[test]
    fn mistakes_name_the_key() {
        let table = |address: &str, pair: &str, heartbeat: &str, more: &str| {
            format!(
                "usd_feed = {{ address = \"{address}\", pair = \"{pair}\", heartbeat = \"{heartbeat}\"{more} }}"
            )
        };
        // Its checksum tells.
        let mistyped = ADDRESS.replace("c5b8419", "c5b8418");
        for (line, key) in [
            ("usd_feed = \"on\"".to_owned(), "chains.a.usd_feed"),
            ("usd_feed = 7".to_owned(), "chains.a.usd_feed"),
            (table("0x5f4e", "ETH / USD", "1h", ""), "chains.a.usd_feed.address"),
            (table(&mistyped, "ETH / USD", "1h", ""), "chains.a.usd_feed.address"),
            (table(ADDRESS, "ETH / EUR", "1h", ""), "chains.a.usd_feed.pair"),
            (table(ADDRESS, "ETH / USD", "0s", ""), "chains.a.usd_feed.heartbeat"),
            (table(ADDRESS, "ETH / USD", "8days", ""), "chains.a.usd_feed.heartbeat"),
            (table(ADDRESS, "ETH / USD", "1h", ", chain = \"b\""), "chains.a.usd_feed.chain"),
            (table(ADDRESS, "ETH / USD", "1h", ", chains = \"a\""), "chains.a.usd_feed.chains"),
        ] {
            let error = parse(4711, &line).unwrap_err();
            assert!(error.contains(&format!("{key}:")), "{line}: {error}");
        }
    }
}
