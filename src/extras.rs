//! Features beside the heart: what the service does besides telling what gas costs.
//!
//! A feature is one room, a folder and the file beside it, which owns its routes, its section of the configuration, its
//! metrics and its state. One line below names the room, and one in [`EXTRAS`]. `tests/integration/arrows.rs` shows which room uses which.

pub(crate) mod alerts;
pub(crate) mod badge;
pub(crate) mod compat;
pub(crate) mod cost;
pub(crate) mod delegation;
pub mod demo;
pub mod horizon;
pub(crate) mod own_fee;
pub(crate) mod pages;
pub(crate) mod replicas;
pub(crate) mod rpc;
pub(crate) mod score;
pub(crate) mod trend;
pub(crate) mod verification;

// Parts that features share. They are no features themselves.
pub(crate) mod proxy;
pub mod quotes;
pub(crate) mod reads;
pub(crate) mod static_files;

use crate::assembly::Extra;
use crate::config::SectionKind;

/// All features, in the order in which they join a service. One may use what those before it hand in.
pub const EXTRAS: &[Extra] = &[
    horizon::EXTRA,
    compat::EXTRA,
    rpc::EXTRA,
    replicas::EXTRA,
    delegation::EXTRA,
    verification::EXTRA,
    score::EXTRA,
    cost::EXTRA,
    trend::EXTRA,
    own_fee::EXTRA,
    alerts::EXTRA,
    badge::EXTRA,
    pages::EXTRA,
    demo::EXTRA,
];

/// Returns the sections of the configuration that the features own.
#[must_use]
pub fn sections() -> Vec<SectionKind> {
    EXTRAS.iter().flat_map(|extra| extra.sections.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::tests::chain_toml;
    use crate::config::value_tree::Origin;
    use crate::config::{
        CHAIN_ARGUMENT, Config, Cors, Log, Overrides, Server, known_keys, public_endpoints,
        read_layers,
    };
    use crate::fees::{Pricing, Strategy};

    /// Reads the built-in configuration and these variables.
    fn load(variables: &[(&str, &str)]) -> Config {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let layers = read_layers(None, variables, &Overrides::default(), &sections()).unwrap();
        Config::from_layers(&layers, &sections()).unwrap()
    }

    #[test]
    fn the_built_in_file_matches_the_preset_and_the_defaults() {
        let config = load(&[]);
        assert_eq!((&config.server, &config.cors), (&Server::default(), &Cors::default()));
        assert!(config.log == Log::default() && config.notes.is_empty());
        let [ronin, testnet] = config.chains.as_slice() else { panic!("two chains") };
        assert_eq!([ronin.chain_id, testnet.chain_id], [2020, 202_601]);
        assert_eq!([ronin.pricing, testnet.pricing], [Pricing::default(); 2]);
        for chain in [ronin, testnet] {
            let preset = chain_toml(&chain.key, chain.chain_id, "json_rpc = true");
            let preset = Config::from_toml(&preset, &sections()).unwrap().chains.remove(0);
            let mut expected = preset.with_all_values();
            expected.rpc_urls.clone_from(&chain.rpc_urls);
            assert_eq!(chain.with_all_values(), expected);
            assert_eq!(chain.poll_timeout(), chain.max_age / 3);
            assert_eq!(chain.name(), chain.key);
        }
    }

    #[test]
    fn every_key_of_a_preset_is_known() {
        let presets: toml_edit::DocumentMut =
            include_str!("../config/chains.toml").parse().unwrap();
        let known = known_keys(&sections()).all();
        for (id, preset) in presets.iter() {
            for (key, _) in preset.as_table().unwrap() {
                let is_known = known.contains(&format!("chains.NAME.{key}"));
                let is_of_preset = ["key", "rules_of", "public_rpc_urls"].contains(&key);
                assert!(is_known || is_of_preset, "{id}: {key}");
            }
        }
    }

    #[test]
    fn public_endpoints_are_polled_every_two_seconds() {
        let chains = vec![public_endpoints("8453").unwrap(), public_endpoints("celo").unwrap()];
        let overrides = Overrides { chains, chains_from: CHAIN_ARGUMENT, ..Overrides::default() };
        let layers = read_layers(None, std::iter::empty(), &overrides, &sections()).unwrap();
        let config = Config::from_layers(&layers, &sections()).unwrap();
        let found = config.chains.iter().map(|chain| (chain.key.as_str(), chain.rpc_urls.len()));
        assert_eq!(found.collect::<Vec<_>>(), [("base", 1), ("celo", 1)]);
        let interval = Duration::from_secs(2);
        assert!(config.chains.iter().all(|chain| chain.min_poll_interval == interval));
    }

    #[test]
    fn arguments_get_the_preset_of_the_chain_id_and_win_over_variables() {
        let urls = vec!["http://localhost".parse().unwrap()];
        let overrides = Overrides {
            listen: Some("127.0.0.1:7".parse().unwrap()),
            chains: vec![(8453, urls.clone()), (4711, urls)],
            chains_from: "--rpc-url",
            strategy: Some(Strategy::Calibrated),
            ..Overrides::default()
        };
        let variables = [
            ("GAS_SERVER__LISTEN", "127.0.0.1:8"),
            ("GAS_SERVER__ADMIN_LISTEN", "127.0.0.1:9"),
            ("GAS_CHAINS__BASE__CURRENCY", "E"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into())).into_iter();
        let layers = read_layers(None, variables, &overrides, &sections()).unwrap();
        let config = Config::from_layers(&layers, &sections()).unwrap();
        assert_eq!(config.server.listen.port(), 7);
        assert_eq!(config.server.admin_listen.port(), 9);
        let [unknown, base] = config.chains.as_slice() else { panic!("two chains") };
        assert_eq!((unknown.key.as_str(), unknown.preset), ("chain-4711", None));
        assert_eq!((base.key.as_str(), base.name(), base.preset), ("base", "Base", Some("Base")));
        assert_eq!(base.currency.as_deref(), Some("E"));
        assert_eq!(base.block_time, Duration::from_millis(200));
        let calibrated = Strategy::Calibrated;
        assert!(config.chains.iter().all(|chain| chain.pricing.strategy == calibrated));
        let strategy = ["chains", "base", "pricing", "strategy"].map(str::to_owned);
        assert_eq!(*layers.origin(&strategy), Origin::Argument("--strategy"));
        // The services of the built-in chains' network are off.
        let shown = format!("{config:?}");
        assert!(shown.contains("url: None") && shown.contains("source: Off"), "{shown}");
    }
}
