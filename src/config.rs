//! The configuration: built-in defaults, overridden by a file, overridden by `GAS_…` variables. It is read once and
//! checked completely before anything is opened.

mod chain;
mod delegation;
mod error;
mod pricing;
mod redis;
mod rpc;
mod server;
mod tracing;
mod units;
mod upstream_url;
mod verification;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::{Env, Format, Toml};
use figment::value::{Dict, UncasedStr, Value};
use serde::Deserialize;

pub use chain::Chain;
pub use delegation::{ApiKey, Delegation, DelegationSource};
pub use error::ConfigError;
pub use redis::{Redis, RedisUrl};
pub use rpc::{Rpc, RpcMethod};
pub use server::{Cors, Limits, Log, LogFormat, MemoryLimit, Server, Threads};
pub use tracing::Tracing;
pub use upstream_url::{UpstreamUrl, WebSocketUrl};
pub use verification::Verification;

use error::ENVIRONMENT_PREFIX;

/// Variable that names the file if no argument does. A container's health check then reads the same file.
pub(crate) const FILE_VARIABLE: &str = "GAS_CONFIG";

const DEFAULTS: &str = include_str!("../config/default.toml");
const CHAINS: &str = "chains";

/// A complete, checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Listeners and shutdown.
    pub server: Server,
    /// Limits per client.
    pub limits: Limits,
    /// Web pages that may read responses.
    pub cors: Cors,
    /// Log filter and format.
    pub log: Log,
    /// Export of spans.
    pub tracing: Tracing,
    /// Limits of JSON-RPC requests.
    pub rpc: Rpc,
    /// Contract verification.
    pub verification: Verification,
    /// Delegation look-ups.
    pub delegation: Delegation,
    /// Redis that replicas share.
    pub redis: Redis,
    /// Chains, in ascending order of chain id; never empty.
    pub chains: Vec<Chain>,
    /// Configured keys that have no effect because replicas share polls.
    pub ignored_keys: Vec<String>,
    /// The configuration file, if one was read.
    pub file: Option<PathBuf>,
    /// True in `gas-suggestion demo`, whose chains are recorded.
    pub is_demo: bool,
}

/// Merged content of all layers, before checks that involve several keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    server: Server,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    cors: Cors,
    #[serde(default)]
    log: Log,
    #[serde(default)]
    tracing: Tracing,
    #[serde(default)]
    rpc: Rpc,
    #[serde(default)]
    chains: BTreeMap<String, Chain>,
    #[serde(default)]
    verification: Verification,
    #[serde(default)]
    delegation: Delegation,
    #[serde(default)]
    redis: Redis,
}

impl Config {
    /// Reads the built-in defaults, `file` if given, and the environment.
    ///
    /// # Errors
    ///
    /// Returns the first key that is unknown, malformed or invalid, with its origin.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let layers = match file {
            Some(path) => defaults_with_file(path)?,
            None => Figment::from(Toml::string(DEFAULTS)),
        };
        let config = Self::from_layers(&layers.clone().merge(environment_layer(&layers)))?;
        Ok(Self { file: file.map(Path::to_path_buf), ..config })
    }

    /// Reads `text` as the only layer.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        check_syntax(text, "the configuration")?;
        Self::from_layers(&Figment::from(Toml::string(text)))
    }

    fn from_layers(layers: &Figment) -> Result<Self, ConfigError> {
        let sections: Sections =
            layers.extract().map_err(|error| ConfigError::from_figment(&error, layers))?;
        let at = |key: &str, problem: &str| Err(ConfigError::for_key(key, problem, layers));
        if !sections.server.has_usable_base_path() {
            return at("server.base_path", "must be empty or like /a/b, without a trailing slash");
        }
        if Server::PROBE_PATHS.contains(&sections.server.base_path.as_str()) {
            return at("server.base_path", "must not be /livez or /readyz, which stay at the root");
        }
        let Server { listen, admin_listen, .. } = &sections.server;
        if listen == admin_listen && listen.port() != 0 {
            return at("server.admin_listen", "must not be the address of server.listen");
        }
        if !sections.server.has_valid_admin_hosts() {
            return at(
                "server.admin_hosts",
                "must be host names such as \"gas-suggestion\", no ports",
            );
        }
        if sections.server.drain_delay > Server::MAX_DRAIN_DELAY {
            return at("server.drain_delay", "must be at most 1h");
        }
        if !sections.cors.allows_any() && sections.cors.origins().is_none() {
            let allowed = "must be [\"*\"] or origins such as \"https://app.example\", no path";
            return at("cors.allowed_origins", allowed);
        }
        if let Err(problem) = sections.log.directives() {
            return at("log.filter", &problem);
        }
        if let Err((key, allowed)) = sections.tracing.check() {
            return at(&format!("tracing.{key}"), allowed);
        }
        if let Err((key, allowed)) = sections.rpc.check() {
            return at(&format!("rpc.{key}"), allowed);
        }
        if let Err((key, allowed)) = sections.verification.check() {
            return at(&format!("verification.{key}"), allowed);
        }
        if let Err((key, allowed)) = sections.delegation.check() {
            return at(&format!("delegation.{key}"), allowed);
        }
        let chains = validate_chains(sections.chains, layers)?;
        let is_shared = sections.redis.url.is_some();
        let ignored_sockets = chains.iter().filter(|chain| is_shared && !chain.ws_urls.is_empty());
        let ignored_keys =
            ignored_sockets.map(|chain| format!("{CHAINS}.{}.ws_urls", chain.key)).collect();
        Ok(Self {
            server: sections.server,
            limits: sections.limits,
            cors: sections.cors,
            log: sections.log,
            tracing: sections.tracing,
            rpc: sections.rpc,
            verification: sections.verification,
            delegation: sections.delegation,
            redis: sections.redis,
            chains,
            ignored_keys,
            file: None,
            is_demo: false,
        })
    }
}

fn validate_chains(
    sections: BTreeMap<String, Chain>,
    layers: &Figment,
) -> Result<Vec<Chain>, ConfigError> {
    let mut by_id: BTreeMap<u64, Chain> = BTreeMap::new();
    for (key, mut chain) in sections {
        let path = format!("{CHAINS}.{key}");
        if !is_chain_key(&key) {
            let allowed = "a chain key may contain a-z, 0-9, - and _, and must contain a letter";
            return Err(ConfigError::for_key(path, allowed, layers));
        }
        chain.key = key;
        if let Err((below, allowed)) = chain.check() {
            return Err(ConfigError::for_key(format!("{path}.{below}"), allowed, layers));
        }
        let id = chain.chain_id;
        if let Some(other) = by_id.insert(id, chain) {
            let problem = format!("chain id {id} is already used by {CHAINS}.{}", other.key);
            return Err(ConfigError::for_key(format!("{path}.chain_id"), problem, layers));
        }
    }
    if by_id.is_empty() {
        return Err(ConfigError::for_key(CHAINS, "must name at least one chain", layers));
    }
    Ok(by_id.into_values().collect())
}

/// Returns true if the key has only `a-z 0-9 - _` and at least one letter: upper case cannot come from the environment,
/// and digits alone could be a chain id.
fn is_chain_key(key: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    key.bytes().all(allowed) && key.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Returns the defaults overridden by the file. A `[chains]` table in the file replaces the built-in chains.
fn defaults_with_file(path: &Path) -> Result<Figment, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::without_key(format!("cannot read the file {}: {error}", path.display()))
    })?;
    check_syntax(&text, &path.display().to_string())?;
    let file = Figment::from(Toml::file_exact(path));
    let defaults = Figment::from(Toml::string(DEFAULTS));
    let defaults = if file.contains(CHAINS) { without_chains(&defaults)? } else { defaults };
    Ok(defaults.merge(file))
}

fn without_chains(defaults: &Figment) -> Result<Figment, ConfigError> {
    let mut sections: Dict =
        defaults.extract().map_err(|error| ConfigError::from_figment(&error, defaults))?;
    sections.remove(CHAINS);
    Ok(Figment::from(figment::providers::Serialized::defaults(sections)))
}

/// Rejects invalid TOML by line and column. The parser's own message quotes the line, which may contain a URL with a
/// key.
fn check_syntax(text: &str, name: &str) -> Result<(), ConfigError> {
    let Err(error) = text.parse::<toml::Table>() else {
        return Ok(());
    };
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count().saturating_add(1);
    let column =
        before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()).saturating_add(1);
    Err(ConfigError::without_key(format!(
        "{name} is not valid TOML: {} at line {line}, column {column}",
        error::redact_message(error.message().lines().next().unwrap_or("syntax error")),
    )))
}

/// Returns false for the variable that names the file, and for variables such as `GAS_SUGGESTION_PORT`, which
/// Kubernetes sets in pods for a service named after this program.
fn is_config_variable(key: &UncasedStr) -> bool {
    !key.starts_with("SUGGESTION_") && key != "CONFIG"
}

/// Reads `GAS_…` variables with `__` between levels. No shell can export a name with a dash, so
/// `GAS_CHAINS__RONIN_TESTNET__…` sets `ronin-testnet` if a lower layer has that chain.
fn environment_layer(layers: &Figment) -> Env {
    let known: Vec<String> = match layers.find_value(CHAINS) {
        Ok(Value::Dict(_, chains)) => chains.into_keys().collect(),
        _ => Vec::new(),
    };
    Env::prefixed(ENVIRONMENT_PREFIX).filter(is_config_variable).split("__").map(move |key| {
        let lower = key.as_str().to_lowercase();
        let Some((chain, rest)) =
            lower.strip_prefix("chains.").and_then(|tail| tail.split_once('.'))
        else {
            return lower.into();
        };
        let matches = |name: &&String| name.as_str() == chain || name.replace('-', "_") == chain;
        let chain = known
            .iter()
            .find(|name| name.as_str() == chain)
            .or_else(|| known.iter().find(matches))
            .map_or(chain, String::as_str);
        format!("chains.{chain}.{rest}").into()
    })
}

#[cfg(test)]
mod tests;
