//! `GET /v1/{chain}/fees`.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::estimator::{Cell, CellKey, LONGEST, MIN_BLOCKS, PROBABILITIES, WITHIN};
use super::{Matrix, Records};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{snapshot_response, tagged_json};
use crate::api::hold::{Hold, parse_time};
use crate::api::problems;
use crate::api::render_cache::{ServedState, json_bytes};
use crate::extras::quotes::KeptCount;
use crate::fees::amount::parse_digits;
use crate::fees::{HeldBaseFee, Wei, percentile_numbers};
use crate::http::problem::Problem;
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::{ServableSnapshot, StoredChain, Unavailable};

/// Number of judged pairs from which their share says something.
pub(super) const MIN_JUDGED: u32 = 100;

/// Probability in percent with which max fees hold, if none is asked for.
const HOLD_PERCENT: u8 = 95;

/// One cell of the matrix, and how long its max fee has to hold. Without `hold` both of the others are there, or none.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FeesQuery {
    /// Number of blocks from 1 to 25, or a duration from `1s` to `10m`, which counts as the nearest number of blocks. The
    /// response has the largest one of the matrix that is not above it.
    #[param(
        nullable = false,
        pattern = "^([1-9]|1[0-9]|2[0-5]|([0-9]+(ms|s|m))+)$",
        example = "3"
    )]
    within: Option<String>,
    /// Share of cases, at most 0.99 with `within`. The response has the smallest one of the matrix that is not below it.
    #[param(nullable = false, minimum = 0.5, maximum = 0.999, example = 0.95)]
    probability: Option<f64>,
    /// Time for which the max fee covers the base fee with the probability, or with 0.95 if none is given: at most `10m`; `0`
    /// is none. Legacy pricing has no such time.
    #[param(nullable = false, pattern = "^(0|([0-9]+(ms|s|m))+)$", example = "30s")]
    hold: Option<String>,
}

/// A horizon that is asked for.
#[derive(Debug, Clone, Copy)]
enum Within {
    Blocks(usize),
    Time(Duration),
}

/// Fees for horizons and probabilities.
#[derive(Serialize, ToSchema)]
#[schema(as = HorizonFees)]
struct FeesBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    newest_block: u64,
    /// Newest block whose rewards are known. The fees depend on the blocks up to it and on the next base fee.
    rewards_to: u64,
    /// Percentile of a block's rewards that counts as the tip that it requires.
    #[schema(value_type = Option<f64>, required)]
    percentile: Option<serde_json::Number>,
    /// Time in seconds for which the max fees cover the base fee with the probability. Absent without `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hold_seconds: Option<u64>,
    /// Number of past rises of the base fee over that time. Absent without `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    estimated_from: Option<usize>,
    /// By `within`, then by `probability`, both ascending. Fees never rise with `within` and never fall with `probability`.
    cells: Vec<CellBody>,
}

/// Fees for a horizon and a probability. Under legacy pricing both are the gas price.
#[derive(Serialize, ToSchema)]
#[schema(as = HorizonCell)]
struct CellBody {
    /// Number of next blocks of which one includes a transaction with these fees.
    within: usize,
    /// Share of cases in which it does.
    probability: f64,
    /// The tip.
    max_priority_fee_per_gas: Wei,
    max_fee_per_gas: Wei,
    /// Amount per gas that a transaction with these fees pays in the next block, at most its max fee.
    expected_price_per_gas: Wei,
    /// Share of the last hour's pairs without a hold, at most 1,000, that one of the blocks after them would have included.
    /// `null` before 100 were judged.
    #[schema(required)]
    kept: Option<f64>,
    /// Pairs of the last hour whose blocks are known.
    judged: u32,
}

/// Fees that one of the next blocks includes with a probability
///
/// The whole matrix, or one cell of it. Each cell is graded by the blocks that followed: `kept` is the share in which it
/// held. A restart begins to count anew. With `hold` the max fee is for a transaction that is signed some time later.
/// Before 200 blocks are known the response is 503 `no_data`.
#[utoipa::path(
    get,
    path = "/v1/{chain}/fees",
    operation_id = "getFees",
    tag = "Gas",
    params(ChainParam, FeesQuery),
    responses(
        (status = 200, description = "The fees.", body = FeesBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_fees(
    State(records): State<Records>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<FeesQuery>,
) -> Result<Response, Problem> {
    let hold = Hold::parse(query.hold.as_deref(), query.probability, HOLD_PERCENT)?;
    let wanted = query.wanted(hold)?;
    let together = chain.read_together(|blocks| {
        let current = chain.servable_snapshot()?;
        let state = ServedState::new(&chain, &current);
        let compute = || records.read(&chain, blocks);
        let graded = records.graded.get_or_render(&chain, state, (), compute);
        let base_fee = hold.and_then(|it| it.base_fee(chain.config(), &current.snapshot, blocks));
        Ok((current, graded, base_fee))
    });
    let (current, (matrix, counts), base_fee) =
        together.map_err(|reason| problems::unavailable(&chain, reason))?;
    let matrix = matrix.ok_or_else(|| {
        let detail = format!("fewer than {MIN_BLOCKS} blocks and their tips are known");
        problems::unavailable(&chain, Unavailable::NoData).with_detail(detail)
    })?;
    let block_time = current.snapshot.block_time;
    let wanted = wanted.map(|(within, percent)| (within.row(block_time), percent));
    let body = FeesBody::new(&chain, &current, &matrix, &counts, wanted, base_fee);
    Ok(snapshot_response(&chain, &current, tagged_json(json_bytes(&body))))
}

impl FeesQuery {
    /// Returns the horizon and the percentage of the cell that promises what is asked for; `None`: all cells are wanted.
    fn wanted(&self, hold: Option<Hold>) -> Result<Option<(Within, u8)>, Problem> {
        const NOT_BOTH: &str = "is missing: `within` and `probability` belong together";
        let probability = self.probability.or(hold.map(|hold| hold.share.share()));
        let (within, probability) = match (&self.within, probability) {
            (Some(within), Some(probability)) => (within, probability),
            (Some(_), None) => return Err(invalid_parameter("probability", NOT_BOTH)),
            (None, Some(_)) if hold.is_none() => {
                return Err(invalid_parameter("within", NOT_BOTH));
            }
            (None, _) => return Ok(None),
        };
        let within = Within::parse(within).ok_or_else(|| {
            let allowed = format_args!("must be from 1 to {LONGEST} blocks, or from 1s to 10m");
            invalid_parameter("within", allowed)
        })?;
        let mut columns = PROBABILITIES.into_iter();
        let column = columns.find(|percent| share(*percent) >= probability);
        let column = column.ok_or_else(|| {
            invalid_parameter("probability", "must be from 0.5 to 0.99 with `within`")
        })?;
        Ok(Some((within, column)))
    }
}

impl Within {
    /// Parses a number of blocks or a duration.
    fn parse(text: &str) -> Option<Self> {
        if let Some(blocks) = parse_digits(text) {
            return Some(Self::Blocks(blocks)).filter(|_| (1..=LONGEST).contains(&blocks));
        }
        parse_time(text).filter(|time| *time >= Duration::from_secs(1)).map(Self::Time)
    }

    /// Returns the largest number of blocks of the matrix that is not above the horizon. A time is the nearest number.
    fn row(self, block_time: Duration) -> usize {
        let blocks = match self {
            Self::Blocks(blocks) => blocks,
            Self::Time(time) => {
                let halves = (time * 2).as_nanos() / block_time.as_nanos().max(1);
                usize::try_from(halves.div_ceil(2)).unwrap_or(LONGEST)
            }
        };
        let [shortest, ..] = WITHIN;
        WITHIN.into_iter().rfind(|within| *within <= blocks).unwrap_or(shortest)
    }
}

fn share(percent: u8) -> f64 {
    f64::from(percent) / 100.0
}

impl<'a> FeesBody<'a> {
    fn new(
        chain: &'a StoredChain,
        current: &ServableSnapshot,
        matrix: &Matrix,
        counts: &[KeptCount],
        wanted: Option<CellKey>,
        held: Option<HeldBaseFee>,
    ) -> Self {
        let base_fee = current.snapshot.market.newest_known_base_fee;
        let is_wanted =
            |cell: &Cell| wanted.is_none_or(|wanted| wanted == (cell.within, cell.percent));
        let holding = |cell: Cell| {
            let tip = cell.fees.max_priority_fee_per_gas;
            Cell { fees: held.map_or(cell.fees, |held| held.with_tip(tip)), ..cell }
        };
        let cells =
            matrix.fees.cells().map(holding).zip(counts).filter(|(cell, _)| is_wanted(cell));
        Self {
            chain_name: chain.config().name(),
            chain_id: chain.config().chain_id,
            newest_block: current.snapshot.newest_block,
            rewards_to: matrix.rewards_to,
            percentile: percentile_numbers([matrix.percentile]).into_iter().next(),
            hold_seconds: held.map(|held| held.time.as_secs()),
            estimated_from: held.map(|held| held.rises),
            cells: cells.map(|(cell, count)| CellBody::new(&cell, base_fee, *count)).collect(),
        }
    }
}

impl CellBody {
    fn new(cell: &Cell, base_fee: u128, count: KeptCount) -> Self {
        Self {
            within: cell.within,
            probability: share(cell.percent),
            max_priority_fee_per_gas: Wei(cell.fees.max_priority_fee_per_gas),
            max_fee_per_gas: Wei(cell.fees.max_fee_per_gas),
            expected_price_per_gas: Wei(cell.fees.price_at(base_fee)),
            kept: count.share(MIN_JUDGED),
            judged: count.judged,
        }
    }
}
