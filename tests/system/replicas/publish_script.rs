//! Tests of the Lua script that publishes values.

use super::redis::{Redis, Reply};

const SCRIPT: &str = include_str!("../../../src/replicas/publish.lua");

/// A past slot, in slots of one second.
const SLOT: u64 = 1_000_000;

/// Publishes a value with this slot, epoch and newest block. Returns "" if it was stored, otherwise the stored value,
/// which has precedence.
fn publish(redis: &Redis, slot: u64, epoch: u64, head: u64) -> String {
    let (slot, head) = (format!("{slot:020}"), format!("{head:020}"));
    let epoch = epoch.to_string();
    let arguments = [
        "EVAL",
        SCRIPT,
        "1",
        "value",
        &slot,
        &epoch,
        &head,
        "0",
        "99999999999999999",
        "0a {}",
        "60000",
        "news",
        "1000000",
        "0",
    ];
    String::from_utf8(redis.command(&arguments).into_bytes()).unwrap()
}

#[test]
fn older_slots_epochs_and_heads_never_replace_newer_values() {
    let redis = Redis::start();
    let slot = |ahead| SLOT + ahead;
    // Slot, epoch and head of each published value, in order, and true if it is stored.
    let values = [
        (slot(5), 1, 100, true),
        (slot(4), 1, 101, false),
        (slot(5), 1, 99, false),
        (slot(6), 1, 99, false),
        (slot(6), 0, 200, false),
        (slot(6), 1, 100, true),
        (slot(7), 2, 10, true),
        (slot(8), 1, 500, false),
        (slot(8), 2, 9, false),
        // Lua numbers are doubles and cannot distinguish these heads.
        (slot(8), 2, u64::MAX - 1, true),
        (slot(9), 2, u64::MAX - 2, false),
        (slot(9), 2, u64::MAX, true),
    ];
    for (slot, epoch, head, is_stored) in values {
        let returned = publish(&redis, slot, epoch, head);
        let beginning = format!("{slot:020} {epoch} {head:020} ");
        let stored = String::from_utf8(redis.command(&["GET", "value"]).into_bytes()).unwrap();
        assert_eq!(stored.starts_with(&beginning), is_stored, "{beginning}: {stored}");
        assert_eq!(returned, if is_stored { "" } else { &*stored }, "{beginning}");
    }
}

#[test]
fn invalid_values_and_future_slots_are_overwritten() {
    let redis = Redis::start();
    let value = |slot: u64| format!("{slot:020} 9 {:020} 1 0a {{}}", 7);
    let future = value(u64::MAX / 2);
    for (stored, has_ttl) in [("junk", true), (&*future, true), (&*value(SLOT), false)] {
        let mut arguments = vec!["SET", "value", stored];
        if has_ttl {
            arguments.extend(["PX", "60000"]);
        }
        redis.command(&arguments);
        assert_eq!(publish(&redis, SLOT, 0, 1), "", "{stored}");
    }
    redis.command(&["DEL", "value"]);
    redis.command(&["RPUSH", "value", "a list"]);
    assert_eq!(publish(&redis, SLOT, 0, 1), "");
    assert_ne!(redis.command(&["PTTL", "value"]), Reply::Integer(-1));
}
