//! The layers of the configuration and the origin of each value. Later layers win: presets of the chain ids, built-in
//! configuration, file, environment variables, arguments.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::error::{ConfigError, ConfigErrors};
use super::secret_url::UpstreamUrl;
use super::toml_text::TomlText;
use super::variables::{Variables, nest};
use super::{CHAINS, SectionKind, presets, print};
use crate::fees::Strategy;

const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Values from the command line.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `server.listen`.
    pub listen: Option<SocketAddr>,
    /// `server.admin_listen`.
    pub admin_listen: Option<SocketAddr>,
    /// Chains by chain id, with the URLs of their nodes. If there are any, they replace all other chains.
    pub chains: Vec<(u64, Vec<UpstreamUrl>)>,
    /// `pricing.strategy` of all chains.
    pub strategy: Option<Strategy>,
}

/// All layers, merged.
#[derive(Debug)]
pub(crate) struct Layers {
    merged: Figment,
    file: Option<PathBuf>,
    text: TomlText,
    pub(crate) notes: Vec<String>,
    pub(crate) errors: Vec<ConfigError>,
    /// Sections of other rooms.
    pub(super) kinds: Vec<SectionKind>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Line of the configuration file.
    File(Option<usize>),
    /// An environment variable.
    Variable(String),
    /// An argument of the command line.
    Argument(&'static str),
    /// Preset of the chain, by name.
    Preset(&'static str),
    /// `config/default.toml`, or code if no layer has the key.
    BuiltIn,
}

/// One layer: values that have one origin.
struct Layer {
    name: String,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

/// Names of layers, from which [`Layers::origin`] reads the origin of a value.
const FILE: &str = "file";
const BUILT_IN: &str = "built-in";
const VARIABLE: &str = "variable ";
const ARGUMENT_LISTEN: &str = "--listen";
const ARGUMENT_ADMIN_LISTEN: &str = "--admin-listen";
const ARGUMENT_RPC_URL: &str = "--rpc-url";
const ARGUMENT_STRATEGY: &str = "--strategy";
const PRESET: &str = "preset ";

impl Layers {
    /// Reads the built-in configuration, `file` if given, the environment and the arguments.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
        kinds: &[SectionKind],
    ) -> Result<Self, ConfigErrors> {
        let text = file.map_or(Ok(TomlText::default()), |path| {
            let text = std::fs::read_to_string(path).map_err(|error| {
                let problem = format!("cannot read the file {}: {error}", path.display());
                ConfigError::without_key(problem)
            })?;
            TomlText::parse(&text, &path.display().to_string())
        })?;
        let has_chains = text.values.contains_key(CHAINS);
        if has_chains && !overrides.chains.is_empty() {
            let problem =
                "the file has a [chains] table, which --rpc-url would replace; use one of them";
            return Err(ConfigError::without_key(problem).into());
        }
        let mut defaults = TomlText::parse(DEFAULTS, "the built-in configuration")?.values;
        if has_chains || !overrides.chains.is_empty() {
            remove_built_in_network(&mut defaults, kinds);
        }
        let mut layers = Figment::from(Layer { name: BUILT_IN.into(), values: defaults })
            .merge(Layer { name: FILE.into(), values: text.values.clone() });
        let arguments = overrides.layers();
        for argument in &arguments {
            layers = layers.merge(argument);
        }
        let chains = chain_tables(&layers).into_keys().collect::<Vec<_>>();
        let variables = Variables::read(environment, &chains, kinds, || print::known_keys(kinds));
        for variable in &variables.set {
            let name = format!("{VARIABLE}{}", variable.name);
            let values = nest(&variable.path, variable.value.clone());
            layers = layers.merge(Layer { name, values });
        }
        for argument in arguments {
            layers = layers.merge(argument);
        }
        if let Some(strategy) = overrides.strategy {
            let name = Value::from(strategy.name());
            for key in chain_tables(&layers).into_keys() {
                let path = [CHAINS, &key, "pricing", "strategy"].map(str::to_owned);
                let values = nest(&path, name.clone());
                layers = layers.merge(Layer { name: ARGUMENT_STRATEGY.into(), values });
            }
        }
        Ok(Self {
            merged: with_presets(layers),
            file: file.map(Path::to_path_buf),
            text,
            notes: variables.hints,
            errors: variables.errors,
            kinds: kinds.to_vec(),
        })
    }

    /// Reads `text` as the only layer but for the presets.
    pub(crate) fn from_toml(text: &str, kinds: &[SectionKind]) -> Result<Self, ConfigErrors> {
        let text = TomlText::parse(text, "the configuration")?;
        let layers = Figment::from(Layer { name: FILE.into(), values: text.values.clone() });
        let merged = with_presets(layers);
        let (notes, errors, kinds) = (Vec::new(), Vec::new(), kinds.to_vec());
        Ok(Self { merged, file: None, text, notes, errors, kinds })
    }

    /// The configuration file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Name of the file in comments.
    pub(crate) fn file_name(&self) -> String {
        let name = self.file().and_then(Path::file_name);
        name.map_or("the file".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Returns all values, merged.
    pub(crate) fn values(&self) -> Value {
        self.merged.extract::<Dict>().unwrap_or_default().into()
    }

    /// Returns true if a layer has this key.
    pub(crate) fn has(&self, path: &[String]) -> bool {
        self.find_exactly(path).is_some()
    }

    /// Returns true if the file, a variable or an argument sets this key.
    pub(crate) fn is_configured(&self, path: &[String]) -> bool {
        self.has(path) && !self.is_built_in(path)
    }

    /// Returns true if the built-in configuration or a preset has this key, with all that is below it.
    pub(super) fn is_built_in(&self, path: &[String]) -> bool {
        match self.find_exactly(path) {
            Some((_, Value::Dict(_, values))) if !values.is_empty() => {
                let below = |key| [path, std::slice::from_ref(key)].concat();
                values.keys().all(|key| self.is_built_in(&below(key)))
            }
            Some((layer, _)) => layer == BUILT_IN || layer.starts_with(PRESET),
            None => false,
        }
    }

    /// Returns where the value at `path` comes from. A table, or a key that is missing in one, has the origin of the
    /// table in the file, else of one of its values.
    pub(crate) fn origin(&self, path: &[String]) -> Origin {
        let Some((name, value)) = self.find(path) else { return Origin::BuiltIn };
        if matches!(value, Value::Dict(..)) && self.text.line(path).is_some() {
            return Origin::File(self.text.line(path));
        }
        match name.as_str() {
            FILE => Origin::File(self.text.line(path)),
            ARGUMENT_LISTEN => Origin::Argument(ARGUMENT_LISTEN),
            ARGUMENT_ADMIN_LISTEN => Origin::Argument(ARGUMENT_ADMIN_LISTEN),
            ARGUMENT_RPC_URL => Origin::Argument(ARGUMENT_RPC_URL),
            ARGUMENT_STRATEGY => Origin::Argument(ARGUMENT_STRATEGY),
            name => match (name.strip_prefix(VARIABLE), name.strip_prefix(PRESET)) {
                (Some(variable), _) => Origin::Variable(variable.to_owned()),
                (_, Some(id)) => id
                    .parse()
                    .ok()
                    .and_then(presets::find)
                    .map_or(Origin::BuiltIn, |preset| Origin::Preset(&preset.name)),
                _ => Origin::BuiltIn,
            },
        }
    }

    /// Returns the value at `path`, or the nearest one above it, with the name of its layer.
    fn find(&self, path: &[String]) -> Option<(String, Value)> {
        let mut path = path;
        loop {
            if let Some(found) = self.find_exactly(path) {
                return Some(found);
            }
            (_, path) = path.split_last()?;
        }
    }

    fn find_exactly(&self, path: &[String]) -> Option<(String, Value)> {
        // The lookup in the merged layers takes a dot for a separator.
        let (section, rest) = path.split_first().filter(|(section, _)| !section.contains('.'))?;
        let mut value = self.merged.find_value(section).ok()?;
        for part in rest {
            value = match value {
                Value::Dict(_, mut values) => values.remove(part)?,
                Value::Array(_, elements) => elements.into_iter().nth(part.parse().ok()?)?,
                _ => return None,
            };
        }
        let tag = match &value {
            Value::Dict(_, values) => values.values().next().map_or(value.tag(), Value::tag),
            _ => value.tag(),
        };
        let metadata = self.merged.get_metadata(tag)?;
        Some((metadata.name.clone().into_owned(), value))
    }
}

impl Overrides {
    fn layers(&self) -> Vec<Layer> {
        let path = |key: &str| ["server".to_owned(), key.to_owned()];
        let address = |name: &str, key, address: Option<SocketAddr>| {
            let values = nest(&path(key), address?.to_string().into());
            Some(Layer { name: name.into(), values })
        };
        let chains = self.chains.iter().map(|(chain_id, urls)| {
            let key = match presets::find(*chain_id) {
                Some(preset) => preset.key.clone(),
                None => format!("chain-{chain_id}"),
            };
            let urls: Vec<Value> = urls.iter().map(|url| url.expose().as_str().into()).collect();
            let chain_id = Value::from(*chain_id);
            let table =
                Dict::from([("chain_id".into(), chain_id), ("rpc_urls".into(), urls.into())]);
            (key, table.into())
        });
        let chains: Dict = chains.collect();
        let rpc_urls = (!chains.is_empty()).then(|| {
            let values = Dict::from([(CHAINS.to_owned(), chains.into())]);
            Layer { name: ARGUMENT_RPC_URL.into(), values }
        });
        let listen = address(ARGUMENT_LISTEN, "listen", self.listen);
        let admin_listen = address(ARGUMENT_ADMIN_LISTEN, "admin_listen", self.admin_listen);
        [rpc_urls, listen, admin_listen].into_iter().flatten().collect()
    }
}

/// Removes the built-in chains, and the services that belong to their network.
fn remove_built_in_network(defaults: &mut Dict, kinds: &[SectionKind]) {
    defaults.remove(CHAINS);
    for kind in kinds {
        if let Some(Value::Dict(_, values)) = defaults.get_mut(kind.name) {
            values.retain(|key, _| !kind.network_keys.contains(&key.as_str()));
        }
    }
}

/// Returns the tables of the chains by key.
fn chain_tables(layers: &Figment) -> Dict {
    match layers.find_value(CHAINS) {
        Ok(Value::Dict(_, chains)) => chains,
        _ => Dict::new(),
    }
}

/// Puts the preset of each chain below all other layers.
fn with_presets(layers: Figment) -> Figment {
    let mut presets = Figment::new();
    for (key, chain) in chain_tables(&layers) {
        // A number of a file is signed, one of an argument is not.
        let number = |id: &Value| id.to_u128().or_else(|| u128::try_from(id.to_i128()?).ok());
        let chain_id = chain.find_ref("chain_id").and_then(number);
        let chain_id = chain_id.and_then(|id| u64::try_from(id).ok());
        if let Some((id, preset)) = chain_id.and_then(|id| Some((id, presets::find(id)?))) {
            let mut values = preset.values.clone();
            // A chain with other blocks has other flashblocks too, or none.
            if chain
                .find_ref("block_time")
                .is_some_and(|time| values.get("block_time") != Some(time))
            {
                values.remove("flashblock_time");
            }
            let values = nest(&[CHAINS.to_owned(), key], values.into());
            presets = presets.merge(Layer { name: format!("{PRESET}{id}"), values });
        }
    }
    presets.merge(layers)
}
