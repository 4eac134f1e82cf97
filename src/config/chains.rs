//! All chains: reads them, and checks what concerns several.

use std::collections::BTreeMap;

use figment::value::{Dict, Value};
use serde::Serializer;

use super::chain::{Chain, parse_hex_chain_id};
use super::keys::{CHAINS, keys_of};
use super::mistakes::Mistakes;

/// Reads and checks all chains. Returns them in ascending order of chain id, but for those that cannot be read.
pub(super) fn read(values: &Dict, mistakes: &mut Mistakes<'_>) -> Vec<Chain> {
    let mut by_id: BTreeMap<u64, Chain> = BTreeMap::new();
    let tables: Dict = mistakes.read(values, CHAINS);
    if tables.is_empty() {
        mistakes.section(&[CHAINS]).reject("", "must name at least one chain");
    }
    for (key, table) in tables {
        if let Some(problem) = key_problem(&key) {
            mistakes.section(&[CHAINS, &key]).reject("", problem);
        }
        let Some(chain) = read_chain(key, table, mistakes) else { continue };
        chain.check(&mut mistakes.section(&[CHAINS, &chain.key]));
        match by_id.get(&chain.chain_id) {
            Some(other) => reject_same(&chain, other, "chain_id", mistakes),
            None => drop(by_id.insert(chain.chain_id, chain)),
        }
    }
    // People could not tell chains of one name apart.
    let mut by_name: BTreeMap<&str, &Chain> = BTreeMap::new();
    for chain in by_id.values() {
        if let Some(other) = by_name.insert(chain.name(), chain) {
            reject_same(chain, other, "name", mistakes);
        }
    }
    by_id.into_values().collect()
}

/// Writes all values of the chains, in the order of their keys.
pub(super) fn serialize<S: Serializer>(chains: &[Chain], out: S) -> Result<S::Ok, S::Error> {
    let by_key = chains.iter().map(|chain| (&chain.key, chain.with_all_values()));
    out.collect_map(by_key.collect::<BTreeMap<_, _>>())
}

/// Returns what is wrong with the key of a chain. Upper case cannot come from the environment, digits alone could be a
/// chain id, and in a path `0x` and hex digits would stand for the chain with this id.
pub(super) fn key_problem(key: &str) -> Option<&'static str> {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if !key.bytes().all(is_allowed) || !key.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Some("a chain key may contain a-z, 0-9, - and _, and must contain a letter");
    }
    let problem = "a chain key must not be `0x` and hex digits, which are a chain id";
    parse_hex_chain_id(key).map(|_| problem)
}

fn read_chain(key: String, mut table: Value, mistakes: &mut Mistakes<'_>) -> Option<Chain> {
    if let Value::Dict(_, values) = &mut table {
        // Others belong to extras.
        let own = keys_of::<Chain>();
        values.retain(|key, _| own.contains(&key.as_str()));
    }
    let mut chain: Chain = mistakes.convert(&table, &[CHAINS, &key])?;
    let section = mistakes.section(&[CHAINS, &key]);
    chain.complete(key, |key| section.is_configured(key));
    Some(chain)
}

/// Reports two chains with the same value of `key`. The one that is set by the file or a variable is the mistake.
fn reject_same(chain: &Chain, other: &Chain, key: &str, mistakes: &mut Mistakes<'_>) {
    let is_configured = mistakes.section(&[CHAINS, &chain.key]).is_configured(key);
    let [wrong, right] = if is_configured { [chain, other] } else { [other, chain] };
    let problem = match key {
        "name" => format!("is already the name of {CHAINS}.{}", right.key),
        _ => format!("chain id {} is already used by {CHAINS}.{}", chain.chain_id, right.key),
    };
    mistakes.section(&[CHAINS, &wrong.key]).reject(key, problem);
}
