//! The layers of the configuration, merged. Later ones win: presets of the chain ids, built-in configuration,
//! OpenTelemetry's variable, file, `GAS_…` variables, arguments.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Value};

use super::error::{ConfigError, ConfigErrors};
use super::keys::{CHAINS, KnownKeys};
use super::secret_url::UpstreamUrl;
use super::value_tree::{Content, Origin, ValueTree};
use super::{presets, toml_text, variables};
use crate::fees::Strategy;

/// Argument that names chains whose public endpoints are used.
pub(crate) const CHAIN_ARGUMENT: &str = "--chain";

/// Shortest time between two polls of a public endpoint: 30 a minute.
const PUBLIC_POLL_INTERVAL: &str = "2s";

/// Variable that names nodes if no argument does.
pub(crate) const URL_VARIABLE: &str = "GAS_RPC_URL";

/// OpenTelemetry's own variable for the collector.
const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Values from the command line.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `server.listen`.
    pub listen: Option<SocketAddr>,
    /// `server.listen` where nothing sets it; `None`: that of the built-in configuration.
    pub default_listen: Option<SocketAddr>,
    /// `server.admin_listen`.
    pub admin_listen: Option<SocketAddr>,
    /// Chains by chain id, with the URLs of their nodes. If there are any, they replace all other chains.
    pub chains: Vec<(u64, Vec<UpstreamUrl>)>,
    /// Argument or variable that names the chains.
    pub chains_from: &'static str,
    /// `pricing.strategy` of all chains.
    pub strategy: Option<Strategy>,
}

/// All layers, merged.
#[derive(Debug)]
pub(crate) struct Layers {
    merged: ValueTree,
    /// The configuration file, if there is one.
    pub(super) file: Option<PathBuf>,
    pub(super) notes: Vec<String>,
    pub(super) known: KnownKeys,
}

impl Layers {
    /// Reads the built-in configuration, `file` if given, the environment and the arguments.
    pub(super) fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
        known: KnownKeys,
    ) -> Result<Self, ConfigErrors> {
        let file_values = file.map(read_file).transpose()?;
        let has_chains = file_values.as_ref().is_some_and(|values| values.get(&[CHAINS]).is_some());
        let environment: Vec<_> = environment.collect();
        let is_url = |(name, value): &(OsString, OsString)| {
            name == URL_VARIABLE && !value.to_string_lossy().trim().is_empty()
        };
        let replaced_by = if overrides.chains.is_empty() {
            environment.iter().any(is_url).then_some(URL_VARIABLE)
        } else {
            Some(overrides.chains_from)
        };
        if let (Some(file), true, Some(other)) = (file, has_chains, replaced_by) {
            let file = file.display();
            let problem = format!(
                "{file} has a [chains] table, which {other} would replace; use one of them"
            );
            return Err(ConfigError::without_key(problem).into());
        }
        let mut merged = built_in(has_chains || !overrides.chains.is_empty(), &known)?;
        if let Some(address) = overrides.default_listen {
            let address = address.to_string();
            merged.merge(ValueTree::at(&["server", "listen"], address, &Origin::BuiltIn));
        }
        let collector = environment.iter().find(|(name, _)| name == COLLECTOR_VARIABLE);
        // A collector for gRPC has other forms, which are no mistake of this service.
        let is_http = |url: &&str| url.starts_with("http://") || url.starts_with("https://");
        let collector = collector.and_then(|(_, value)| value.to_str());
        if let Some(url) = collector.filter(is_http) {
            let origin = Origin::Variable(COLLECTOR_VARIABLE.to_owned());
            merged.merge(ValueTree::at(&["tracing", "otlp_endpoint"], url, &origin));
        }
        if let Some(values) = file_values {
            merged.merge(values);
        }
        // Variables may set keys of the chains that arguments name, and arguments win over variables.
        overrides.add_to(&mut merged);
        let (values, notes) =
            variables::read(environment.into_iter(), &chain_keys(&merged), &known)?;
        merged.merge(values);
        overrides.add_to(&mut merged);
        let file = file.map(Path::to_path_buf);
        Ok(Self { merged: with_presets(merged), file, notes, known })
    }

    /// Reads `text` as the only layer but for the presets.
    pub(super) fn from_toml(text: &str, known: KnownKeys) -> Result<Self, ConfigErrors> {
        let merged = with_presets(toml_text::parse(text, "the configuration")?);
        Ok(Self { merged, file: None, notes: Vec::new(), known })
    }

    /// Name of the file in comments.
    pub(super) fn file_name(&self) -> String {
        let name = self.file.as_deref().and_then(Path::file_name);
        name.map_or("the file".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Returns all values, merged.
    pub(super) fn values(&self) -> Dict {
        self.merged.to_value().into_dict().unwrap_or_default()
    }

    /// Returns true if a layer has this key.
    pub(crate) fn has(&self, path: &[impl AsRef<str>]) -> bool {
        self.merged.get(path).is_some()
    }

    /// Returns true if the file, a variable or an argument sets this key.
    pub(crate) fn is_configured(&self, path: &[impl AsRef<str>]) -> bool {
        let found = self.merged.get(path);
        found.is_some_and(|value| !matches!(value.origin, Origin::Preset(_) | Origin::BuiltIn))
    }

    /// Returns where the value at `path` comes from or, if there is none, the nearest table above it.
    pub(crate) fn origin(&self, path: &[impl AsRef<str>]) -> &Origin {
        &self.merged.nearest(path).origin
    }
}

impl Overrides {
    /// Merges the values of the arguments.
    fn add_to(&self, merged: &mut ValueTree) {
        let chains_from = match self.chains_from {
            URL_VARIABLE => Origin::Variable(URL_VARIABLE.to_owned()),
            argument => Origin::Argument(argument),
        };
        for (chain_id, urls) in &self.chains {
            let key = match presets::find(*chain_id) {
                Some(preset) => preset.key.clone(),
                None => format!("chain-{chain_id}"),
            };
            let urls: Vec<Value> = urls.iter().map(|url| url.expose().as_str().into()).collect();
            let mut chain = Dict::from([
                ("chain_id".to_owned(), Value::from(*chain_id)),
                ("rpc_urls".to_owned(), urls.into()),
            ]);
            if self.chains_from == CHAIN_ARGUMENT {
                chain.insert("min_poll_interval".to_owned(), PUBLIC_POLL_INTERVAL.into());
            }
            merged.merge(ValueTree::at(&[CHAINS, &key], chain, &chains_from));
        }
        for (key, argument, address) in [
            ("listen", "--listen", self.listen),
            ("admin_listen", "--admin-listen", self.admin_listen),
        ] {
            if let Some(address) = address {
                let origin = Origin::Argument(argument);
                merged.merge(ValueTree::at(&["server", key], address.to_string(), &origin));
            }
        }
        if let Some(strategy) = self.strategy {
            for key in chain_keys(merged) {
                let path = [CHAINS, &key, "pricing", "strategy"];
                let origin = Origin::Argument("--strategy");
                merged.merge(ValueTree::at(&path, <&str>::from(strategy), &origin));
            }
        }
    }
}

fn read_file(path: &Path) -> Result<ValueTree, ConfigError> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::without_key(format!("cannot read the file {name}: {error}"))
    })?;
    toml_text::parse(&text, &name.to_string())
}

/// Returns the built-in values, without the built-in chains and the services of their network if those are replaced.
fn built_in(are_chains_replaced: bool, known: &KnownKeys) -> Result<ValueTree, ConfigError> {
    let mut values = toml_text::parse(DEFAULTS, "the built-in configuration")?.to_value();
    if let Value::Dict(_, sections) = &mut values
        && are_chains_replaced
    {
        sections.remove(CHAINS);
        for table in &known.0 {
            if let Some(Value::Dict(_, section)) = sections.get_mut(table.section()) {
                section.retain(|key, _| !table.network_keys.contains(&key.as_str()));
            }
        }
    }
    Ok(ValueTree::new(values, &Origin::BuiltIn))
}

fn chain_keys(merged: &ValueTree) -> Vec<String> {
    match merged.get(&[CHAINS]).map(|chains| &chains.content) {
        Some(Content::Table(chains)) => chains.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Puts the preset of each chain below all other layers.
fn with_presets(merged: ValueTree) -> ValueTree {
    let mut all = ValueTree::empty();
    for key in chain_keys(&merged) {
        let value = |name: &str| Some(merged.get(&[CHAINS, &key, name])?.to_value());
        // A number of a file is signed, one of an argument is not.
        let chain_id = value("chain_id").and_then(|id| id.deserialize().ok());
        let Some(preset) = chain_id.and_then(presets::find) else { continue };
        let mut values = preset.values.clone();
        // A chain with other blocks has other flashblocks too, or none.
        if value("block_time").is_some_and(|time| values.get("block_time") != Some(&time)) {
            values.remove("flashblock_time");
        }
        all.merge(ValueTree::at(&[CHAINS, &key], values, &Origin::Preset(&preset.name)));
    }
    all.merge(merged);
    all
}
