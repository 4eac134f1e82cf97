use std::time::Duration;

use super::*;
use crate::fees::tests::{GWEI, history_of, market};
use crate::fees::{FeeHistory, HeadReading, HeaderTime, Market, Pricing};
use crate::observe::clock;

/// Creates a store with one chain.
pub(crate) fn store_with_chain(more: &str) -> (ChainStore, StoredChain, Publisher) {
    let (store, mut publishers) = ChainStore::new(&[config::tests::chain(more)]);
    let chain = store.chain("a").unwrap().clone();
    (store, chain, publishers.remove(0))
}

/// Creates a reply with one block, and its market.
pub(crate) fn reply(pricing: &Pricing, number: u64, base_fee: u128) -> (FeeHistory, Market) {
    let history = history_of(number, &[base_fee], Some([1, 0]));
    let market = market(&history, pricing);
    (history, market)
}

/// Publishes `newest_block` with this base fee as the only block.
pub(crate) fn publish(publisher: &mut Publisher, newest_block: u64, base_fee: u128) {
    let (history, market) = reply(&publisher.chain().config().pricing, newest_block, base_fee);
    publisher.publish(Accepted::now(&history, market));
}

#[test]
fn a_chain_is_found_by_key_or_id() {
    let (store, _, _) = store_with_chain("");
    assert_eq!(store.chain("a").unwrap().config().chain_id, 7);
    assert_eq!(store.chain("7").unwrap().config().chain_id, 7);
    for variant in ["A", "0x7", "0X7", "0x007"] {
        assert_eq!(store.chain(variant).unwrap().config().chain_id, 7, "{variant}");
    }
    for unknown in ["", "07", "+7", "0x", "0x+7", "0x8", "8", "ä", &"a".repeat(300)] {
        assert!(store.chain(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn an_unchanged_suggestion_is_not_serialised_again() {
    let (_, chain, mut publisher) = store_with_chain("");
    let snapshot = || chain.servable_snapshot().unwrap().snapshot;
    publish(&mut publisher, 5, GWEI);
    let first = snapshot();
    publish(&mut publisher, 5, GWEI);
    assert_eq!(snapshot().body.as_ptr(), first.body.as_ptr());
    publish(&mut publisher, 6, GWEI);
    let same_body = snapshot();
    assert_eq!(same_body.newest_block, 6);
    assert_eq!(same_body.body.as_ptr(), first.body.as_ptr());
    assert_eq!(same_body.etag, first.etag);
    publish(&mut publisher, 6, 2 * GWEI);
    assert_ne!(snapshot().body, first.body);
    assert_ne!(snapshot().etag, first.etag);
}

#[test]
fn what_was_received_before_a_leap_of_the_clock_is_stale() {
    let (_, chain, mut publisher) = store_with_chain("");
    let stale_reason = || chain.servable_snapshot().unwrap().stale_reason;
    publish(&mut publisher, 5, GWEI);
    let revision = chain.revision();
    chain.record_leap(clock::now());
    assert_eq!(stale_reason(), Some(StaleReason::OldData));
    assert_ne!(chain.revision(), revision, "cached responses end");
    publish(&mut publisher, 5, GWEI);
    assert_eq!(stale_reason(), None);
    // Another process had read it before.
    let observed_at = clock::now();
    chain.record_leap(clock::now());
    let (history, market) = reply(&chain.config().pricing, 6, GWEI);
    let accepted = Accepted::at(observed_at, &history, market);
    publisher.publish(accepted.clone());
    assert_eq!(stale_reason(), Some(StaleReason::OldData));
    publisher.publish(Accepted { received_at: clock::now(), ..accepted });
    assert_eq!(stale_reason(), None);
}

#[test]
fn a_snapshot_is_served_until_max_age_and_stale_before_unless_renewed() {
    let (_, chain, mut publisher) =
        store_with_chain("block_time = \"10ms\"\nmax_age = \"10s\"\nstall_after = \"0s\"");
    let mut served = |number, milliseconds_ago| {
        let (history, market) = reply(&publisher.chain().config().pricing, number, GWEI);
        let observed_at = clock::now().checked_sub(Duration::from_millis(milliseconds_ago));
        publisher.publish(Accepted::at(observed_at.unwrap(), &history, market));
        chain.servable_snapshot().map(|reading| reading.stale_reason)
    };
    assert_eq!(served(5, 1000), Ok(None));
    assert_eq!(served(6, 2000), Ok(Some(StaleReason::OldData)));
    assert_eq!(served(7, 9000), Ok(Some(StaleReason::OldData)));
    assert_eq!(served(8, 10_000), Err(Unavailable::Expired));
    assert_eq!(served(9, 0), Ok(None));
}

#[test]
fn a_confirmed_head_notifies_no_subscriber_and_another_body_does() {
    let (_, chain, mut publisher) = store_with_chain("");
    publish(&mut publisher, 5, GWEI);
    let (latest, before) = (chain.subscribe(), chain.timestamps().unwrap());
    publisher.mark_polled();
    publish(&mut publisher, 5, GWEI);
    assert!(!latest.has_changed().unwrap());
    // The times are seen all the same.
    let confirmed = chain.timestamps().unwrap();
    assert!(confirmed.observed_at > before.observed_at);
    assert_eq!(confirmed.head_changed_at, before.head_changed_at);
    publish(&mut publisher, 5, 2 * GWEI);
    assert!(latest.has_changed().unwrap());
}

#[test]
fn a_block_of_the_future_was_found_now() {
    let (_, chain, mut publisher) = store_with_chain("");
    let (history, market) = reply(&chain.config().pricing, 5, GWEI);
    let (before, year_31000) = (SystemTime::now(), 1 << 40);
    let header = HeaderTime::new(5, year_31000, clock::now(), Duration::ZERO);
    let head = HeadReading::Header(header);
    publisher.publish(Accepted { head, ..Accepted::now(&history, market) });
    let found = chain.newest_snapshot().unwrap().block.last_modified;
    assert!((before..=SystemTime::now()).contains(&found));
}
