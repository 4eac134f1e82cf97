//! Members of the fee market: where the price stands among those of the last day.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::{PartialSchema, ToSchema};

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
    MarketMember {
        schema: LevelMembers::schema,
        referenced: LevelMembers::schemas,
        members: Box::new(move |chain, current| members(trends.trend(chain).level(current))),
        example: members(Some(normal)),
    }
}

fn members(level: Option<PriceLevel>) -> Map<String, Value> {
    let members = LevelMembers {
        level: level.map(|it| it.level),
        level_deviation: level.and_then(|it| it.deviation),
    };
    match serde_json::to_value(members) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
