//! Tests of the service with other programs: nodes, clients, browsers, Redis, nginx, Prometheus. `tests/run.sh` installs
//! the programs and runs these tests.

#![expect(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test ends at the first unexpected value"
)]

mod alerts;
mod anvil;
mod backtest;
mod balancer;
mod browser_cache;
mod bundler;
mod client_package;
mod conformance;
mod dashboard;
mod delegation_api;
mod delegation_chain;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/delegation_service.rs"]
mod delegation_service;
mod deployment;
mod docs;
mod drop_in;
mod execution_apis;
mod fault_proxy;
mod faults;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/fixtures.rs"]
mod fixtures;
mod guides;
#[path = "../rig/http_client.rs"]
mod http_client;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/http_message.rs"]
mod http_message;
mod integrations;
#[path = "../rig/logged_process.rs"]
mod logged_process;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/mock_delegate_api.rs"]
mod mock_delegate_api;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/mock_node.rs"]
mod mock_node;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/mock_upstream.rs"]
mod mock_upstream;
mod network_edge;
mod new_heads;
mod nginx;
mod nginx_cache;
mod openapi;
mod operations;
#[path = "../rig/pages.rs"]
mod pages;
mod pending;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/process.rs"]
mod process;
mod programs;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/raw_client.rs"]
mod raw_client;
mod reach_nodes;
mod real_node;
mod reference_pricing;
mod registry;
mod replacement;
mod replicas;
mod restart;
mod score;
mod smuggling;
mod stream_readers;
mod test_contract;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/test_server.rs"]
mod test_server;
mod verification_clients;
mod verifier;
mod verify_form;
mod wall_clock;
mod wallet_sdk;
mod web3_clients;
