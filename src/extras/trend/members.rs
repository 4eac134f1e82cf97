//! Members of the fee market: where the price stands among those of the last day.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Level, PriceLevel, Trends};
use crate::api::public_routes::MarketMember;

/// The members.
#[derive(Serialize, ToSchema)]
struct LevelMembers {
    /// Where `expected_price_per_gas.medium` stands among the ten-minute medians of the last 24 hours; `null` before an
    /// hour is known, and while the chain is stale.
    #[schema(required)]
    level: Option<Level>,
    /// How far that price is from the median of the last 24 hours, divided by that median: 0.12 is 12 % above it. `null`
    /// while `level` is, and if the median is 0.
    #[schema(required)]
    level_deviation: Option<f64>,
}

/// Returns the members of the trends.
pub(super) fn for_trends(trends: &Trends) -> MarketMember {
    let trends = trends.clone();
    let normal = PriceLevel { level: Level::Normal, deviation: Some(0.0) };
    MarketMember::new(&LevelMembers::new(Some(normal)), move |chain, current| {
        LevelMembers::new(trends.trend(chain).level(current))
    })
}

impl LevelMembers {
    fn new(level: Option<PriceLevel>) -> Self {
        Self { level: level.map(|it| it.level), level_deviation: level.and_then(|it| it.deviation) }
    }
}
