//! `gas-suggestion backtest`: arguments and run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{Estimator, LANDING_PERCENTILE, MAX_BLOCKS, Progress, Recording, Report};
use crate::assembly::{CommandContext, CommandError, ExtraCommand, Outcome, UrlArgument};
use crate::config::{Chain, Config, Overrides, Upstream, UpstreamUrl};
use crate::extras::backtest;
use crate::fees::Pricing;

/// Explanation of the measures, for `--help`.
const LONG_ABOUT: &str = "\
Score fee estimators on recorded fee history

At each block the configured pricing, the network's rule and the calibrated strategy without floors, and the
estimators of other systems quote a tip and a max fee from the blocks up to it. The quotes are scored against the
following blocks. All estimators are scored at the same blocks.

  next incl. %    share of quotes that the next block would have included: the max fee is not below
                  its base fee, and the tip, or what is left of the max fee for it, is not below the
                  tip that the block required
  in 5 incl. %    the same for any of the next five blocks
  full hit %      the same for the next block, among next blocks that are at least 90 % full
  base fee +5 %   share of quotes whose max fee is not below the base fee of the fifth block after
  base fee +25 %  the same for the twenty-fifth block after
  tip gap         between the tip and the realised median tip (percentile 50) of the next block, in
                  gwei: p50 and p99
  tip ≥ p50 %     share of quotes whose tip is not below that median
  overpaid        amount paid above the tip that the next block required, in gwei, over the quotes
                  that it would have included: p50, p95 and mean
  price / fair    base fee and tip paid in the next block over its base fee and required tip, over the
                  same quotes: p50 and p95
  pinball loss    average cost of an inexact tip in gwei: 0.95 of what is missing, or 0.05 of what is too
                  much; for an estimator with a target, its target and the rest of 1
  max fee / base fee  the max fee over the base fee of the next block: p50

With --horizon a second table grades the fees of GET /v1/{chain}/fees, without floors, for each number of
blocks and probability:

  kept %          share of pairs that one of so many blocks would have included
  upper %         upper end of Wilson's interval of that share (z = 2.58), for as many outcomes as the
                  overlapping ones stand for (independent)
  pass            else MISS: the upper end is below the probability, and the share by more than half of the
                  promised misses, at most 1.5 points

The required tip is the block's reward at the landing percentile. Blocks without one above 0 do not
count: they are empty, or their transactions pay the producer directly. Percentiles of the measures are
nearest ranks.

A FILE is a result of eth_feeHistory, or CSV with the columns number and base_fee_per_gas_wei, and
gas_used with gas_limit, or gas_used_ratio; columns p0 to p100 are rewards in wei at that percentile.
Either may be gzipped.";

/// Score fee estimators on recorded fee history
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["files", "rpc_url"])))]
struct BacktestArgs {
    /// Recordings, gzipped or not: results of `eth_feeHistory`, or blocks as CSV
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Fetch the newest blocks from this node instead
    #[arg(long, value_name = "URL")]
    rpc_url: Option<UrlArgument>,
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
    /// Also write a web page with a chart to this file; requires a single recording
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The command.
pub(super) const COMMAND: ExtraCommand =
    ExtraCommand { describe: || BacktestArgs::augment_args(Command::new("backtest")), run };

fn run(arguments: &ArgMatches, context: &CommandContext<'_>) -> Result<Outcome, CommandError> {
    let arguments = BacktestArgs::from_arg_matches(arguments).unwrap_or_else(|error| error.exit());
    let config = context.load(&Overrides::default())?;
    arguments.run(&config).map(Outcome::Print)
}

impl BacktestArgs {
    /// Runs the backtest and returns the text to print.
    fn run(self, config: &Config) -> Result<String, CommandError> {
        let pricing = self.select_pricing(config)?;
        if self.html.is_some() && self.files.len() > 1 {
            return Err(CommandError::Arguments(
                "--html takes a single recording; pass one file".into(),
            ));
        }
        if self.percentiles.as_deref().is_some_and(|all| !all.is_sorted_by(|one, next| one < next))
        {
            let problem = "--percentiles must be in ascending order";
            return Err(CommandError::Arguments(problem.into()));
        }
        let url = self.rpc_url.as_ref().map(|url| url.get("--rpc-url")).transpose()?;
        let estimators = backtest::all_estimators(pricing);
        let recordings = self.load_recordings(url, &config.upstream, &estimators);
        let recordings = recordings.map_err(CommandError::Runtime)?;
        let chain = config.chains.iter().find(|chain| self.chain.as_ref() == Some(&chain.key));
        let block_time = self.block_time.or(chain.map(|chain| chain.block_time));
        self.report(&recordings, &estimators, block_time).map_err(CommandError::Runtime)
    }

    /// Returns the pricing of the named chain, or the one that all chains have.
    fn select_pricing<'a>(&self, config: &'a Config) -> Result<&'a Pricing, CommandError> {
        let keys =
            || config.chains.iter().map(|chain| chain.key.as_str()).collect::<Vec<_>>().join(", ");
        let pricing_of = |chain: &'a Chain| &chain.pricing;
        if let Some(key) = &self.chain {
            let chain = config.chains.iter().find(|chain| chain.key == *key).map(pricing_of);
            return chain.ok_or_else(|| {
                CommandError::Arguments(format!(
                    "--chain: no chain {key:?} is configured; configured chains: {}",
                    keys()
                ))
            });
        }
        let mut all = config.chains.iter().map(pricing_of);
        let first = all.next().filter(|first| all.all(|other| other == *first));
        first.ok_or_else(|| {
            CommandError::Arguments(format!(
                "the chains have different pricing; choose one with --chain: {}",
                keys()
            ))
        })
    }

    fn load_recordings(
        &self,
        url: Option<UpstreamUrl>,
        upstream: &Upstream,
        estimators: &[Estimator],
    ) -> anyhow::Result<Vec<Recording>> {
        let Some(url) = url else {
            let read = |path: &PathBuf| {
                let recording = backtest::read_recording(path, self.percentiles.as_deref());
                recording.with_context(|| path.display().to_string())
            };
            return self.files.iter().map(read).collect();
        };
        let mut progress = Progress::new(self.blocks);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let fetched = backtest::fetch_recording(
            url,
            upstream,
            self.blocks,
            estimators,
            self.landing_percentile,
            |count| progress.advance_by(count),
        );
        let recording = runtime.context("cannot start")?.block_on(fetched)?;
        Ok(vec![recording])
    }

    fn report(
        &self,
        recordings: &[Recording],
        estimators: &[Estimator],
        block_time: Option<Duration>,
    ) -> anyhow::Result<String> {
        let mut progress = Progress::new(recordings.len().saturating_mul(estimators.len()));
        let mut reports = Vec::new();
        for recording in recordings {
            let advance = || progress.advance();
            let report =
                Report::new(recording, estimators, self.landing_percentile, block_time, advance);
            let mut report = report.with_context(|| recording.name.clone())?;
            if self.horizon {
                report.add_horizon(estimators, self.landing_percentile)?;
            }
            reports.push(report);
        }
        drop(progress);
        if let (Some(path), Some(report)) = (&self.html, reports.first()) {
            let page = report.page(self.landing_percentile).context("cannot write the page")?;
            std::fs::write(path, page)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.json {
            return backtest::document(&reports, self.landing_percentile)
                .context("cannot write the document");
        }
        Ok(reports.iter().map(Report::table).collect::<Vec<_>>().join("\n\n"))
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
