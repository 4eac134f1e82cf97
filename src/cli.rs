//! The command line.

mod check_config;
mod discovery;
mod price;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::http::StatusCode;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use strum::VariantNames;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::assembly::{
    CommandContext, CommandError, ExtraCommand, ListenerArgs, Task, UrlArgument,
};
use crate::config::{self, CHAIN_ARGUMENT, Config, FILE_VARIABLE, Overrides, public_endpoints};
use crate::extras::{EXTRAS, sections};
use crate::fees::Strategy;
use crate::observe::http_client;
use crate::observe::{logging, traces};
use crate::server;
use crate::server::Server;
use discovery::NodeUrls;
use price::PriceArgs;

/// Gas price suggestions for EVM networks, computed from `eth_feeHistory`.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// TOML file that overrides the built-in configuration; default: `GAS_CONFIG`. GAS_… variables override both
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service (the default)
    Serve(ServeArgs),
    /// Print what gas costs now, from a running service or a node
    Price(PriceArgs),
    /// Check the configuration and exit
    CheckConfig {
        /// Print the effective configuration with the origin of each value; secrets are hidden
        #[arg(long)]
        print: bool,
        /// Also ask every node for its chain id and a fee history, and every other service of the
        /// configuration; exit code 1 if one fails
        #[arg(long)]
        online: bool,
    },
    /// Check whether a running service is ready: exit code 0 if it is, else 1
    Healthcheck(ListenerArgs),
    /// Print the OpenAPI document of this configuration
    #[command(name = "openapi")]
    OpenApi,
    /// Print completions for a shell
    Completions {
        /// Shell that reads them
        shell: Shell,
    },
    /// Print the manual page, in the format of man
    Man,
}

#[derive(Debug, Default, Args)]
struct ServeArgs {
    /// Node of a chain, without a configuration file; repeatable. The node tells the chain id; URLs of one chain are
    /// used in order of preference. @FILE: the file has the URL. Default: `GAS_RPC_URL`, several with commas
    #[arg(long = "rpc-url", value_name = "URL")]
    rpc_urls: Vec<UrlArgument>,
    /// Chain by its key or id, from its public endpoints, without a configuration file; repeatable. They are slow, and
    /// polled at most 30 times a minute
    #[arg(long = "chain", value_name = "NAME")]
    chains: Vec<String>,
    /// Rule that computes the tips of all chains; default: `pricing.strategy` of each
    #[arg(long, value_name = "STRATEGY", value_parser = strategy_parser())]
    strategy: Option<Strategy>,
    #[command(flatten)]
    listeners: ListenerArgs,
}

/// Reads the arguments of the process, and runs the command. Exit code 0: success; 1: failure while running; 2: invalid
/// configuration or arguments; 129: ended by SIGHUP, so that a supervisor that restarts on failure does.
#[must_use]
pub fn run() -> ExitCode {
    let matches = described().try_get_matches();
    let matches = matches.unwrap_or_else(|error| with_tip(error).exit());
    match run_command(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::HungUp) => ExitCode::from(HUNG_UP),
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

/// Exit code of a process that a SIGHUP ends: 128 and the number of the signal.
const HUNG_UP: u8 = 129;

/// Reads the name of a strategy. Its errors name all.
fn strategy_parser() -> impl TypedValueParser<Value = Strategy> {
    PossibleValuesParser::new(Strategy::VARIANTS).try_map(|name| name.parse::<Strategy>())
}

fn extra_commands() -> impl Iterator<Item = (clap::Command, ExtraCommand)> {
    let commands = EXTRAS.iter().filter_map(|extra| extra.command);
    commands.map(|command| ((command.describe)(), command))
}

/// Adds what was probably meant to the error of an argument that other programs take.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let unknown = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let unknown = unknown.into_iter().find_map(|kind| error.get(kind));
    let Some(ContextValue::String(argument)) = unknown else { return error };
    let is_toml = Path::new(argument).extension().is_some_and(|extension| extension == "toml");
    let tip = match argument.as_str() {
        "--port" | "-p" | "--host" => {
            "'--listen 127.0.0.1:8080' sets address and port, after the command".into()
        }
        "--rpc-url" => "'serve --rpc-url URL' serves the chain of a node".into(),
        file if is_toml => format!("'--config {file}' names the file"),
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Describes all commands, those of the features included.
fn described() -> clap::Command {
    Cli::command().subcommands(extra_commands().map(|(described, _)| described))
}

fn run_command(matches: &ArgMatches) -> Result<(), CommandError> {
    let from_environment = || std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
    let file = matches.get_one::<PathBuf>("config").cloned();
    let file = file.or_else(|| from_environment().map(PathBuf::from));
    let sections = sections();
    let context = CommandContext { file: file.as_deref(), sections: &sections };
    for (described, command) in extra_commands() {
        if let Some(arguments) = matches.subcommand_matches(described.get_name()) {
            let (config, task) = (command.run)(arguments, &context)?;
            return serve(config, Some(task));
        }
    }
    Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit()).run_command(&context)
}

impl Cli {
    fn run_command(self, context: &CommandContext<'_>) -> Result<(), CommandError> {
        match self.command.unwrap_or_else(|| Command::Serve(ServeArgs::default())) {
            Command::Price(arguments) => price::run(&arguments, context),
            Command::Completions { shell } => print_completions(shell),
            Command::Man => Ok(print(MANUAL.trim_end())?),
            Command::Serve(arguments) => serve(load_to_serve(context, &arguments)?, None),
            Command::CheckConfig { print, online } => check_config::run(context, print, online),
            Command::Healthcheck(listeners) => {
                let config = context.load(&listeners.overrides(Ipv4Addr::UNSPECIFIED))?;
                let config::Server { listen, admin_listen, .. } = config.server;
                Ok(check_health(if listeners.is_public_alone() { listen } else { admin_listen })?)
            }
            Command::OpenApi => {
                let config = context.load(&Overrides::default())?;
                Ok(print(&server::document(&config).context("cannot write the document")?)?)
            }
        }
    }
}

/// The manual page, which packages install.
const MANUAL: &str = include_str!("../config/debian/gas-suggestion.1");

fn print_completions(shell: Shell) -> Result<(), CommandError> {
    let mut command = described();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, env!("CARGO_PKG_NAME"), &mut script);
    Ok(print(String::from_utf8_lossy(&script).trim_end())?)
}

/// Reads the configuration of a service: with the chains of `--rpc-url`, whose nodes it asks for their chain ids, or with
/// the public endpoints of `--chain`.
fn load_to_serve(
    context: &CommandContext<'_>,
    ServeArgs { rpc_urls, chains, strategy, listeners }: &ServeArgs,
) -> Result<Config, CommandError> {
    let listeners = listeners.overrides(Ipv4Addr::UNSPECIFIED);
    let overrides = Overrides { strategy: *strategy, ..listeners };
    let nodes = NodeUrls::read(rpc_urls)?;
    let found = match nodes {
        Some(nodes) if chains.is_empty() => return discovery::load(context, &nodes, overrides),
        None if chains.is_empty() => return Ok(context.load(&overrides)?),
        Some(nodes) => Err(format!("{} names chains too; use one of them", nodes.source)),
        None => chains.iter().map(|name| public_endpoints(name)).collect(),
    };
    let chains: Vec<_> =
        found.map_err(|problem| CommandError::Arguments(format!("{CHAIN_ARGUMENT}: {problem}")))?;
    let overrides = Overrides { chains, chains_from: CHAIN_ARGUMENT, ..overrides };
    let mut config = context.load(&overrides)?;
    config.origin.push_str(", with public endpoints, which are slow");
    Ok(config)
}

/// Runs the service, and `beside` it a task, until it ends.
#[tokio::main(worker_threads = 2)]
async fn serve(config: Config, beside: Option<Task>) -> Result<(), CommandError> {
    let (traces, spans) = traces::init(&config.tracing)?;
    let _logs = logging::init(&config.log, spans).context("cannot set up the log")?;
    let mut signals = Signals::listen()?;
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    let time_to_stop = config.server.drain_delay.saturating_add(config.server.shutdown_grace);
    let mut server = Server::bind(config).await?;
    if let Some(task) = beside {
        server.add_task(task);
    }
    let stop = CancellationToken::new();
    let mut is_hung_up = false;
    // The end of the grace period, unless the service has crashed.
    let mut stop_by = None;
    let ended = tokio::select! {
        ended = server.run(stop.clone().cancelled_owned()) => ended,
        // The first signal lets requests in flight finish; a second one stops at once.
        () = async {
            is_hung_up = signals.wait_for_signal().await;
            stop_by = Instant::now().checked_add(time_to_stop);
            stop.cancel();
            signals.wait_for_signal().await;
            stop_by = Some(Instant::now());
        } => Ok(()),
    };
    traces.shutdown(stop_by).await;
    ended?;
    if is_hung_up { Err(CommandError::HungUp) } else { Ok(()) }
}

/// Checks whether the service with this listener on this machine is ready.
#[tokio::main(flavor = "current_thread")]
async fn check_health(address: SocketAddr) -> anyhow::Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let address = server::reachable(address);
    let http = http_client::direct(TIMEOUT).context("cannot set up the HTTP client")?;
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
    /// `None`: it was ignored when the process started, as by `nohup`, and stays so.
    hangup: Option<Signal>,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let hangup = (!is_hangup_ignored()).then(|| signal(SignalKind::hangup()));
        let hangup = hangup.transpose().context("cannot listen for SIGHUP")?;
        Ok(Self { terminate, interrupt, hangup })
    }

    /// Waits for the next signal. Returns true if it is SIGHUP.
    async fn wait_for_signal(&mut self) -> bool {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => false,
            _ = self.interrupt.recv() => false,
            _ = hangup => true,
        }
    }
}

/// Returns true if the process ignores SIGHUP. Only Linux says so without unsafe code.
#[cfg(target_os = "linux")]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit 0 is signal 1, which is SIGHUP.
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(not(target_os = "linux"))]
fn is_hangup_ignored() -> bool {
    false
}

/// Prints a line to stdout. A reader that closes early is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    print_to_reader(text).map(|_| ())
}

/// Prints a line to stdout. Returns false if its reader has closed it.
fn print_to_reader(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write to standard output"),
    }
}

/// Prints an error to stderr, if that is open.
fn print_error(text: &str) {
    let _ = writeln!(io::stderr(), "error: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_names_every_command_and_global_option() {
        let manual = MANUAL.replace('\\', "");
        for command in described().get_subcommands() {
            let heading = format!(".TP\n.B {}\n", command.get_name());
            assert!(manual.contains(&heading), "{heading}");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(manual.contains(&about), "{about}");
        }
        for option in described().get_arguments().filter_map(clap::Arg::get_long) {
            assert!(manual.contains(&format!("--{option}")), "{option}");
        }
    }
}
