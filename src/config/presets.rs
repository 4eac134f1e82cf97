//! Defaults of known chains, by chain id (`config/chains.toml`, which names the source of each value).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use figment::value::{Dict, Value};

use super::toml_text;

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
    let file = toml_text::parse(CHAINS, "the presets").ok().map(|tables| tables.to_value());
    let tables = file.and_then(Value::into_dict).into_iter().flatten();
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
    use crate::config::{Chain, Config};

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
