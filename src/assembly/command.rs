//! Commands of extras, and the arguments that commands have in common.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use clap::{ArgMatches, Args, Command};

use super::Task;
use crate::config::{Config, ConfigErrors, Overrides, SectionKind, UpstreamUrl};

/// A command of an extra.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExtraCommand {
    /// Describes the command and its arguments.
    pub(crate) describe: fn() -> Command,
    /// Reads the arguments. Returns the configuration of the service to run, and a task to run beside it.
    pub(crate) run: fn(&ArgMatches, &CommandContext<'_>) -> CommandResult,
}

type CommandResult = Result<(Config, Task), CommandError>;

/// Surroundings of a command.
#[derive(Debug)]
pub(crate) struct CommandContext<'a> {
    /// The configuration file, if one is named.
    pub(crate) file: Option<&'a Path>,
    /// Sections of all extras.
    pub(crate) sections: &'a [SectionKind],
}

/// Error of a command. It decides the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Configuration(#[from] ConfigErrors),
    /// The arguments are invalid.
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Runtime(#[from] anyhow::Error),
    #[error("the service ran until a SIGHUP")]
    HungUp,
}

impl CommandContext<'_> {
    /// Reads the configuration.
    pub(crate) fn load(&self, overrides: &Overrides) -> Result<Config, ConfigErrors> {
        Config::load(self.file, overrides, self.sections)
    }
}

/// URL of a node, or `@` and a file that contains it. An error of clap would show the value, which may contain a key.
#[derive(Debug, Clone)]
pub(crate) struct UrlArgument(Result<UpstreamUrl, String>);

impl FromStr for UrlArgument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        // The name of the file is not shown: it may be a URL that has a key.
        let text = match text.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| format!("cannot read the file after @: {error}")),
            None => Ok(text.to_owned()),
        };
        Ok(Self(text.and_then(|text| text.trim().parse().map_err(str::to_owned))))
    }
}

impl UrlArgument {
    /// Returns the URL of the argument or variable `name`.
    pub(crate) fn get(&self, name: &str) -> Result<UpstreamUrl, CommandError> {
        let Self(url) = self;
        url.clone().map_err(|expected| CommandError::Arguments(format!("{name}: {expected}")))
    }
}

/// Addresses of the listeners.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct ListenerArgs {
    /// Address of the public routes, such as 127.0.0.1:8080, localhost:8080 or a port alone; port 0: a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Address of metrics and health checks; a port alone is one of this machine
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<ListenAddress>,
}

impl ListenerArgs {
    /// Returns the values for the configuration. A port of the public routes alone is one at `host`.
    pub(crate) fn overrides(&self, host: Ipv4Addr) -> Overrides {
        let listen = self.listen.map(|address| address.at(host));
        let admin_listen = self.admin_listen.map(|address| address.at(Ipv4Addr::LOCALHOST));
        Overrides { listen, admin_listen, ..Overrides::default() }
    }

    /// Returns true if the public listener is named, and the other is not.
    pub(crate) fn is_public_alone(&self) -> bool {
        self.listen.is_some() && self.admin_listen.is_none()
    }
}

/// A socket address, or a port alone: `8080` or `:8080`.
#[derive(Debug, Clone, Copy)]
struct ListenAddress {
    host: Option<IpAddr>,
    port: u16,
}

impl ListenAddress {
    fn at(self, host: Ipv4Addr) -> SocketAddr {
        (self.host.unwrap_or(host.into()), self.port).into()
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected an address such as 127.0.0.1:8080, localhost:8080 or 8080";
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: Some(address.ip()), port: address.port() });
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let host = match host {
            "" => None,
            "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            _ => return Err(EXPECTED),
        };
        port.parse().map(|port| Self { host, port }).map_err(|_| EXPECTED)
    }
}
