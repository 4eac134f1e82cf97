//! The command line.

mod check_config;
mod discovery;
pub(crate) mod start_summary;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::http::StatusCode;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::config::{
    Config, ConfigErrors, DelegationSource, FILE_VARIABLE, Overrides, Redis, UpstreamUrl,
};
use crate::extras::backtest::command::BacktestArgs;
use crate::extras::demo;
use crate::nodes::http_client;
use crate::observe::{logging, traces};
use crate::server::Server;

/// Gas price suggestions for EVM networks, computed from `eth_feeHistory`.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(Debug, Args)]
struct GlobalArgs {
    /// TOML file that overrides the built-in configuration; default: `GAS_CONFIG`. GAS_… variables override both
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service (the default)
    Serve {
        /// Node of a chain, without a configuration file; repeatable. The node tells the chain id; URLs of one chain are
        /// used in order of preference
        #[arg(long = "rpc-url", value_name = "URL")]
        rpc_urls: Vec<UrlArgument>,
        #[command(flatten)]
        listeners: ListenerArgs,
    },
    /// Run the service on recorded blocks of Ethereum and Base; needs no network
    Demo {
        /// Block time of the recorded chains, from 10ms to 1h
        #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_block_time)]
        block_time: Duration,
        /// How early or late a block may come, in percent of the block time, from 0 to 40
        #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=40))]
        jitter: u8,
        #[command(flatten)]
        listeners: ListenerArgs,
    },
    /// Check the configuration and exit
    CheckConfig {
        /// Print the effective configuration with the origin of each value; secrets are hidden
        #[arg(long)]
        print: bool,
        /// Also ask every node for its chain id and a fee history; exit code 1 if one fails
        #[arg(long)]
        online: bool,
    },
    // Its help text is that of its arguments.
    Backtest(Box<BacktestArgs>),
    /// Check whether a running service is ready: exit code 0 if it is, else 1
    Healthcheck,
    /// Print the OpenAPI document of this configuration
    #[command(name = "openapi")]
    OpenApi {
        /// Describe any chain instead of the configured ones
        #[arg(long)]
        generic: bool,
    },
}

/// URL of a node. An error of clap would show the value, which may contain a key.
#[derive(Debug, Clone)]
pub(crate) struct UrlArgument(Result<UpstreamUrl, &'static str>);

impl FromStr for UrlArgument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl UrlArgument {
    /// Returns the URL of the argument `name`.
    pub(crate) fn get(&self, name: &str) -> Result<UpstreamUrl, CommandError> {
        let Self(url) = self;
        url.clone().map_err(|expected| CommandError::Arguments(format!("{name}: {expected}")))
    }
}

#[derive(Debug, Default, Clone, Args)]
struct ListenerArgs {
    /// Address of the public routes, such as 127.0.0.1:8080; port 0: a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of metrics and health checks
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
}

/// Error of a command. It decides the exit code.
pub(crate) enum CommandError {
    Configuration(ConfigErrors),
    /// The arguments are invalid.
    Arguments(String),
    Runtime(anyhow::Error),
}

impl Cli {
    /// Runs the command. Exit code 0: success; 1: failure while running; 2: invalid configuration or arguments.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.try_run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(CommandError::Configuration(errors)) => {
                for error in &errors.0 {
                    print_error(&error.to_string());
                }
                ExitCode::from(2)
            }
            Err(CommandError::Arguments(problem)) => {
                print_error(&problem);
                ExitCode::from(2)
            }
            Err(CommandError::Runtime(error)) => {
                print_error(&format!("{error:#}"));
                ExitCode::FAILURE
            }
        }
    }

    fn try_run(self) -> Result<(), CommandError> {
        let from_environment = || std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
        let file = self.global.config.or_else(|| from_environment().map(PathBuf::from));
        let file = file.as_deref();
        let serve_default =
            || Command::Serve { rpc_urls: Vec::new(), listeners: ListenerArgs::default() };
        let command = self.command.unwrap_or_else(serve_default);
        let config = load(file, &command)?;
        match command {
            Command::Serve { .. } => serve(config, None).map_err(CommandError::Runtime),
            Command::Demo { block_time, jitter, .. } => {
                serve(config, Some(demo::BlockTiming { block_time, jitter }))
                    .map_err(CommandError::Runtime)
            }
            Command::CheckConfig { print, online } => {
                let effective = print.then(|| Config::print(file, &Overrides::default()));
                let effective = effective.transpose().map_err(CommandError::Configuration)?;
                check_config::run(&config, effective, online).map_err(CommandError::Runtime)
            }
            Command::Backtest(backtest) => {
                print(&backtest.run(&config)?).map_err(CommandError::Runtime)
            }
            Command::Healthcheck => check_health(&config).map_err(CommandError::Runtime),
            Command::OpenApi { generic } => {
                let build = if generic { api::generic_document } else { api::document };
                let document = build(&config).context("cannot write the document");
                document.and_then(|document| print(&document)).map_err(CommandError::Runtime)
            }
        }
    }
}

/// Reads the configuration of `command`. Asks the nodes of `--rpc-url` for their chain ids.
fn load(file: Option<&Path>, command: &Command) -> Result<Config, CommandError> {
    let overrides = match command {
        Command::Serve { rpc_urls, listeners } => {
            let urls =
                rpc_urls.iter().map(|url| url.get("--rpc-url")).collect::<Result<Vec<_>, _>>()?;
            let chains = discovery::find_chains(&urls).map_err(CommandError::Runtime)?;
            Overrides { chains, ..listeners.overrides() }
        }
        Command::Demo { listeners, .. } => listeners.overrides(),
        _ => Overrides::default(),
    };
    Config::load(file, &overrides).map_err(CommandError::Configuration)
}

impl ListenerArgs {
    fn overrides(&self) -> Overrides {
        let Self { listen, admin_listen } = *self;
        Overrides { listen, admin_listen, ..Overrides::default() }
    }
}

/// Runs the service; with `demo`, on recorded chains with this block timing.
#[tokio::main(worker_threads = 2)]
async fn serve(mut config: Config, demo: Option<demo::BlockTiming>) -> anyhow::Result<()> {
    let (traces, spans) = traces::init(&config.tracing)?;
    let _logs = logging::init(&config.log, spans)?;
    let mut signals = Signals::listen()?;
    if demo.is_none() {
        for note in &config.notes {
            tracing::warn!("{note}");
        }
    }
    let node = match demo {
        Some(pace) => {
            let node =
                demo::ReplayNode::bind(pace).await.context("cannot start the recorded chains")?;
            config.chains = demo::chain_configs(node.address()?, pace.block_time)?;
            config.is_demo = true;
            // Other replicas, and later starts, would take recorded data for live data.
            config.redis = Redis::default();
            config.history.remove_path();
            // The recorded chains have no contracts.
            config.verification.url = None;
            config.delegation.source = DelegationSource::Off;
            Some(node)
        }
        None => None,
    };
    let mut server = Server::bind(config).await?;
    if let Some(node) = node {
        server.add_task(async { Ok(node.run().await?) });
    }
    let stop = CancellationToken::new();
    let ended = tokio::select! {
        ended = server.run(stop.clone().cancelled_owned()) => ended,
        // The first signal lets requests in flight finish; a second one stops at once.
        () = async { signals.next().await; stop.cancel(); signals.next().await } => Ok(()),
    };
    traces.shutdown().await;
    ended
}

/// Checks whether the service with this configuration on this machine is ready.
#[tokio::main(flavor = "current_thread")]
async fn check_health(config: &Config) -> anyhow::Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let mut address = config.server.admin_listen;
    if address.ip().is_unspecified() {
        // For a wildcard address, connect to the loopback address.
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let http =
        http_client::builder().timeout(TIMEOUT).build().context("cannot set up the HTTP client")?;
    let response = http.get(format!("http://{address}/readyz")).send().await;
    let response = response.with_context(|| format!("no response from {address}"))?;
    match response.status() {
        StatusCode::OK => Ok(()),
        status => bail!("the service at {address} is not ready: status {status}"),
    }
}

/// Signals that stop the process. No signal is missed once this exists.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        Ok(Self { terminate, interrupt, hangup })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Prints a line to stdout. A reader that closes early is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Prints an error to stderr, if that is open.
fn print_error(text: &str) {
    let _ = writeln!(io::stderr(), "error: {text}");
}

fn parse_block_time(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(10)..=Duration::from_hours(1);
    if allowed.contains(&duration) { Ok(duration) } else { Err("must be from 10ms to 1h".into()) }
}
