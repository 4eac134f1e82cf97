//! Tests of the Lua script that publishes records.

use redis::Value;

use super::redis::Redis;

const SCRIPT: &str = include_str!("../../../src/extras/replicas/publish.lua");

/// Current slot of Redis.
const CURRENT: u64 = 1_000_000;

/// Publishes a record of this slot, and returns the one that is stored afterwards.
fn publish(redis: &Redis, slot: u64, record: &str) -> String {
    let (slot, current) = (slot.to_string(), CURRENT.to_string());
    redis.command(&["EVAL", SCRIPT, "1", "record", &slot, &current, record, "60000", "channel"]);
    redis.read(&["GET", "record"])
}

fn record(slot: u64, name: &str) -> String {
    format!("{{\"slot\":{slot},\"name\":\"{name}\"}}")
}

#[test]
fn record_of_an_earlier_or_the_same_slot_is_not_stored() {
    let redis = Redis::start();
    for (slot, name, is_stored) in [
        (CURRENT - 5, "first", true),
        (CURRENT - 6, "earlier", false),
        (CURRENT - 5, "second", false),
        (CURRENT - 4, "next", true),
        (CURRENT, "newest", true),
        (CURRENT - 1, "late", false),
    ] {
        let record = record(slot, name);
        assert_eq!(publish(&redis, slot, &record) == record, is_stored, "{record}");
    }
    assert_ne!(redis.command(&["PTTL", "record"]), Value::Int(-1));
}

#[test]
fn invalid_records_and_future_slots_are_overwritten() {
    let redis = Redis::start();
    let valid = record(CURRENT - 1, "valid");
    for stored in ["junk", "", "{\"slot\":\"9\",", &record(CURRENT + 1, "future")] {
        redis.command(&["SET", "record", stored]);
        assert_eq!(publish(&redis, CURRENT - 1, &valid), valid, "{stored}");
    }
    redis.command(&["DEL", "record"]);
    redis.command(&["RPUSH", "record", "a list"]);
    assert_eq!(publish(&redis, CURRENT - 1, &valid), valid);
    assert_ne!(redis.command(&["PTTL", "record"]), Value::Int(-1));
}
