//! Tests of the service from outside, on real sockets, with recorded data. They need nothing but Rust.

#![expect(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test ends at the first unexpected value"
)]

mod activation;
mod arrows;
mod badge;
mod block_age;
mod cache_headers;
mod calibrated;
mod callers_fee;
mod chain_parameters;
mod chart;
mod command;
mod command_line;
mod corpus;
mod delegation_api;
#[expect(dead_code, reason = "tests/system uses the rest")]
#[path = "../rig/delegation_service.rs"]
mod delegation_service;
mod drop_in;
mod failover;
mod fee_trend;
#[path = "../rig/fixtures.rs"]
mod fixtures;
mod floors;
mod freshness_log;
mod gauges;
mod history_database;
mod history_refill;
mod history_rows;
mod hostile_replies;
mod http;
#[path = "../rig/http_client.rs"]
mod http_client;
#[path = "../rig/http_message.rs"]
mod http_message;
mod lifecycle;
mod listener;
#[expect(dead_code, reason = "tests/system uses the rest")]
#[path = "../rig/logged_process.rs"]
mod logged_process;
mod logs;
mod lying_nodes;
mod memory;
mod mistakes;
#[path = "../rig/mock_collector.rs"]
mod mock_collector;
#[expect(dead_code, reason = "tests/system uses the rest")]
#[path = "../rig/mock_delegate_api.rs"]
mod mock_delegate_api;
mod mock_delegate_api_tests;
#[expect(dead_code, reason = "tests/system uses the rest")]
#[path = "../rig/mock_node.rs"]
mod mock_node;
#[path = "../rig/mock_upstream.rs"]
mod mock_upstream;
#[expect(dead_code, reason = "tests/system uses the rest")]
#[path = "../rig/pages.rs"]
mod pages;
mod polling;
#[path = "../rig/process.rs"]
mod process;
mod properties;
#[path = "../rig/raw_client.rs"]
mod raw_client;
mod read_budget;
mod reads;
mod recorded_base;
mod recorded_node_replies;
mod redis_replies;
mod rpc_bodies;
mod score;
mod single_prices;
mod stream;
mod switched_off;
#[expect(unreachable_pub, reason = "the library of the fuzz targets exports them")]
#[path = "../../fuzz/targets.rs"]
mod targets;
#[path = "../rig/test_server.rs"]
mod test_server;
mod traces;
mod verification;
