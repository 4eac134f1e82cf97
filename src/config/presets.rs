//! Defaults of known chains, by chain id (`config/chains.toml`, which names the source of each value).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use figment::Provider;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Value};

const CHAINS: &str = include_str!("../../config/chains.toml");

/// Defaults of one chain.
#[derive(Debug)]
pub(crate) struct Preset {
    /// Key of the chain if the configuration has no other.
    pub(crate) key: String,
    /// `name` of the chain, which also names the preset.
    pub(crate) name: String,
    /// Keys of the chain's table.
    pub(crate) values: Dict,
}

/// Returns the preset of the chain with this id, if there is one.
pub(crate) fn find(chain_id: u64) -> Option<&'static Preset> {
    static PRESETS: LazyLock<BTreeMap<u64, Preset>> = LazyLock::new(parse_all);
    PRESETS.get(&chain_id)
}

/// Parses the compiled-in file. A unit test shows that it loses no chain.
fn parse_all() -> BTreeMap<u64, Preset> {
    let file = Toml::string(CHAINS).data().unwrap_or_default();
    let tables = file.into_values().flatten();
    tables.filter_map(|(chain_id, table)| Some((chain_id.parse().ok()?, parse(table)?))).collect()
}

fn parse(table: Value) -> Option<Preset> {
    let mut values = table.into_dict()?;
    let key = values.remove("key")?.into_string()?;
    let name = values.get("name")?.as_str()?.to_owned();
    Some(Preset { key, name, values })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::config::{Chain, ChainParameters, Config, DataFeeKind};
    use crate::fees::{Strategy, ZeroBaseFee};

    fn chain_ids() -> Vec<u64> {
        let headers = CHAINS.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
        headers.map(|id| id.parse().unwrap()).collect()
    }

    fn two_lines(chain_id: u64) -> Chain {
        let text =
            format!("[chains.a]\nchain_id = {chain_id}\nrpc_urls = [\"http://localhost\"]\n");
        Config::from_toml(&text, &[]).unwrap().chains.remove(0)
    }

    #[test]
    fn every_chain_of_the_file_is_a_preset_with_a_key_of_its_own() {
        let ids = chain_ids();
        assert_eq!(ids.len(), 31);
        let keys: BTreeSet<_> = ids.iter().map(|id| find(*id).unwrap().key.clone()).collect();
        assert_eq!(keys.len(), ids.len());
        assert_eq!(find(2021).map(|preset| &preset.name), None);
    }

    #[test]
    fn two_lines_give_each_chain_the_values_of_its_sources() {
        const GWEI: u128 = 1_000_000_000;
        let ms = Duration::from_millis;
        // Chain id, name, currency, block time and flashblock time in ms, floors in gwei, denominators of a full and of an
        // empty block.
        let sources = [
            (1, "Ethereum", "ETH", 12_000, 0, (0, 0), (8, 0)),
            (10, "OP Mainnet", "ETH", 2000, 250, (0, 0), (250, 250)),
            (56, "BNB Smart Chain", "BNB", 450, 0, (0, 0), (0, 0)),
            (100, "Gnosis", "XDAI", 5000, 0, (0, 0), (8, 0)),
            (130, "Unichain", "ETH", 1000, 0, (0, 0), (0, 0)),
            (137, "Polygon", "POL", 2000, 0, (0, 25), (20, 0)),
            (143, "Monad", "MON", 400, 0, (0, 0), (0, 0)),
            (146, "Sonic", "S", 630, 0, (0, 0), (0, 0)),
            (204, "opBNB", "BNB", 250, 0, (0, 0), (0, 0)),
            (324, "ZKsync Era", "ETH", 2000, 0, (0, 0), (0, 0)),
            (480, "World Chain", "ETH", 2000, 0, (0, 0), (0, 0)),
            (999, "HyperEVM", "HYPE", 1000, 0, (0, 0), (0, 0)),
            (1868, "Soneium Mainnet", "ETH", 2000, 0, (0, 0), (0, 0)),
            (2020, "ronin", "RON", 2000, 250, (1, 20), (50, 250)),
            (5000, "Mantle", "MNT", 2000, 0, (0, 0), (0, 0)),
            (8453, "Base", "ETH", 200, 0, (0, 0), (0, 0)),
            (31_337, "Local chain", "ETH", 1000, 0, (0, 0), (8, 0)),
            (42_161, "Arbitrum One", "ETH", 250, 0, (0, 0), (0, 0)),
            (42_220, "Celo", "CELO", 1000, 0, (0, 0), (0, 0)),
            (43_114, "Avalanche", "AVAX", 1700, 0, (0, 0), (0, 0)),
            (57_073, "Ink", "ETH", 2000, 0, (0, 0), (0, 0)),
            (59_144, "Linea", "ETH", 2000, 0, (0, 0), (0, 0)),
            (80_094, "Berachain", "BERA", 2000, 0, (0, 0), (0, 0)),
            (81_457, "Blast", "ETH", 2000, 0, (0, 0), (0, 0)),
            (80_002, "Polygon Amoy", "POL", 2000, 0, (0, 25), (20, 0)),
            (84_532, "Base Sepolia", "ETH", 200, 0, (0, 0), (0, 0)),
            (202_601, "ronin-testnet", "RON", 2000, 250, (1, 20), (50, 250)),
            (421_614, "Arbitrum Sepolia", "ETH", 250, 0, (0, 0), (0, 0)),
            (534_352, "Scroll", "ETH", 3000, 0, (0, 0), (0, 0)),
            (11_155_111, "Sepolia", "ETH", 12_000, 0, (0, 0), (8, 0)),
            (11_155_420, "OP Sepolia", "ETH", 2000, 0, (0, 0), (0, 0)),
        ];
        assert_eq!(sources.map(|source| source.0).as_slice(), chain_ids());
        for (id, name, currency, block_time, flashblock_time, floors, denominators) in sources {
            let chain = two_lines(id);
            assert_eq!((chain.name(), chain.preset), (name, Some(name)));
            assert_eq!(chain.currency.as_deref(), Some(currency), "{name}");
            assert_eq!(chain.block_time, ms(block_time), "{name}");
            let flashblocks = chain.flashblock_time.unwrap_or_default();
            assert_eq!(flashblocks, ms(flashblock_time), "{name}");
            let pricing = &chain.pricing;
            let found = (pricing.base_fee_floor, pricing.priority_fee_floor);
            assert_eq!(found, (floors.0 * GWEI, (floors.1 * GWEI).max(1)), "{name}");
            let is_network = pricing.strategy == Strategy::Network;
            assert_eq!(is_network, [2020, 202_601].contains(&id), "{name}");
            let found = [pricing.base_fee_change_denominator, pricing.empty_block_denominator];
            let found = found.map(|denominator| denominator.map_or(0, std::num::NonZeroU64::get));
            assert_eq!((found[0], found[1]), denominators, "{name}");
            let is_really_zero = pricing.zero_base_fee == ZeroBaseFee::Eip1559;
            assert_eq!(is_really_zero, [56, 204].contains(&id), "{name}");
            assert_eq!(chain.stall_after().is_none(), id == 31_337, "{name}");
            assert!(!chain.json_rpc, "{name}");
            let data_fee = match id {
                10 | 130 | 204 | 480 | 1868 | 2020 | 8453 | 42_220 | 57_073 | 84_532 | 202_601
                | 11_155_420 => Some(DataFeeKind::OpStack),
                324 | 42_161 | 421_614 => Some(DataFeeKind::Included),
                59_144 => Some(DataFeeKind::IncludedInTip),
                5000 | 81_457 | 534_352 => None,
                _ => Some(DataFeeKind::None),
            };
            assert_eq!(chain.data_fee, data_fee, "{name}");
            let are_read = chain.chain_parameters == ChainParameters::Auto;
            let is_op_stack = data_fee == Some(DataFeeKind::OpStack);
            assert_eq!(are_read, is_op_stack || [5000, 31_337, 81_457].contains(&id), "{name}");
            assert_eq!(chain.usd_feed().is_some(), [1, 10, 8453].contains(&id), "{name}");
        }
    }

    #[test]
    fn a_chain_without_a_preset_has_no_floors() {
        let chain = two_lines(4711);
        assert_eq!((chain.name(), chain.preset, chain.currency.as_deref()), ("a", None, None));
        assert_eq!((chain.pricing.base_fee_floor, chain.pricing.priority_fee_floor), (0, 1));
        assert_eq!(chain.pricing.base_fee_change_denominator, None);
        assert_eq!(chain.block_time, Duration::from_secs(2));
    }

    #[test]
    fn the_configuration_overrides_a_preset_key_by_key() {
        let text = "[chains.mine]\nchain_id = 2020\nrpc_urls = [\"http://localhost\"]\n\
                    name = \"Mine\"\npricing.priority_fee_floor = \"3 gwei\"\n";
        let chain = Config::from_toml(text, &[]).unwrap().chains.remove(0);
        assert_eq!((chain.name(), chain.preset), ("Mine", Some("ronin")));
        assert_eq!(chain.pricing.priority_fee_floor, 3_000_000_000);
        assert_eq!(chain.pricing.base_fee_floor, 1_000_000_000);
    }
}
