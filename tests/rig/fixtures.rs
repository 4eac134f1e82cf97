//! Recorded data, and configurations for tests.

use std::path::PathBuf;

use gas_suggestion::config::{Chain, Config};

pub(crate) fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

pub(crate) fn read(relative: &str) -> Vec<u8> {
    let path = path(relative);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Builds a chain with this `[pricing]`, an unreachable RPC URL and no preset.
pub(crate) fn priced(pricing: &str) -> Chain {
    let text = format!(
        "[chains.test]\nchain_id = 4711\nrpc_urls = [\"http://127.0.0.1:9\"]\n[chains.test.pricing]\n{pricing}"
    );
    Config::from_toml(&text).unwrap().chains.remove(0)
}

/// Floors of the network document.
pub(crate) const NETWORK_FLOORS: &str =
    "base_fee_floor = \"1 gwei\"\npriority_fee_floor = \"20 gwei\"\n";
