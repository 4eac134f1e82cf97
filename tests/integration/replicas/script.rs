//! The script that publishes, asked directly: which of two values stands.

use super::redis::{Redis, Reply};

const SCRIPT: &str = include_str!("../../../src/shared/publish.lua");

/// A slot that is over by any clock, in slots of a second.
const SLOT: u64 = 1_000_000;

/// Publishes for this slot, epoch and newest block; what stands instead.
fn publish(redis: &Redis, slot: u64, epoch: u64, head: u64) -> String {
    let (slot, head) = (format!("{slot:020}"), format!("{head:020}"));
    let epoch = epoch.to_string();
    let command = [
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
    String::from_utf8(redis.say(&command).into_bytes()).unwrap()
}

#[test]
fn what_is_older_or_lower_never_takes_the_place_of_what_is_newer() {
    let redis = Redis::start();
    let slot = |ahead| SLOT + ahead;
    // What is published, in this order, and whether it then stands.
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
        // More than a number of Lua can tell from the one before it.
        (slot(8), 2, u64::MAX - 1, true),
        (slot(9), 2, u64::MAX - 2, false),
        (slot(9), 2, u64::MAX, true),
    ];
    for (slot, epoch, head, stands) in values {
        let told = publish(&redis, slot, epoch, head);
        let beginning = format!("{slot:020} {epoch} {head:020} ");
        let stored = String::from_utf8(redis.say(&["GET", "value"]).into_bytes()).unwrap();
        assert_eq!(stored.starts_with(&beginning), stands, "{beginning}: {stored}");
        assert_eq!(told, if stands { "" } else { &*stored }, "{beginning}");
    }
}

#[test]
fn what_is_none_or_from_a_slot_to_come_is_written_over() {
    let redis = Redis::start();
    let line = |slot: u64| format!("{slot:020} 9 {:020} 1 0a {{}}", 7);
    let to_come = line(u64::MAX / 2);
    for (stored, lives) in [("junk", true), (&*to_come, true), (&*line(SLOT), false)] {
        let mut command = vec!["SET", "value", stored];
        if lives {
            command.extend(["PX", "60000"]);
        }
        redis.say(&command);
        assert_eq!(publish(&redis, SLOT, 0, 1), "", "{stored}");
    }
    redis.say(&["DEL", "value"]);
    redis.say(&["RPUSH", "value", "a list"]);
    assert_eq!(publish(&redis, SLOT, 0, 1), "");
    assert_ne!(redis.say(&["PTTL", "value"]), Reply::Integer(-1));
}
