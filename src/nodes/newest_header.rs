//! The newest header of a node, which tells how old its head is, and when it is read.

use std::time::{Duration, Instant, SystemTime};

use alloy_primitives::{Address, hex};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Error, JsonRpcClient, NodeEndpoint, quantity};
use crate::fees::{BaseFeeRule, BlockAge, HeadReading, HeaderTime};
use crate::observe::clock;

/// The last reading of a node's head, and when the next one is due.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadRecord {
    reading: HeadReading,
    /// `None`: it was never read, or it was forgotten, or a call has failed since.
    due_at: Option<Instant>,
    /// When the last reading ended, also a failed one.
    ended_at: Option<Instant>,
}

impl HeadRecord {
    /// Time between two readings.
    const INTERVAL: Duration = Duration::from_secs(30);

    /// Returns the last reading.
    pub(crate) fn reading(&self) -> HeadReading {
        self.reading
    }

    /// Returns true if a reply must not be used without a new reading: at the first use, after an error, and while the
    /// head is old.
    pub(crate) fn is_required(&self, max_age: Option<Duration>) -> bool {
        max_age.is_some()
            && (self.due_at.is_none() || self.reading.block_age(max_age) == BlockAge::Old)
    }

    /// Returns true if the next reading is long overdue at `now`, as after a standstill of the machine.
    pub(crate) fn is_overdue(&self, max_age: Option<Duration>, now: Instant) -> bool {
        let due_at = self.due_at.or(self.ended_at.map(|ended_at| ended_at + Self::INTERVAL));
        let overdue_at = due_at.zip(max_age).map(|(due_at, max_age)| due_at + max_age / 6);
        overdue_at.is_some_and(|overdue_at| now > overdue_at)
    }

    /// Forgets an overdue reading.
    pub(crate) fn forget_overdue(&mut self, max_age: Option<Duration>, now: Instant) {
        if self.is_overdue(max_age, now) {
            self.forget_unless_old(max_age);
        }
    }

    /// Forgets the reading. An old head stays old until the node says otherwise.
    pub(crate) fn forget_unless_old(&mut self, max_age: Option<Duration>) {
        if self.reading.block_age(max_age) != BlockAge::Old {
            *self = Self::default();
        }
    }

    /// Returns true if the last reading ended before `since`, or was never made.
    pub(crate) fn ended_before(&self, since: Instant) -> bool {
        self.ended_at.is_none_or(|ended_at| ended_at < since)
    }

    /// Returns true if a reading is due at `now`.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due_at.is_none_or(|due_at| now >= due_at)
    }

    /// Makes the next reading due, after an error.
    pub(crate) fn mark_due(&mut self) {
        self.due_at = None;
    }

    /// Records a reading that ended at `now`. A failed one, `None`, keeps the last. So does one that says nothing, if the node
    /// has returned a header before: it has the method. If the one that polls wait for is without a result, the next is due at
    /// once, beside them.
    pub(crate) fn record(&mut self, reading: Option<HeadReading>, now: Instant) {
        let has_result = reading.is_some_and(|reading| reading != HeadReading::Unknown);
        let is_first = self.due_at.is_none();
        let interval = if has_result || !is_first { Self::INTERVAL } else { Duration::ZERO };
        self.due_at = Some(now + interval);
        self.ended_at = Some(now);
        let has_headers = self.reading.header().is_some();
        if let Some(reading) = reading.filter(|_| has_result || !has_headers) {
            self.reading = reading;
        }
    }

    /// Records a reading that a poll waited for. A failed one does not put off the next one beside polls, which has more
    /// time.
    pub(crate) fn record_with_poll(&mut self, reading: Option<HeadReading>, now: Instant) {
        if reading.is_some() || self.due_at.is_none() {
            self.record(reading, now);
        } else {
            self.ended_at = Some(now);
        }
    }
}

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

/// Requests the newest header of `node`. If it returns none, asks whether it syncs.
///
/// # Errors
///
/// Returns why no reply came. A node that has neither method is no error.
pub(crate) async fn read(
    client: &JsonRpcClient,
    node: &NodeEndpoint,
) -> Result<HeadReading, Error> {
    let params = json!(["latest", false]);
    let header = client.call_for_header(node, "eth_getBlockByNumber", &params).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    match header {
        Ok(header) => {
            if let Some(header) = parse(header.get().as_bytes(), now) {
                return Ok(HeadReading::Header(header));
            }
        }
        Err(error) if is_without_header(&error) => {}
        Err(error) => return Err(error),
    }
    match client.call_for_header(node, "eth_syncing", &json!([])).await {
        Ok(progress) if progress.get().trim_start().starts_with('{') => Ok(HeadReading::Syncing),
        Ok(_) => Ok(HeadReading::Unknown),
        Err(error) if is_without_header(&error) => Ok(HeadReading::Unknown),
        Err(error) => Err(error),
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
    fn a_node_that_has_returned_a_header_keeps_its_age_while_it_says_nothing() {
        let now = Instant::now();
        let header = |number| {
            HeadReading::Header(HeaderTime::new(number, 1000, now, Duration::from_hours(1)))
        };
        let mut record = HeadRecord::default();
        record.record(Some(HeadReading::Unknown), now);
        assert_eq!(record.reading(), HeadReading::Unknown);
        assert!(record.is_due(now), "it may have failed to answer");
        for silent in [Some(HeadReading::Unknown), None] {
            record.record(Some(header(7)), now);
            record.record(silent, now);
            assert_eq!(record.reading(), header(7));
            assert!(record.is_due(now + HeadRecord::INTERVAL), "it is asked again as usual");
        }
        record.record(Some(HeadReading::Syncing), now);
        assert_eq!(record.reading(), HeadReading::Syncing);
    }

    #[test]
    fn a_failed_first_header_is_due_at_once_without_holding_up_polls() {
        let (now, max_age) = (Instant::now(), Some(Duration::from_mins(1)));
        let mut record = HeadRecord::default();
        for _ in 0..2 {
            assert!(record.is_required(max_age));
            record.record(None, now);
            assert!(record.is_due(now) && !record.is_required(max_age));
            record.record(None, now);
            assert!(!record.is_due(now) && record.is_due(now + HeadRecord::INTERVAL));
            // It is read beside polls then, or with a poll if those stood still.
            for (seconds, is_required) in [(10, false), (11, true)] {
                let later = now + HeadRecord::INTERVAL + Duration::from_secs(seconds);
                record.forget_overdue(max_age, later);
                assert_eq!(record.is_required(max_age), is_required);
            }
            record.mark_due();
        }
    }

    #[test]
    fn a_header_from_before_a_standstill_is_forgotten_also_after_an_error() {
        let (now, max_age) = (Instant::now(), Some(Duration::from_mins(1)));
        let young = HeaderTime::new(7, 3600, now, Duration::from_hours(1));
        for has_failed in [false, true] {
            let mut record = HeadRecord::default();
            record.record(Some(HeadReading::Header(young)), now);
            if has_failed {
                record.mark_due();
            }
            for (seconds, is_known) in [(40, true), (41, false)] {
                record.forget_overdue(max_age, now + Duration::from_secs(seconds));
                assert_eq!(record.reading() != HeadReading::Unread, is_known);
            }
        }
    }

    #[test]
    fn a_header_that_is_too_slow_for_polls_is_read_beside_them() {
        let (now, mut record) = (Instant::now(), HeadRecord::default());
        record.record_with_poll(Some(HeadReading::Syncing), now);
        let due_at = now + HeadRecord::INTERVAL;
        for seconds in [10, 20, 30] {
            record.record_with_poll(None, now + Duration::from_secs(seconds));
            assert!(record.is_due(due_at), "{seconds} s");
        }
        let later = due_at + Duration::from_mins(1);
        record.forget_overdue(Some(Duration::from_mins(1)), later);
        assert_eq!(record.reading(), HeadReading::Syncing);
        record.record(None, due_at);
        assert!(!record.is_due(due_at), "one beside polls has failed");
    }
}
