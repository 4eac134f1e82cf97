use super::*;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::config::Config;
use crate::config::tests::chain_toml;
use crate::fees::tests::history_of;
use crate::fees::{BaseFeeRule, HeaderTime, Pricing};
use crate::nodes::{JsonRpcClient, ReadError, ServiceReads};
use crate::store::{ChainStore, ServableSnapshot, StaleReason, Timestamps};
use reporter::PollError;

/// Age of the first record in the tests, so that later ones can be newer.
const FIRST_AGE: u64 = 30;

/// A node that answers no read.
#[derive(Debug)]
struct NoReads;

#[async_trait]
impl ServiceReads for NoReads {
    async fn read_for_service(
        &self,
        _: &str,
        _: String,
        _: Duration,
    ) -> Result<Option<Bytes>, ReadError> {
        Err(ReadError::Unavailable)
    }
}

struct Harness {
    poller: Poller,
    now: Instant,
    /// Age of the newest block in the records.
    head: HeadReading,
}

impl Harness {
    /// Poller of a chain with a block every 10 s and a `max_age` of 1 min, without a published head.
    fn new() -> Self {
        let more = "block_time = \"10s\"\nmax_age = \"1m\"\npricing.ask_interval = 0";
        let config = Config::from_toml(&chain_toml("a", 7, more), &[]).unwrap();
        let metrics = Metrics::new();
        let client = JsonRpcClient::new(&config).unwrap();
        let upstreams = ChainUpstreams::for_chains(&client, &config.chains).remove(0);
        let publisher = ChainStore::new(&config.chains).1.remove(0);
        let (asks, _) = AskReadings::new(&publisher, &upstreams, Arc::new(NoReads), &metrics);
        let poller = Poller::new(upstreams, publisher, asks, metrics);
        Self { poller, now: Instant::now(), head: HeadReading::Unread }
    }

    /// Poller that has published block 100, polled [`FIRST_AGE`] seconds ago.
    fn with_block_100() -> Self {
        let mut harness = Self::new();
        assert_eq!(harness.merge(100, FIRST_AGE), AdoptOutcome::Adopted);
        harness
    }

    /// Merges a record of this head, polled `age` seconds ago.
    fn merge(&mut self, head: u64, age: u64) -> AdoptOutcome {
        self.merge_reward(head, age, 1)
    }

    fn merge_reward(&mut self, head: u64, age: u64, medium: u128) -> AdoptOutcome {
        let history = history_of(head, &[1], Some([medium, 0]));
        let observed_at = self.now.checked_sub(Duration::from_secs(age)).unwrap();
        let timestamps = Timestamps { observed_at, head_changed_at: observed_at };
        self.poller.merge_remote(&SharedFeeHistory {
            slot: 0,
            history,
            timestamps,
            head: self.head,
            doubts: Vec::new(),
            reading: None,
        })
    }

    /// Published head, and seconds since it was polled.
    fn published(&self) -> Option<(u64, u64)> {
        let chain = self.poller.publisher.chain();
        let age = |timestamps: Timestamps| {
            self.now.saturating_duration_since(timestamps.observed_at).as_secs()
        };
        chain.newest_block().zip(chain.timestamps().map(age))
    }

    /// A header that was read now, of a block of this age.
    fn header(&self, number: u64, age: u64) -> HeaderTime {
        let now = Duration::from_secs(2_000_000_000);
        HeaderTime::new(number, 2_000_000_000 - age, self.now, now)
    }

    fn served(&self) -> ServableSnapshot {
        self.poller.publisher.chain().servable_snapshot().unwrap()
    }
}

#[test]
fn newer_record_of_another_process_is_published_with_its_own_time() {
    let mut harness = Harness::with_block_100();
    assert_eq!(harness.published(), Some((100, FIRST_AGE)));
    // A higher head is published even if it was polled earlier.
    for (head, age) in [(100, 25), (101, 20), (102, FIRST_AGE + 5)] {
        assert_eq!(harness.merge(head, age), AdoptOutcome::Adopted);
        assert_eq!(harness.published(), Some((head, age)));
    }
}

#[test]
fn a_record_is_older_than_the_later_block_whose_header_came_with_it() {
    for (number, is_old) in [(100, false), (110, false), (111, true), (5000, true)] {
        let mut harness = Harness::new();
        harness.head = HeadReading::Header(harness.header(number, 0));
        assert_eq!(harness.merge(100, 1), AdoptOutcome::Adopted);
        let reason = is_old.then_some(StaleReason::OldBlock);
        assert_eq!(harness.served().stale_reason, reason, "a header of block {number}");
    }
}

#[test]
fn a_far_head_is_published_after_a_leap_if_its_header_is_of_now() {
    for (number, age, is_published) in
        [(4000, 0, true), (4001, 90, true), (4000, 101, false), (3999, 0, false)]
    {
        let mut harness = Harness::with_block_100();
        harness.head = HeadReading::Header(harness.header(number, age));
        assert_eq!(harness.merge(4000, 2), AdoptOutcome::Implausible);
        harness.poller.publisher.chain().record_leap(clock::now());
        assert_eq!(harness.merge(4000, 1) == AdoptOutcome::Adopted, is_published, "{number} {age}");
    }
}

#[test]
fn record_that_is_not_newer_or_plausible_changes_nothing() {
    for (head, age, expected) in [
        // The same head, polled at the same time and before.
        (100, FIRST_AGE, AdoptOutcome::Duplicate),
        (100, FIRST_AGE + 5, AdoptOutcome::Duplicate),
        // A slightly lower head, whenever it was polled.
        (99, FIRST_AGE + 5, AdoptOutcome::Older),
        (95, 1, AdoptOutcome::Older),
        // A much lower one, which an own upstream may confirm.
        (90, 1, AdoptOutcome::Implausible),
        // One of an earlier time, which no number of readings confirms.
        (90, FIRST_AGE + 5, AdoptOutcome::Older),
        // Expired, although its head is higher.
        (101, 60, AdoptOutcome::Older),
        // Two minutes of blocks within half a minute.
        (10_000, 1, AdoptOutcome::Implausible),
    ] {
        let mut harness = Harness::with_block_100();
        assert_eq!(harness.merge(head, age), expected, "{head} {age}");
        assert_eq!(harness.published(), Some((100, FIRST_AGE)), "{head} {age}");
    }
}

#[test]
fn record_of_a_node_behind_is_stale_until_a_current_one_replaces_it() {
    let mut harness = Harness::new();
    // The header of the second process's node did not come in time.
    for (head, reading) in
        [(100, HeadReading::Syncing), (101, HeadReading::Unread), (102, HeadReading::Syncing)]
    {
        harness.head = reading;
        assert_eq!(harness.merge(head, 105 - head), AdoptOutcome::Adopted);
        assert_eq!(harness.served().stale_reason, Some(StaleReason::OldBlock), "{reading:?}");
    }
    harness.head = HeadReading::Header(harness.header(0, 5));
    assert_eq!(harness.merge(8000, 2), AdoptOutcome::Adopted);
    assert_eq!((harness.published(), harness.served().stale_reason), (Some((8000, 2)), None));
    harness.head = HeadReading::Unread;
    assert_eq!(harness.merge(8001, 2), AdoptOutcome::Adopted);
    assert_eq!((harness.published(), harness.served().stale_reason), (Some((8001, 2)), None));
    // The node behind cannot win by repetition.
    harness.head = HeadReading::Header(harness.header(0, 7200));
    for head in 101..110 {
        assert_eq!(harness.merge(head, 1), AdoptOutcome::Implausible, "{head}");
    }
    assert_eq!(harness.published(), Some((8001, 2)));
}

#[test]
fn record_without_a_price_is_rejected() {
    let mut harness = Harness::with_block_100();
    assert_eq!(harness.merge_reward(101, 1, u128::MAX), AdoptOutcome::Rejected);
    assert_eq!(harness.published(), Some((100, FIRST_AGE)));
}

#[test]
fn announced_blocks_up_to_128_ahead_are_plausible() {
    let is_plausible = |harness: &Harness, number| harness.poller.is_plausible_new_block(number);
    for number in [0, 100, u64::MAX] {
        assert!(is_plausible(&Harness::new(), number), "{number}");
    }
    let harness = Harness::with_block_100();
    for (number, expected) in
        [(0, false), (100, false), (101, true), (228, true), (229, false), (u64::MAX, false)]
    {
        assert_eq!(is_plausible(&harness, number), expected, "{number}");
    }
}

#[test]
fn records_are_priced_by_the_rule_of_the_last_header() {
    let mut harness = Harness::with_block_100();
    let denominator = |harness: &Harness| {
        let denominators = harness.served().snapshot.market.chain_parameters.denominators;
        denominators.map(|denominators| denominators.full_block.get())
    };
    assert_eq!(denominator(&harness), None);
    let rule = BaseFeeRule::from_extra_data(&[0, 0, 0, 0, 250, 0, 0, 0, 6]);
    harness.head = HeadReading::Header(HeaderTime { rule, ..harness.header(101, 0) });
    for (head, age) in [(101, 20), (102, 10)] {
        assert_eq!(harness.merge(head, age), AdoptOutcome::Adopted);
    }
    assert_eq!(denominator(&harness), Some(50));
}

#[test]
fn a_genesis_block_without_a_base_fee_is_no_price_of_a_known_chain() {
    let chain =
        |id: u64| Config::from_toml(&chain_toml("a", id, ""), &[]).unwrap().chains.remove(0);
    for (id, newest, base_fee, is_unsynced) in [
        (1, 0, 0, true),
        (137, 0, 0, true),
        (137, 1, 0, false),
        (137, 0, 7, false),
        // A local chain.
        (31_337, 0, 0, false),
    ] {
        let history = history_of(newest, &[base_fee], Some([1, 1]));
        let (chain, parameters) = (chain(id), ChainParameters::from_pricing(&Pricing::default()));
        let outcome = active_poll::price(&history, &chain, &parameters);
        let is_refused = matches!(outcome, Err(PollError::Genesis));
        assert_eq!(is_refused, is_unsynced, "{id} {newest}");
    }
}
