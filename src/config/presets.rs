//! Defaults of known chains, by chain id: those of our table (`config/chains.toml`, which names the source of each value), else
//! those of the list that `alloy-chains` has.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use alloy_chains::NamedChain;
use figment::value::{Dict, Value};

use super::error::is_public_key;
use super::secret_url::UpstreamUrl;
use super::toml_text;

const CHAINS: &str = include_str!("../../config/chains.toml");

/// Keys that a test network may take from its main network.
const RULES: [&str; 4] = ["block_time", "flashblock_time", "data_fee", "pricing"];

/// Defaults of one chain.
#[derive(Debug)]
pub(crate) struct Preset {
    /// Key of the chain if the configuration has no other.
    pub(crate) key: String,
    /// `name` of the chain, which also names the preset.
    pub(crate) name: String,
    /// Endpoints that need no account; empty: none are known.
    public_rpc_urls: Vec<UpstreamUrl>,
    /// Keys of the chain's table.
    pub(crate) values: Dict,
}

static PRESETS: LazyLock<BTreeMap<u64, Preset>> = LazyLock::new(read_all);

/// Returns the preset of the chain with this id, if there is one.
pub(crate) fn find(chain_id: u64) -> Option<&'static Preset> {
    PRESETS.get(&chain_id)
}

/// Returns the id of the chain with this key or decimal id, and its public endpoints.
///
/// # Errors
///
/// Returns a sentence with the keys that there are, if no endpoint of the chain is known.
pub(crate) fn public_endpoints(name: &str) -> Result<(u64, Vec<UpstreamUrl>), String> {
    let mut public = PRESETS.iter().filter(|(_, preset)| !preset.public_rpc_urls.is_empty());
    let is_named = |id: &u64, preset: &Preset| preset.key == name || id.to_string() == name;
    if let Some((id, preset)) = public.clone().find(|(id, preset)| is_named(id, preset)) {
        return Ok((*id, preset.public_rpc_urls.clone()));
    }
    let keys: Vec<_> = public.by_ref().map(|(_, preset)| preset.key.as_str()).collect();
    let name = if is_public_key(name) { name } else { "…" };
    Err(format!(
        "no public endpoint of the chain {name} is known; there are some of {}",
        keys.join(", ")
    ))
}

/// Reads the compiled-in lists. A unit test shows that no chain is lost.
fn read_all() -> BTreeMap<u64, Preset> {
    let mut all: BTreeMap<u64, Dict> =
        NamedChain::iter().map(|chain| (chain.into(), listed_values(chain))).collect();
    let file = toml_text::parse(CHAINS, "the presets").ok().map(|tables| tables.to_value());
    let tables = file.and_then(Value::into_dict).into_iter().flatten();
    let own: BTreeMap<u64, Dict> =
        tables.filter_map(|(id, table)| Some((id.parse().ok()?, table.into_dict()?))).collect();
    for (chain_id, table) in &own {
        let main = table.get("rules_of").and_then(|id| own.get(&id.deserialize().ok()?));
        let mut rules = main.cloned().unwrap_or_default();
        rules.retain(|key, _| RULES.contains(&key.as_str()));
        let values = all.entry(*chain_id).or_default();
        values.extend(rules.into_iter().chain(table.clone()));
        values.remove("rules_of");
    }
    all.into_iter().filter_map(|(chain_id, values)| Some((chain_id, preset(values)?))).collect()
}

/// Returns what the list says about a chain.
fn listed_values(chain: NamedChain) -> Dict {
    let block_time = chain.average_blocktime_hint();
    let values = [
        ("key", Some(chain.to_string())),
        ("currency", chain.native_currency_symbol().map(str::to_owned)),
        ("block_time", block_time.map(|time| humantime::format_duration(time).to_string())),
    ];
    let known = values.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
    known.collect()
}

fn preset(mut values: Dict) -> Option<Preset> {
    let key = values.remove("key")?.into_string()?;
    let name = values.entry("name".to_owned()).or_insert_with(|| title(&key).into());
    let name = name.as_str()?.to_owned();
    let urls = values.remove("public_rpc_urls");
    let public_rpc_urls = urls.and_then(|urls| urls.deserialize().ok()).unwrap_or_default();
    Some(Preset { key, name, public_rpc_urls, values })
}

/// Returns the key as a name: "Base Sepolia" for `base-sepolia`.
fn title(key: &str) -> String {
    let words = key.split('-').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or_default();
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::config::chains::key_problem;
    use crate::config::tests::chain_toml;
    use crate::config::{Chain, Config};

    /// Id, key, currency and name of chains. Keys are paths, so that an update of the list must not change them.
    const NAMES: &str = "\
1 ethereum ETH Ethereum
10 optimism ETH OP Mainnet
56 bnb BNB BNB Smart Chain
100 gnosis XDAI Gnosis
130 unichain ETH Unichain
137 polygon POL Polygon
143 monad MON Monad
146 sonic S Sonic
204 opbnb BNB opBNB
324 zksync ETH ZKsync Era
480 world-chain ETH World Chain
999 hyperevm HYPE HyperEVM
1868 soneium ETH Soneium Mainnet
2020 ronin RON ronin
5000 mantle MNT Mantle
8453 base ETH Base
31337 local ETH Local chain
42161 arbitrum ETH Arbitrum One
42220 celo CELO Celo
43114 avalanche AVAX Avalanche
57073 ink ETH Ink
59144 linea ETH Linea
80094 berachain BERA Berachain
81457 blast ETH Blast
80002 polygon-amoy POL Polygon Amoy
84532 base-sepolia ETH Base Sepolia
202601 ronin-testnet RON ronin-testnet
421614 arbitrum-sepolia ETH Arbitrum Sepolia
534352 scroll ETH Scroll
11155111 sepolia ETH Sepolia
11155420 op-sepolia ETH OP Sepolia";

    fn two_lines(chain_id: u64) -> Chain {
        Config::from_toml(&chain_toml("a", chain_id, ""), &[]).unwrap().chains.remove(0)
    }

    #[test]
    fn keys_currencies_and_names_stay_and_no_two_chains_share_a_key() {
        for line in NAMES.lines() {
            let id = line.split(' ').next().unwrap().parse().unwrap();
            let chain = two_lines(id);
            let (key, currency) = (&find(id).unwrap().key, chain.currency.as_deref().unwrap());
            assert_eq!(format!("{id} {key} {currency} {}", chain.name()), line);
        }
        let keys: BTreeSet<_> = PRESETS.values().map(|preset| preset.key.as_str()).collect();
        assert_eq!(keys.len(), NamedChain::iter().count());
        assert!(keys.iter().all(|key| key_problem(key).is_none()));
    }

    #[test]
    fn every_entry_of_the_file_has_a_source_and_the_day_on_which_it_was_read() {
        let entries = CHAINS.lines().filter(|line| !line.starts_with(['#', '[']));
        for line in entries.filter(|line| !line.is_empty() && !line.starts_with("key = ")) {
            let (source, day) = line.rsplit_once(", ").unwrap_or((line, ""));
            let source = source.rsplit_once(" # ").map_or("", |(_, source)| source);
            let is_day = humantime::parse_rfc3339(&format!("{day}T00:00:00Z")).is_ok();
            assert!(source.len() > 3 && is_day, "{line}");
        }
    }

    #[test]
    fn a_chain_of_the_list_has_its_name_currency_and_block_time() {
        let chain = two_lines(42170);
        let expected = ("Arbitrum Nova", Some("Arbitrum Nova"), Some("ETH"));
        assert_eq!((chain.name(), chain.preset, chain.currency.as_deref()), expected);
        assert_eq!(chain.block_time, Duration::from_millis(260));
        assert_eq!(find(42170).unwrap().key, "arbitrum-nova");
        // A test network has the rules of its main network, and no endpoint of it.
        let (main, test) = (two_lines(137), two_lines(80002));
        assert_eq!((test.pricing, test.pricing.priority_fee_floor), (main.pricing, 25_000_000_000));
        assert!(public_endpoints("polygon").is_ok() && public_endpoints("80002").is_err());
    }

    #[test]
    fn a_chain_without_a_preset_has_no_floors() {
        let chain = two_lines(4711);
        assert_eq!((chain.name(), chain.preset, chain.currency.as_deref()), ("a", None, None));
        assert_eq!((chain.pricing.base_fee_floor, chain.pricing.priority_fee_floor), (0, 1));
        assert_eq!(chain.pricing.base_fee_change_denominator, None);
        assert_eq!(chain.block_time, Duration::from_secs(2));
    }
}
