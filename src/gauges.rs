//! Gauges of chains and upstreams, read from the store at scrape time, so that ages grow although no data arrives.
//!
//! A value that may not be served is not exported: its gauge is NaN.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use crate::config;
use crate::fees::{Market, Tier};
use crate::metrics::{GaugeValue, Metrics, encode_gauge};
use crate::store::{BlockWindow, ChainStore, ServableSnapshot, StoredChain};
use crate::upstream::{Availability, ChainUpstreams, NodeStatus};

/// Registers gauges for the chains of `store` and for their `upstreams`, which are in the same order.
pub(crate) fn register(store: &ChainStore, upstreams: &[Arc<ChainUpstreams>], metrics: &Metrics) {
    let chains = store.chains().iter().cloned().zip(upstreams.iter().cloned()).collect();
    metrics.registry().register_collector(Box::new(ChainCollector { chains }));
}

#[derive(Debug)]
struct ChainCollector {
    chains: Vec<(StoredChain, Arc<ChainUpstreams>)>,
}

/// State of a chain at one moment.
struct ChainState<'a> {
    config: &'a config::Chain,
    newest_block: Option<u64>,
    data_age: Option<Duration>,
    head_age: Option<Duration>,
    /// `None`: nothing may be served.
    current: Option<(ServableSnapshot, BlockWindow)>,
    upstreams: Vec<NodeStatus>,
}

/// Name, help text and value of a gauge.
type ChainGauge = (&'static str, &'static str, fn(&ChainState<'_>) -> Option<f64>);

const GAUGES: [ChainGauge; 5] = [
    ("gas_suggestion_chain_newest_block", "Number of the newest published block", |chain| {
        chain.newest_block.map(to_f64)
    }),
    (
        "gas_suggestion_chain_data_age_seconds",
        "Time since the last accepted reply, also if the data is too old to be served",
        |chain| chain.data_age.map(|age| age.as_secs_f64()),
    ),
    (
        "gas_suggestion_chain_head_age_seconds",
        "Time since the number of the newest block changed",
        |chain| chain.head_age.map(|age| age.as_secs_f64()),
    ),
    ("gas_suggestion_chain_block_time_seconds", "The configured block_time", |chain| {
        Some(chain.config.block_time.as_secs_f64())
    }),
    (
        "gas_suggestion_chain_max_age_seconds",
        "The configured max_age: older data is not served",
        |chain| Some(chain.config.max_age.as_secs_f64()),
    ),
];

/// Name without unit, help text and value of an amount in wei.
type FeeGauge = (&'static str, &'static str, fn(&ChainState<'_>) -> Option<u128>);

const FEES: [FeeGauge; 3] = [
    ("gas_suggestion_base_fee", "Base fee of the newest block", |chain| {
        let (_, window) = chain.current.as_ref()?;
        Some(window.blocks.last()?.base_fee)
    }),
    (
        "gas_suggestion_next_base_fee",
        "Base fee of the next block, if the upstream reports it",
        |chain| chain.market()?.next_base_fee,
    ),
    ("gas_suggestion_suggested_base_fee", "base_fee_per_gas of the suggestion", |chain| {
        Some(chain.market()?.suggestion.base_fee_per_gas)
    }),
];

/// Name without unit, help text and value of an amount of a tier in wei.
type TierGauge = (&'static str, &'static str, fn(Tier) -> u128);

const TIER_FEES: [TierGauge; 2] = [
    ("gas_suggestion_max_priority_fee", "max_priority_fee_per_gas of a tier", |tier| {
        tier.max_priority_fee_per_gas
    }),
    ("gas_suggestion_max_fee", "max_fee_per_gas of a tier", |tier| tier.max_fee_per_gas),
];

impl Collector for ChainCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let states =
            self.chains.iter().map(|(chain, upstreams)| ChainState::read(chain, upstreams, now));
        let states: Vec<_> = states.collect();

        for (name, help, value) in GAUGES {
            let samples = states.iter().map(|chain| {
                ([("chain", chain.key())], GaugeValue(value(chain).unwrap_or(f64::NAN)))
            });
            encode_gauge(&mut encoder, name, help, samples)?;
        }
        for (name, help, amount) in FEES {
            let samples = states.iter().map(|chain| ([("chain", chain.key())], amount(chain)));
            encode_amounts(&mut encoder, name, help, samples)?;
        }
        for (name, help, amount) in TIER_FEES {
            let samples = states.iter().flat_map(|chain| {
                let suggestion = chain.market().map(|market| &market.suggestion);
                let tiers = [
                    ("medium", suggestion.map(|suggestion| suggestion.medium)),
                    ("high", suggestion.map(|suggestion| suggestion.high)),
                ];
                tiers.map(|(tier, fees)| {
                    ([("chain", chain.key()), ("tier", tier)], fees.map(amount))
                })
            });
            encode_amounts(&mut encoder, name, help, samples)?;
        }

        let statuses = states.iter().flat_map(|chain| {
            let is_stale = chain.current.as_ref().map(|(reading, _)| reading.is_stale);
            let statuses = [("fresh", Some(false)), ("stale", Some(true)), ("unavailable", None)];
            statuses.map(|(status, state)| {
                ([("chain", chain.key()), ("status", status)], u32::from(is_stale == state))
            })
        });
        encode_gauge(
            &mut encoder,
            "gas_suggestion_chain_status",
            "1 for the current state of the chain's data: fresh, stale or unavailable",
            statuses,
        )?;

        let upstreams = || {
            states.iter().flat_map(|chain| {
                let upstreams = chain.upstreams.iter().enumerate();
                upstreams.map(|(index, status)| (chain.key(), index.to_string(), status))
            })
        };
        let availabilities = upstreams().flat_map(|(chain, index, status)| {
            let availabilities = [
                ("healthy", Availability::Healthy),
                ("degraded", Availability::Degraded),
                ("excluded", Availability::Excluded),
            ];
            availabilities.map(|(name, availability)| {
                let labels = [
                    ("chain", Cow::from(chain)),
                    ("upstream", index.clone().into()),
                    ("state", name.into()),
                ];
                (labels, u32::from(status.availability == availability))
            })
        });
        encode_gauge(
            &mut encoder,
            "gas_suggestion_upstream_state",
            "1 for the state of an upstream: healthy, degraded (polled after others) or excluded",
            availabilities,
        )?;
        let wrong_chain = upstreams().map(|(chain, index, status)| {
            let labels = [("chain", Cow::from(chain)), ("upstream", index.into())];
            (labels, u32::from(status.serves_another_chain))
        });
        encode_gauge(
            &mut encoder,
            "gas_suggestion_upstream_wrong_chain",
            "1 while an upstream is excluded because it served another chain",
            wrong_chain,
        )
    }
}

impl<'a> ChainState<'a> {
    fn read(chain: &'a StoredChain, upstreams: &ChainUpstreams, now: Instant) -> Self {
        let timestamps = chain.timestamps();
        let since = |instant| now.saturating_duration_since(instant);
        Self {
            config: chain.config(),
            newest_block: chain.newest_block(),
            data_age: timestamps.map(|seen| since(seen.observed_at)),
            head_age: timestamps.map(|seen| since(seen.head_changed_at)),
            current: chain.snapshot_with_blocks(1).ok(),
            upstreams: upstreams.statuses(now).collect(),
        }
    }

    fn key(&self) -> &'a str {
        &self.config.key
    }

    fn market(&self) -> Option<&Market> {
        self.current.as_ref().map(|(reading, _)| &reading.snapshot.market)
    }
}

/// Writes gauges of amounts in wei and in gwei. `None` (unknown) is NaN.
fn encode_amounts<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (L, Option<u128>)> + Clone,
) -> fmt::Result {
    for (unit, wei_per_unit) in [("wei", 1.0), ("gwei", 1e9)] {
        let samples = samples.clone().map(|(labels, amount)| {
            (labels, GaugeValue(amount.map_or(f64::NAN, to_f64) / wei_per_unit))
        });
        encode_gauge(encoder, &format!("{name}_{unit}"), &format!("{help}, in {unit}"), samples)?;
    }
    Ok(())
}

/// Converts an integer to the nearest `f64`.
fn to_f64(integer: impl fmt::Display) -> f64 {
    // There is no lossy conversion trait for integers of this size; parsing rounds to the nearest.
    integer.to_string().parse().unwrap_or(f64::NAN)
}
