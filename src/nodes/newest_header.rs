//! The newest header of a node, which tells how old its head is.

use std::time::{Duration, SystemTime};

use alloy_primitives::{Address, hex};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Error, JsonRpcClient, NodeEndpoint, quantity};
use crate::fees::{BaseFeeRule, HeadReading, HeaderTime};
use crate::observe::clock;

/// The year 9999.
const MAX_UNIX_SECONDS: u64 = 253_402_300_799;

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    number: &'a RawValue,
    #[serde(borrow)]
    timestamp: &'a RawValue,
    #[serde(default, borrow, rename = "extraData")]
    extra_data: Option<&'a RawValue>,
    #[serde(default, borrow)]
    miner: Option<&'a RawValue>,
}

impl Header<'_> {
    /// Returns the number, and the time in seconds since 1970; `None`: they are no quantities, or too large.
    fn values(&self) -> Option<(u64, u64)> {
        let number = quantity::parse(self.number.get()).ok()?.try_into().ok()?;
        let unix_seconds: u64 = quantity::parse(self.timestamp.get()).ok()?.try_into().ok()?;
        // A time beyond it cannot be shown.
        (unix_seconds <= MAX_UNIX_SECONDS).then_some((number, unix_seconds))
    }

    /// Returns how an OP Stack chain moves its base fee.
    fn rule(&self) -> Option<BaseFeeRule> {
        let extra_data: String = serde_json::from_str(self.extra_data?.get()).ok()?;
        BaseFeeRule::from_extra_data(&hex::decode(extra_data).ok()?)
    }

    fn fee_recipient(&self) -> Option<Address> {
        let miner: String = serde_json::from_str(self.miner?.get()).ok()?;
        miner.parse().ok()
    }
}

/// Parses a header that was read `now`, since 1970 by the wall clock; `None`: it is not a header.
pub(crate) fn parse(json: &[u8], now: Duration) -> Option<HeaderTime> {
    let header: Header<'_> = serde_json::from_slice(json).ok()?;
    let (number, unix_seconds) = header.values()?;
    let time = HeaderTime::new(number, unix_seconds, clock::now(), now);
    Some(HeaderTime { rule: header.rule(), fee_recipient: header.fee_recipient(), ..time })
}

/// Requests the newest header of `node`. If it returns none, asks whether it syncs. A node that has neither method is
/// [`HeadReading::Unknown`]; `None`: no reply came.
pub(super) async fn read(client: &JsonRpcClient, node: &NodeEndpoint) -> Option<HeadReading> {
    let (params, limit) = (json!(["latest", false]), JsonRpcClient::HEADER_BODY_LIMIT);
    let header = client.call_for_poll(node, "eth_getBlockByNumber", &params, limit).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    match header {
        Ok(header) => {
            if let Some(header) = parse(header.get().as_bytes(), now) {
                return Some(HeadReading::Header(header));
            }
        }
        Err(error) if is_without_header(&error) => {}
        Err(_) => return None,
    }
    match client.call_for_poll(node, "eth_syncing", &json!([]), limit).await {
        Ok(progress) if progress.get().trim_start().starts_with('{') => Some(HeadReading::Syncing),
        Ok(_) => Some(HeadReading::Unknown),
        Err(error) => is_without_header(&error).then_some(HeadReading::Unknown),
    }
}

/// Returns true if the node replied, but without what was requested.
fn is_without_header(error: &Error) -> bool {
    matches!(
        error,
        Error::Unsupported | Error::Node(..) | Error::BeyondHead | Error::InvalidReply(_)
    ) || matches!(error, Error::TooLarge(_) | Error::Status(..) | Error::Refused(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_after_the_year_9999_is_no_header() {
        let is_header = |seconds: u64| {
            let json = json!({"number": "0x1", "timestamp": format!("{seconds:#x}")});
            parse(json.to_string().as_bytes(), Duration::ZERO).is_some()
        };
        assert_eq!([MAX_UNIX_SECONDS, MAX_UNIX_SECONDS + 1].map(is_header), [true, false]);
    }
}
