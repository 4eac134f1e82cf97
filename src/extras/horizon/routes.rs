//! `GET /v1/{chain}/fees`.

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::estimator::{Cell, CellKey, LONGEST, MIN_BLOCKS, PROBABILITIES, WITHIN};
use super::{Matrix, Records};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{snapshot_response, tagged_json};
use crate::api::problems;
use crate::api::render_cache::{ServedState, json_bytes};
use crate::extras::quotes::KeptCount;
use crate::fees::{Wei, percentile_numbers};
use crate::http::problem::Problem;
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::{ServableSnapshot, StoredChain, Unavailable};

/// Number of judged pairs from which their share says something.
pub(super) const MIN_JUDGED: u32 = 100;

/// One cell of the matrix: both parameters, or none.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FeesQuery {
    /// Number of blocks. The response has the largest one of the matrix that is not above it.
    #[param(nullable = false, minimum = 1, maximum = 25, example = 3)]
    within: Option<u64>,
    /// Share of cases. The response has the smallest one of the matrix that is not below it.
    #[param(nullable = false, minimum = 0.5, maximum = 0.99, example = 0.95)]
    probability: Option<f64>,
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
    /// Share of the last hour's pairs, at most 1,000, that one of the blocks after them would have included. `null` before
    /// 100 were judged.
    #[schema(required)]
    kept: Option<f64>,
    /// Pairs of the last hour whose blocks are known.
    judged: u32,
}

/// Fees that one of the next blocks includes with a probability
///
/// The whole matrix, or one cell of it. Each cell is graded by the blocks that followed: `kept` is the share in which it
/// held. A restart begins to count anew. Before 200 blocks are known the response is 503 `no_data`.
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
    let wanted = query.cell()?;
    let read = chain.read_together(|blocks| {
        let current = chain.servable_snapshot()?;
        let state = ServedState::new(&chain, &current);
        let body = records.bodies.get_or_render(&chain, state, wanted, || {
            let (matrix, counts) = records.read(&chain, blocks);
            Some(json_bytes(&FeesBody::new(&chain, &current, &*matrix?, &counts, wanted)))
        });
        Ok((current, body))
    });
    let (current, body) = read.map_err(|reason| problems::unavailable(&chain, reason))?;
    let body = body.ok_or_else(|| {
        let detail = format!("fewer than {MIN_BLOCKS} blocks and their tips are known");
        problems::unavailable(&chain, Unavailable::NoData).with_detail(detail)
    })?;
    Ok(snapshot_response(&chain, &current, tagged_json(body)))
}

impl FeesQuery {
    /// Returns the number of blocks and the percentage of the cell that promises what is asked for; `None`: all cells are
    /// wanted.
    fn cell(&self) -> Result<Option<CellKey>, Problem> {
        let (within, probability) = match (self.within, self.probability) {
            (None, None) => return Ok(None),
            (Some(within), Some(probability)) => (within, probability),
            (Some(_), None) => return Err(invalid_parameter("probability", NOT_BOTH)),
            (None, Some(_)) => return Err(invalid_parameter("within", NOT_BOTH)),
        };
        let blocks = usize::try_from(within).ok().filter(|blocks| *blocks <= LONGEST);
        let row = blocks.and_then(|blocks| WITHIN.into_iter().rfind(|within| *within <= blocks));
        let row = row.ok_or_else(|| {
            invalid_parameter("within", format_args!("must be from 1 to {LONGEST}"))
        })?;
        let mut columns = PROBABILITIES.into_iter();
        let column = columns.find(|percent| share(*percent) >= probability);
        let column = column.filter(|_| probability >= share(PROBABILITIES[0]));
        let column =
            column.ok_or_else(|| invalid_parameter("probability", "must be from 0.5 to 0.99"))?;
        Ok(Some((row, column)))
    }
}

const NOT_BOTH: &str = "is missing: `within` and `probability` belong together";

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
    ) -> Self {
        let base_fee = current.snapshot.market.newest_known_base_fee;
        let is_wanted =
            |cell: &Cell| wanted.is_none_or(|wanted| wanted == (cell.within, cell.percent));
        let cells = matrix.fees.cells().zip(counts).filter(|(cell, _)| is_wanted(cell));
        Self {
            chain_name: chain.config().name(),
            chain_id: chain.config().chain_id,
            newest_block: current.snapshot.newest_block,
            rewards_to: matrix.rewards_to,
            percentile: percentile_numbers([matrix.percentile]).into_iter().next(),
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
