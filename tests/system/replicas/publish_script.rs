//! Tests of the Lua script that publishes records.

use redis::Value;

use super::redis::Redis;

const SCRIPT: &str = include_str!("../../../src/extras/replicas/publish.lua");

#[test]
fn record_is_stored_unless_one_of_the_same_or_a_later_slot_is() {
    const CURRENT: u64 = 1_000_000;
    let redis = Redis::start();
    let record = |slot: u64, name: &str| format!("{{\"slot\":{slot},\"name\":\"{name}\"}}");
    let publish = |slot: u64, name: &str| {
        let (record, [slot, current]) =
            (record(slot, name), [slot, CURRENT].map(|it| it.to_string()));
        redis.command(&[
            "EVAL", SCRIPT, "1", "record", &slot, &current, &record, "60000", "channel",
        ]);
        assert_ne!(redis.command(&["PTTL", "record"]), Value::Int(-1));
        redis.read::<String>(&["GET", "record"]) == record
    };
    for (slot, name, is_stored) in [
        (CURRENT - 5, "first", true),
        (CURRENT - 6, "earlier", false),
        (CURRENT - 5, "second", false),
        (CURRENT - 4, "next", true),
        (CURRENT, "newest", true),
        (CURRENT - 1, "late", false),
    ] {
        assert_eq!(publish(slot, name), is_stored, "{name}");
    }
    // Anything else gives way: what is no record, a slot that has not begun, and another type.
    for stored in ["junk", "", "{\"slot\":\"9\",", &record(CURRENT + 1, "future")] {
        redis.command(&["SET", "record", stored]);
        assert!(publish(CURRENT - 1, "valid"), "{stored}");
    }
    redis.command(&["DEL", "record"]);
    redis.command(&["RPUSH", "record", "a list"]);
    assert!(publish(CURRENT - 1, "valid"));
}
