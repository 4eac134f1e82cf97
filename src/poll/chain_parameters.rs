//! Reads the parameters of the base fee that an OP Stack chain has in its headers.
//!
//! One task per chain requests the newest header when the chain has its first data, and again each time the head has
//! moved by [`READ_INTERVAL`] blocks. Polls use the newest known parameters and never wait for a read. A read that
//! fails changes nothing and is repeated after [`RETRY_INTERVAL`] blocks. With replicas, each reads for itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::hex;
use serde::Deserialize;
use tokio::sync::watch;

use crate::config;
use crate::fees::gwei::rounded_gwei;
use crate::fees::{Contradiction, HeaderParameters, Pricing};
use crate::nodes::ServiceReads;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{FloatGauge, Metrics, ParameterLabels};
use crate::store::{LatestState, StoredChain};

/// Number of blocks by which the head moves, in either direction, between two reads.
const READ_INTERVAL: u64 = 100;

/// Number of blocks after which a failed read is repeated.
const RETRY_INTERVAL: u64 = 10;

/// Deadline of a read, over all upstreams.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the headers of one chain.
#[derive(Debug)]
pub(crate) struct HeaderReader {
    chain: StoredChain,
    reads: Arc<dyn ServiceReads>,
    published: watch::Sender<Option<HeaderParameters>>,
    reporter: ContradictionReporter,
    read_log: LogOnChange,
}

impl HeaderReader {
    /// Creates the reader, and a receiver of the newest parameters: `None` before the first read, and for a header
    /// without parameters. Returns `None` if the chain's headers are not to be read.
    pub(crate) fn new(
        chain: &StoredChain,
        reads: &Arc<dyn ServiceReads>,
        metrics: &Metrics,
    ) -> Option<(Self, watch::Receiver<Option<HeaderParameters>>)> {
        if chain.config().chain_parameters == config::ChainParameters::Off {
            return None;
        }
        let (published, newest) = watch::channel(None);
        let reader = Self {
            chain: chain.clone(),
            reads: Arc::clone(reads),
            published,
            reporter: ContradictionReporter::new(chain.config(), metrics),
            read_log: LogOnChange::default(),
        };
        Some((reader, newest))
    }

    /// Reads for ever. Dropping the future ends a pending read.
    pub(crate) async fn run(mut self) -> Infallible {
        let newest_block = |state: &LatestState| Some(state.snapshot.as_ref()?.newest_block);
        let mut latest = self.chain.subscribe();
        let (mut read_at, mut interval) = (None, READ_INTERVAL);
        loop {
            let is_due = |state: &LatestState| match (newest_block(state), read_at) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(head), Some(last)) => head.abs_diff(last) >= interval,
            };
            let Ok(head) = latest.wait_for(is_due).await.map(|state| newest_block(&state)) else {
                return std::future::pending().await;
            };
            read_at = head;
            let header = self.read_header().await;
            interval = if header.is_some() { READ_INTERVAL } else { RETRY_INTERVAL };
            if self.read_log.changed_to(header.as_ref().map(|_| ()).ok_or("failed"))
                && header.is_none()
            {
                let chain = &self.chain.config().key;
                tracing::info!(chain, "cannot read the chain parameters from a header; retrying");
            }
            if let Some(header) = header {
                let parameters = header.parameters();
                self.reporter.record(parameters, &self.chain.config().pricing);
                self.published.send_replace(parameters);
            }
        }
    }

    /// Requests the newest header; `None`: no upstream returned one.
    async fn read_header(&self) -> Option<Header> {
        let (method, params) = ("eth_getBlockByNumber", "[\"latest\",false]".to_owned());
        let read = self.reads.read_for_service(method, params, READ_TIMEOUT).await;
        serde_json::from_slice(&read.ok()??).ok()
    }
}

/// The part of a header that has the parameters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    extra_data: Option<String>,
}

impl Header {
    fn parameters(&self) -> Option<HeaderParameters> {
        HeaderParameters::from_extra_data(&hex::decode(self.extra_data.as_ref()?).ok()?)
    }
}

/// Reports constants of the configuration that the chain's headers contradict.
#[derive(Debug)]
struct ContradictionReporter {
    chain: String,
    base_fee_floor: ParameterReport,
    base_fee_change_denominator: ParameterReport,
    empty_block_denominator: ParameterReport,
}

/// Report of one constant.
#[derive(Debug)]
struct ParameterReport {
    gauge: FloatGauge,
    /// Value of the headers that was logged last.
    logged: Option<u128>,
}

impl ContradictionReporter {
    fn new(chain: &config::Chain, metrics: &Metrics) -> Self {
        let report = |parameter| {
            let labels = ParameterLabels { chain: chain.key.clone(), parameter };
            let gauge = metrics.chain_parameters_disagree.get_or_create_owned(&labels);
            gauge.set(f64::NAN);
            ParameterReport { gauge, logged: None }
        };
        Self {
            chain: chain.key.clone(),
            base_fee_floor: report("base_fee_floor"),
            base_fee_change_denominator: report("base_fee_change_denominator"),
            empty_block_denominator: report("empty_block_denominator"),
        }
    }

    /// Compares `pricing` with the headers' parameters. Sets the gauges, to NaN without parameters. Logs a
    /// contradiction once, and again when the headers' value changes.
    fn record(&mut self, parameters: Option<HeaderParameters>, pricing: &Pricing) {
        let Some(parameters) = parameters else {
            for report in [
                &self.base_fee_floor,
                &self.base_fee_change_denominator,
                &self.empty_block_denominator,
            ] {
                report.gauge.set(f64::NAN);
            }
            return;
        };
        let found = parameters.contradictions(pricing);
        if let Some(Contradiction { assumed, header }) =
            self.base_fee_floor.update(found.base_fee_floor)
        {
            tracing::warn!(
                chain = self.chain,
                key = format!("chains.{}.pricing.base_fee_floor", self.chain),
                configured_gwei = rounded_gwei(assumed),
                header_gwei = rounded_gwei(header),
                "the configured floor is not the minimum base fee in the chain's headers"
            );
        }
        let full_block = self.base_fee_change_denominator.update(found.base_fee_change_denominator);
        let empty_block = self.empty_block_denominator.update(found.empty_block_denominator);
        for (parameter, changed) in
            [("base_fee_change_denominator", full_block), ("empty_block_denominator", empty_block)]
        {
            let Some(Contradiction { assumed, header }) = changed else { continue };
            tracing::warn!(
                chain = self.chain,
                key = format!("chains.{}.pricing.{parameter}", self.chain),
                configured = assumed,
                header,
                "the configured denominator is not that of the chain's headers"
            );
        }
    }
}

impl ParameterReport {
    /// Sets the gauge. Returns the contradiction if it is not logged yet.
    fn update(&mut self, found: Option<Contradiction>) -> Option<Contradiction> {
        self.gauge.set(f64::from(found.is_some()));
        let header = found.map(|contradiction| contradiction.header);
        let is_logged = std::mem::replace(&mut self.logged, header) == header;
        found.filter(|_| !is_logged)
    }
}
