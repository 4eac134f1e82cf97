//! Replays recorded fee history block by block: what the service and other estimators would have quoted, and how the
//! quotes did. docs/pricing.md describes it.
//!
//! Files and nodes provide recordings, estimators quote from the blocks known at each head, and the quotes are compared with
//! the blocks that followed. The service's own quotes come from [`gas_suggestion::fees::price`].
//!
//! An estimator sees only the blocks up to one head, so it cannot look ahead. It also sees the next base fee if base fees
//! follow from the blocks before them. To score another pricing, add it to [`estimators::all_estimators`].

mod base_fees;
mod block_table;
mod estimators;
#[cfg(test)]
mod external_programs;
mod fee_history;
mod file;
mod horizon;
mod measures;
mod node;
mod picture;
mod recording;
mod report;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use gas_suggestion::config::{Config, FILE_VARIABLE, Overrides};
use gas_suggestion::extras::sections;
use gas_suggestion::fees::Pricing;
use indicatif::ProgressBar;

use estimators::Estimator;
use measures::LANDING_PERCENTILE;
use node::MAX_BLOCKS;
use recording::Recording;
use report::Report;

/// Text of `--help`. docs/pricing.md explains the measures.
const LONG_ABOUT: &str = "\
Score fee estimators on recorded fee history

At each block the configured pricing, the network's rule and the calibrated strategy without floors, and the
estimators of other systems quote a tip and a max fee from the blocks up to it. The quotes are scored against the
following blocks. All estimators are scored at the same blocks. docs/pricing.md explains the measures.

A FILE is a result of eth_feeHistory, or CSV with the columns number and base_fee_per_gas_wei, and
gas_used with gas_limit, or gas_used_ratio; columns p0 to p100 are rewards in wei at that percentile.
Either may be gzipped.";

/// Score fee estimators on recorded fee history
#[derive(Debug, Parser)]
#[command(name = "gas-suggestion-backtest", long_about = LONG_ABOUT)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["files", "rpc_url"])))]
struct Arguments {
    /// TOML file with the configuration of the service; default: `GAS_CONFIG`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Recordings, gzipped or not: results of `eth_feeHistory`, or blocks as CSV
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Fetch the newest blocks from this node instead
    #[arg(long, value_name = "URL")]
    rpc_url: Option<String>,
    /// Number of blocks to fetch from the node
    #[arg(long, value_name = "N", default_value = "1024", value_parser = parse_block_count, conflicts_with = "files")]
    blocks: usize,
    /// Percentiles of the rewards, if a file does not include them, such as 10,50,90
    #[arg(long, value_name = "P,…", value_delimiter = ',', value_parser = parse_percentile, conflicts_with = "rpc_url")]
    percentiles: Option<Vec<f64>>,
    /// Chain whose pricing is scored; optional if all chains have the same pricing
    #[arg(long, value_name = "KEY")]
    chain: Option<String>,
    /// Percentile of a block's rewards that counts as the tip that it required
    ///
    /// The lowest tip of a block (percentile 0) is no price. It is 0 in 95 % of Ethereum's blocks, because senders also
    /// pay block producers directly, and in every block of an OP Stack chain, because of the deposit transaction.
    #[arg(long, value_name = "P", default_value_t = LANDING_PERCENTILE, value_parser = parse_percentile)]
    landing_percentile: f64,
    /// Time between two blocks, such as 12s, to show 5 and 25 blocks in seconds; default: that of --chain
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    block_time: Option<Duration>,
    /// Also grade the fees of GET /v1/{chain}/fees, without floors
    #[arg(long)]
    horizon: bool,
    /// Print JSON instead of a table: amounts are wei as decimal strings, shares are from 0 to 1
    #[arg(long)]
    json: bool,
    /// Also write a picture of the estimators, share against price, to this file; requires a single recording
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(text) => {
            // A reader that closes early is not an error.
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Ends the process, because its arguments or its configuration are wrong.
fn refuse(problem: impl Display) -> ! {
    Arguments::command().error(ErrorKind::ValueValidation, problem).exit()
}

impl Arguments {
    /// Runs the backtest and returns the text to print.
    fn run(&self) -> anyhow::Result<String> {
        let variable = std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
        let file = self.config.clone().or_else(|| variable.map(PathBuf::from));
        let config = Config::load(file.as_deref(), &Overrides::default(), &sections());
        let config = config.unwrap_or_else(|errors| refuse(errors));
        if self.svg.is_some() && self.files.len() > 1 {
            refuse("--svg takes a single recording; pass one file");
        }
        if self.percentiles.as_deref().is_some_and(|all| !all.is_sorted_by(|one, next| one < next))
        {
            refuse("--percentiles must be in ascending order");
        }
        let estimators = estimators::all_estimators(self.select_pricing(&config));
        let recordings = self.load_recordings(&config, &estimators)?;
        let chain = config.chains.iter().find(|chain| self.chain.as_ref() == Some(&chain.key));
        let block_time = self.block_time.or(chain.map(|chain| chain.block_time));
        self.report(&recordings, &estimators, block_time)
    }

    /// Returns the pricing of the named chain, or the one that all chains have.
    fn select_pricing<'a>(&self, config: &'a Config) -> &'a Pricing {
        let keys: Vec<&str> = config.chains.iter().map(|chain| chain.key.as_str()).collect();
        let keys = keys.join(", ");
        if let Some(key) = &self.chain {
            let chain = config.chains.iter().find(|chain| chain.key == *key);
            let chain = chain.unwrap_or_else(|| {
                refuse(format!(
                    "--chain: no chain {key:?} is configured; configured chains: {keys}"
                ))
            });
            return &chain.pricing;
        }
        let mut all = config.chains.iter().map(|chain| &chain.pricing);
        let first = all.next().filter(|first| all.all(|other| other == *first));
        first.unwrap_or_else(|| {
            refuse(format!("the chains have different pricing; choose one with --chain: {keys}"))
        })
    }

    fn load_recordings(
        &self,
        config: &Config,
        estimators: &[Estimator],
    ) -> anyhow::Result<Vec<Recording>> {
        let Some(url) = &self.rpc_url else {
            let read = |path: &PathBuf| {
                let recording = file::read_recording(path, self.percentiles.as_deref());
                recording.with_context(|| path.display().to_string())
            };
            return self.files.iter().map(read).collect();
        };
        // An error of clap would show the value, which may contain a key.
        let url = url.parse().unwrap_or_else(|expected| refuse(format!("--rpc-url: {expected}")));
        let progress = ProgressBar::new(self.blocks as u64);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let fetched = node::fetch_recording(
            url,
            &config.upstream,
            self.blocks,
            estimators,
            self.landing_percentile,
            |count| progress.inc(count as u64),
        );
        let recording = runtime.context("cannot start")?.block_on(fetched)?;
        progress.finish_and_clear();
        Ok(vec![recording])
    }

    fn report(
        &self,
        recordings: &[Recording],
        estimators: &[Estimator],
        block_time: Option<Duration>,
    ) -> anyhow::Result<String> {
        let progress = ProgressBar::new((recordings.len() * estimators.len()) as u64);
        let mut reports = Vec::new();
        for recording in recordings {
            let report = Report::new(
                recording,
                estimators,
                self.landing_percentile,
                block_time,
                self.horizon,
                || progress.inc(1),
            );
            reports.push(report.with_context(|| recording.name.clone())?);
        }
        progress.finish_and_clear();
        if let (Some(path), Some(report)) = (&self.svg, reports.first()) {
            std::fs::write(path, picture::render(report)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.json {
            return Ok(report::document(&reports, self.landing_percentile)?);
        }
        Ok(reports.iter().map(Report::text).collect::<Vec<_>>().join("\n\n"))
    }
}

fn parse_block_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_BLOCKS).contains(count));
    count.ok_or_else(|| format!("must be from 1 to {MAX_BLOCKS}"))
}

fn parse_percentile(text: &str) -> Result<f64, String> {
    let percentile = text.trim().parse().ok().filter(|value| (0.0..=100.0).contains(value));
    percentile.ok_or_else(|| "must be from 0 to 100".into())
}
