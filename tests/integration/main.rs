//! Tests of the service from outside, on real sockets, with recorded data. They need nothing but Rust.

#![expect(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test ends at the first unexpected value"
)]

mod arrows;
mod badge;
mod block_age;
mod cache_headers;
mod chain_parameters;
mod command;
mod command_line;
mod corpus;
mod cost;
mod delegation_api;
mod drop_in;
mod fee_trend;
mod floors;
mod freshness_log;
mod gauges;
mod history_database;
mod history_refill;
mod history_rows;
mod horizon;
mod http;
mod lifecycle;
mod listener;
mod logs;
mod memory;
mod mistakes;
mod node_faults;
mod own_fee;
mod polling;
mod properties;
mod read_budget;
mod reads;
mod recorded_node_replies;
mod reference_pricing;
mod reward_readings;
#[expect(dead_code, reason = "tests/system uses the rest")]
#[path = "../rig/rig.rs"]
mod rig;
mod rpc_bodies;
mod score;
mod secrets;
mod stream;
mod switched_off;
#[expect(unreachable_pub, reason = "the library of the fuzz targets exports them")]
#[path = "../../fuzz/targets.rs"]
mod targets;
mod traces;
mod usd_feed;
mod verification;
mod wait;
mod webhooks;

use rig::{
    delegation_service, fixtures, http_client, http_message, logged_process, mock_collector,
    mock_delegate_api, mock_node, mock_upstream, pages, process, raw_client, test_server,
    webhook_receiver,
};
