//! Messages of webhooks.

use serde::Serialize;
use serde_json::json;

use super::rule::AlertState;
use super::section::{Format, Side};
use crate::fees::Wei;
use crate::fees::gwei::rounded_price;

/// A change of an alert's state.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AlertMessage {
    /// Key of the chain.
    pub(super) chain: String,
    pub(super) chain_name: String,
    pub(super) state: AlertState,
    pub(super) limit: Wei,
    /// Expected medium price.
    pub(super) price_per_gas: Wei,
    pub(super) newest_block: u64,
    pub(super) observed_at: String,
    /// Reasons to doubt the price, as in `X-Doubt`.
    pub(super) doubts: Vec<&'static str>,
    #[serde(skip)]
    pub(super) side: Side,
}

impl AlertMessage {
    /// Returns the body of the request.
    pub(super) fn body(&self, format: Format) -> Vec<u8> {
        let body = match format {
            Format::Json => json!(self),
            Format::Slack | Format::Telegram => json!({ "text": self.text() }),
            Format::Discord => json!({ "content": self.text() }),
        };
        body.to_string().into_bytes()
    }

    fn text(&self) -> String {
        let [price, limit] = [self.price_per_gas, self.limit].map(|Wei(wei)| rounded_price(wei));
        let name = &self.chain_name;
        let side = match self.side {
            Side::Below => "at or below",
            Side::Above => "at or above",
        };
        let no_longer = match self.state {
            AlertState::Reached => "",
            AlertState::Over => "no longer ",
        };
        let doubts = match self.doubts.join(", ") {
            none if none.is_empty() => none,
            doubts => format!(" This price is in doubt: {doubts}."),
        };
        format!("Gas on {name} costs {price}: {no_longer}{side} {limit}.{doubts}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_the_member_that_its_reader_takes() {
        let message = AlertMessage {
            chain: "ronin".into(),
            chain_name: "Ronin".into(),
            state: AlertState::Reached,
            limit: Wei(20_000_000_000),
            price_per_gas: Wei(19_512_345_678),
            newest_block: 1000,
            observed_at: "2026-11-20T17:31:34.123Z".into(),
            doubts: vec![],
            side: Side::Below,
        };
        let body = |format| String::from_utf8(message.body(format)).unwrap();
        let text = "Gas on Ronin costs 19.5 gwei: at or below 20 gwei.";
        assert_eq!(body(Format::Slack), json!({ "text": text }).to_string());
        assert_eq!(body(Format::Telegram), body(Format::Slack));
        assert_eq!(body(Format::Discord), json!({ "content": text }).to_string());
        let all = json!({
            "chain": "ronin", "chain_name": "Ronin", "state": "reached", "limit": "20000000000",
            "price_per_gas": "19512345678", "newest_block": 1000,
            "observed_at": "2026-11-20T17:31:34.123Z", "doubts": [],
        });
        assert_eq!(body(Format::Json), all.to_string());
        let (state, doubts) = (AlertState::Over, vec!["base_fee_leap", "reward_leap"]);
        let over = AlertMessage { state, doubts, side: Side::Above, ..message };
        let text = "Gas on Ronin costs 19.5 gwei: no longer at or above 20 gwei. \
            This price is in doubt: base_fee_leap, reward_leap.";
        assert_eq!(over.text(), text);
    }
}
