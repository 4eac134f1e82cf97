use std::time::Duration;

use super::*;
use crate::config::Config;
use crate::fees::{self, Block, Rewards};

fn config(more: &str) -> config::Chain {
    let text = format!("[chains.a]\nchain_id = 7\nrpc_urls = [\"http://localhost\"]\n{more}");
    Config::from_toml(&text).unwrap().chains.remove(0)
}

/// A book of one chain.
fn book(more: &str) -> (Book, Chain, Publisher) {
    let (book, mut publishers) = Book::new(&[config(more)]);
    let chain = book.chain("a").unwrap().clone();
    (book, chain, publishers.remove(0))
}

/// Makes `base_fee` the content of the only block, `newest_block`.
fn publish(publisher: &mut Publisher, newest_block: u64, base_fee: u128) {
    let rewards = Some(Rewards { medium: 1, high: None });
    let blocks = vec![Block { base_fee, gas_used_ratio: None, rewards }];
    let history = FeeHistory::new(newest_block, blocks, None).unwrap();
    let market = fees::price(&history, &publisher.chain().config().pricing).unwrap();
    publisher.publish(&history, market);
}

const GWEI: u128 = 1_000_000_000;

#[test]
fn a_chain_is_found_by_key_and_by_decimal_id() {
    let (book, _, _) = book("");
    assert_eq!(book.chain("a").unwrap().config().chain_id, 7);
    assert_eq!(book.chain("7").unwrap().config().chain_id, 7);
    for unknown in ["", "A", "07", "+7", "0x7", "8"] {
        assert!(book.chain(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn nothing_is_served_before_the_first_publication() {
    let (book, chain, mut publisher) = book("");
    assert_eq!(chain.read().unwrap_err(), Unavailable::NoData);
    assert!(!book.has_read_any());
    publish(&mut publisher, 5, GWEI);
    assert!(chain.read().is_ok());
    assert!(book.has_read_any());
}

#[test]
fn the_body_is_the_five_members_in_order() {
    let (_, chain, mut publisher) = book("name = \"A chain\"");
    publish(&mut publisher, 5, GWEI);
    let quote = Arc::clone(&chain.read().unwrap().observation.quote);
    assert_eq!(
        std::str::from_utf8(quote.body()).unwrap(),
        "{\"chain_name\":\"A chain\",\"type\":\"eip-1559\",\"base_fee_per_gas\":\"2000000000\",\
         \"medium\":{\"max_priority_fee_per_gas\":\"20000000000\",\"max_fee_per_gas\":\"22000000000\"},\
         \"high\":{\"max_priority_fee_per_gas\":\"24000000000\",\"max_fee_per_gas\":\"26000000000\"}}"
    );
}

#[test]
fn what_did_not_change_is_not_serialised_again() {
    let (_, chain, mut publisher) = book("");
    let quote = || Arc::clone(&chain.read().unwrap().observation.quote);
    publish(&mut publisher, 5, GWEI);
    let first = quote();
    publish(&mut publisher, 5, GWEI);
    assert!(Arc::ptr_eq(&first, &quote()));
    publish(&mut publisher, 6, GWEI);
    let same_body = quote();
    assert_eq!(same_body.newest_block(), 6);
    assert_eq!(same_body.body().as_ptr(), first.body().as_ptr());
    publish(&mut publisher, 6, 2 * GWEI);
    assert_ne!(quote().body(), first.body());
    assert_ne!(quote().etag(), first.etag());
}

#[test]
fn subscribers_hear_of_a_new_block_and_of_a_new_body_and_of_nothing_else() {
    let (_, chain, mut publisher) = book("");
    let mut quotes = chain.subscribe();
    publish(&mut publisher, 5, GWEI);
    assert!(quotes.has_changed().unwrap());
    assert_eq!(quotes.borrow_and_update().as_ref().unwrap().newest_block(), 5);
    publish(&mut publisher, 5, GWEI);
    assert!(!quotes.has_changed().unwrap());
    publish(&mut publisher, 6, GWEI);
    assert!(quotes.has_changed().unwrap());
    quotes.mark_unchanged();
    publish(&mut publisher, 6, 2 * GWEI);
    assert!(quotes.has_changed().unwrap());
}

/// Waits until `found` gives something; the clock is the event.
fn within_ten_seconds<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not happen within ten seconds");
        std::thread::yield_now();
    }
}

#[test]
fn a_value_is_served_until_max_age_and_an_update_renews_it() {
    let (_, chain, mut publisher) = book("block_time = \"10ms\"\nmax_age = \"2100ms\"");
    publish(&mut publisher, 5, GWEI);
    let first = Instant::now();
    within_ten_seconds(|| (first.elapsed() > Duration::from_millis(1500)).then_some(()));
    publish(&mut publisher, 6, GWEI);
    let second = Instant::now();
    let gone = within_ten_seconds(|| {
        let asked = Instant::now();
        match chain.read() {
            Ok(reading) => {
                assert!(reading.age <= Duration::from_millis(2100), "{:?}", reading.age);
                None
            }
            Err(why) => Some((why, asked)),
        }
    });
    assert_eq!(gone.0, Unavailable::Expired);
    assert!(gone.1 - second >= Duration::from_millis(2050), "{:?}", gone.1 - second);
}

#[test]
fn old_data_is_labelled_before_it_goes() {
    let (_, chain, mut publisher) =
        book("block_time = \"10ms\"\nmax_age = \"10s\"\nstall_after = \"0s\"");
    publish(&mut publisher, 5, GWEI);
    assert!(!chain.read().unwrap().is_stale);
    let stale =
        within_ten_seconds(|| Some(chain.read().unwrap()).filter(|reading| reading.is_stale));
    assert!(stale.age > Duration::from_secs(2));
}

#[test]
fn a_standing_head_is_labelled_although_replies_keep_coming() {
    let (_, chain, mut publisher) =
        book("block_time = \"10ms\"\nmax_age = \"10s\"\nstall_after = \"100ms\"");
    publish(&mut publisher, 5, GWEI);
    let stale = within_ten_seconds(|| {
        publish(&mut publisher, 5, GWEI);
        Some(chain.read().unwrap()).filter(|reading| reading.is_stale)
    });
    assert!(stale.age < Duration::from_secs(2));
    assert!(stale.head_age >= Duration::from_millis(100));
    publish(&mut publisher, 6, GWEI);
    assert!(!chain.read().unwrap().is_stale);
}
