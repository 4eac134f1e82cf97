//! What is known of the chains and their upstreams, as gauges that are read off when somebody looks.
//!
//! A value that may not be served is not shown either: its gauge is not a number then.

use std::sync::{Arc, Weak};
use std::time::Instant;

use metrics::Gauge;

use crate::book::{Book, Chain};
use crate::metrics::{AmountGauge, Metrics, OneOf, nearest};
use crate::rpc::{Standing, Upstreams};

/// Has `metrics` show the chains of `book` and their `upstreams`, both in the same order, until the latter
/// are gone.
pub(crate) fn show(book: &Book, upstreams: &[Arc<Upstreams>], metrics: &Metrics) {
    for (chain, upstreams) in book.chains().iter().zip(upstreams) {
        let config = chain.config();
        metrics.configured(&config.key, config.block_time, config.max_age);
        let of_chain = OfChain::new(chain, metrics);
        metrics.at_each_look(move || of_chain.read());
        let of_upstreams = OfUpstreams::new(&config.key, upstreams, metrics);
        metrics.at_each_look(move || of_upstreams.read());
    }
}

struct OfChain {
    chain: Chain,
    /// Fresh, stale, unavailable.
    status: OneOf<3>,
    newest_block: Gauge,
    data_age: Gauge,
    head_age: Gauge,
    base_fee: AmountGauge,
    next_base_fee: AmountGauge,
    suggested_base_fee: AmountGauge,
    /// Tip and max fee.
    medium: [AmountGauge; 2],
    high: [AmountGauge; 2],
}

impl OfChain {
    fn new(chain: &Chain, metrics: &Metrics) -> Self {
        let key = chain.config().key.as_str();
        Self {
            chain: chain.clone(),
            status: metrics.chain_status(key, ["fresh", "stale", "unavailable"]),
            newest_block: metrics.newest_block(key),
            data_age: metrics.data_age(key),
            head_age: metrics.head_age(key),
            base_fee: metrics.base_fee(key),
            next_base_fee: metrics.next_base_fee(key),
            suggested_base_fee: metrics.suggested_base_fee(key),
            medium: metrics.tier(key, "medium"),
            high: metrics.tier(key, "high"),
        }
    }

    fn read(&self) {
        let now = Instant::now();
        let last_seen = self.chain.last_seen();
        let since = |instant| now.saturating_duration_since(instant).as_secs_f64();
        self.data_age.set(last_seen.map_or(f64::NAN, |seen| since(seen.observed)));
        self.head_age.set(last_seen.map_or(f64::NAN, |seen| since(seen.head_moved)));
        self.newest_block.set(self.chain.newest_block().map_or(f64::NAN, nearest));

        let known = self.chain.read_blocks(1).ok();
        self.status.set(match &known {
            Some((reading, _)) if reading.is_stale => 1,
            Some(_) => 0,
            None => 2,
        });
        let newest = known.as_ref().and_then(|(_, excerpt)| excerpt.blocks.last());
        self.base_fee.set(newest.map(|block| block.base_fee));
        let market = known.as_ref().map(|(reading, _)| &reading.observation.market);
        self.next_base_fee.set(market.and_then(|market| market.next_base_fee));
        let suggestion = market.map(|market| &market.suggestion);
        self.suggested_base_fee.set(suggestion.map(|suggestion| suggestion.base_fee_per_gas));
        for ([tip, max_fee], tier) in [
            (&self.medium, suggestion.map(|suggestion| suggestion.medium)),
            (&self.high, suggestion.map(|suggestion| suggestion.high)),
        ] {
            tip.set(tier.map(|tier| tier.max_priority_fee_per_gas));
            max_fee.set(tier.map(|tier| tier.max_fee_per_gas));
        }
    }
}

struct OfUpstreams {
    /// Upstreams know the metrics that this belongs to.
    upstreams: Weak<Upstreams>,
    /// By place: well, resting or barred, and whether it served another chain.
    gauges: Vec<(OneOf<3>, Gauge)>,
}

impl OfUpstreams {
    fn new(chain: &str, upstreams: &Arc<Upstreams>, metrics: &Metrics) -> Self {
        let count = upstreams.conditions(Instant::now()).count();
        let gauges = |place| {
            let standing = metrics.standing(chain, place, ["well", "resting", "barred"]);
            (standing, metrics.wrong_chain(chain, place))
        };
        Self { upstreams: Arc::downgrade(upstreams), gauges: (0..count).map(gauges).collect() }
    }

    fn read(&self) {
        let Some(upstreams) = self.upstreams.upgrade() else { return };
        for ((standing, wrong_chain), condition) in
            self.gauges.iter().zip(upstreams.conditions(Instant::now()))
        {
            standing.set(match condition.standing {
                Standing::Well => 0,
                Standing::Resting => 1,
                Standing::Barred => 2,
            });
            wrong_chain.set(u32::from(condition.serves_another_chain));
        }
    }
}
