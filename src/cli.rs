//! The command line.

mod backtest;

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::http::StatusCode;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError, DelegationSource, FILE_VARIABLE, Redis};
use crate::server::Server;
use crate::{api, demo, outbound, telemetry, traces};
use backtest::Backtest;

/// Gas price suggestions for EVM networks, computed from `eth_feeHistory`.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    shared: Shared,
}

#[derive(Debug, Args)]
struct Shared {
    /// A TOML file over the built-in configuration, or the one in `GAS_CONFIG`; GAS_… variables go over both
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service (the default)
    Serve,
    /// Run the service on recorded blocks of Ethereum and Base; needs no network
    Demo {
        /// How often the recorded chains have a new block, from 10ms to 1h
        #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = block_time)]
        block_time: Duration,
        /// By how much of that a block may come early or late, in percent, from 0 to 40
        #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=40))]
        jitter: u8,
    },
    /// Check the configuration and exit
    CheckConfig,
    // Its documentation is that of its arguments.
    Backtest(Box<Backtest>),
    /// Ask a running service whether it is ready: exit code 0 when it is, else 1
    Healthcheck,
    /// Print the OpenAPI document of this configuration
    #[command(name = "openapi")]
    OpenApi,
}

/// How a run failed, which decides the exit code.
enum Failure {
    Configuration(ConfigError),
    /// What is asked for cannot be, for this reason.
    Arguments(String),
    Running(anyhow::Error),
}

impl Cli {
    /// Runs the command to its end: exit code 0 when it ended as asked, 1 when it failed while
    /// running, 2 for a wrong configuration or wrong arguments.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.try_run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure::Configuration(error)) => {
                complain(&error.to_string());
                ExitCode::from(2)
            }
            Err(Failure::Arguments(problem)) => {
                complain(&problem);
                ExitCode::from(2)
            }
            Err(Failure::Running(error)) => {
                complain(&format!("{error:#}"));
                ExitCode::FAILURE
            }
        }
    }

    fn try_run(self) -> Result<(), Failure> {
        let named = || std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
        let file = self.shared.config.or_else(|| named().map(PathBuf::from));
        let config = Config::load(file.as_deref()).map_err(Failure::Configuration)?;
        match self.command.unwrap_or(Command::Serve) {
            Command::Serve => serve(config, None).map_err(Failure::Running),
            Command::Demo { block_time, jitter } => {
                serve(config, Some(demo::Pace { block_time, jitter })).map_err(Failure::Running)
            }
            Command::CheckConfig => print(&summary(&config)).map_err(Failure::Running),
            Command::Backtest(backtest) => print(&backtest.run(&config)?).map_err(Failure::Running),
            Command::Healthcheck => check_health(&config).map_err(Failure::Running),
            Command::OpenApi => {
                let document = api::document(&config).context("cannot write the document");
                document.and_then(|document| print(&document)).map_err(Failure::Running)
            }
        }
    }
}

/// Runs the service; with `demo`, on recorded chains at that pace.
#[tokio::main]
async fn serve(mut config: Config, demo: Option<demo::Pace>) -> anyhow::Result<()> {
    let _logs = telemetry::init(&config.log)?;
    let traces = traces::init(&config.tracing)?;
    let mut signals = Signals::listen()?;
    for key in &config.not_in_force {
        tracing::warn!(key, "this key has no effect: with redis.url replicas poll in turns");
    }
    let node = match demo {
        Some(pace) => {
            let node = demo::Node::bind(pace).await.context("cannot start the recorded chains")?;
            config.chains = demo::chains(node.address()?, pace.block_time)?;
            // Others would take what was recorded for what is.
            config.redis = Redis::default();
            // What is recorded has no contracts.
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
        // The first signal lets requests under way finish, a second one does not wait for them.
        () = async { signals.next().await; stop.cancel(); signals.next().await } => Ok(()),
    };
    traces.finish().await;
    ended
}

/// Asks the service that runs with this configuration on this machine whether it is ready.
#[tokio::main(flavor = "current_thread")]
async fn check_health(config: &Config) -> anyhow::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(3);
    let mut address = config.server.admin_listen;
    if address.ip().is_unspecified() {
        // What listens everywhere listens here.
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let http =
        outbound::http().timeout(PATIENCE).build().context("cannot set up the HTTP client")?;
    let answer = http.get(format!("http://{address}/readyz")).send().await;
    let answer = answer.with_context(|| format!("nobody answers at {address}"))?;
    match answer.status() {
        StatusCode::OK => Ok(()),
        status => bail!("the service at {address} is not ready: it answers {status}"),
    }
}

/// The signals that ask a process to stop. None is missed once this exists.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        Ok(Self { terminate, interrupt })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// To standard output, with a line's end. That nobody reads it to its end is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// To standard error, where somebody reads that.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "error: {text}");
}

fn summary(config: &Config) -> String {
    let chains = config.chains.iter().map(|chain| {
        let urls = match chain.rpc_urls.len() {
            1 => "1 RPC URL".into(),
            count => format!("{count} RPC URLs"),
        };
        format!("  {} (id {}, {urls})", chain.key, chain.chain_id)
    });
    let notes = config
        .not_in_force
        .iter()
        .map(|key| format!("Note: {key} has no effect: with redis.url replicas poll in turns."));
    let lines = ["The configuration is valid. Chains:".to_owned()].into_iter().chain(chains);
    lines.chain(notes).collect::<Vec<_>>().join("\n")
}

fn block_time(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(10)..=Duration::from_hours(1);
    if allowed.contains(&duration) { Ok(duration) } else { Err("must be from 10ms to 1h".into()) }
}
