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
mod balancer;
mod browser_cache;
mod bundler;
mod chain_model;
mod client_package;
mod conformance;
mod cost;
mod dashboard;
mod delegation_chain;
mod deployment;
mod drop_in;
mod execution_apis;
mod guide_commands;
mod guides;
mod integrations;
mod network_edge;
mod new_heads;
mod nginx;
mod nginx_cache;
mod openapi;
mod operations;
mod programs;
mod reach_nodes;
mod real_node;
mod registry;
mod replacement;
mod replicas;
mod restart;
#[expect(dead_code, reason = "tests/integration uses the rest")]
#[path = "../rig/rig.rs"]
mod rig;
mod score;
mod smuggling;
mod stream_readers;
mod test_contract;
mod verification_clients;
mod verifier;
mod verify_form;
mod wallet_sdk;
mod web3_clients;

use rig::{
    delegation_service, fixtures, http_client, http_message, logged_process, mock_delegate_api,
    mock_node, mock_upstream, pages, process, raw_client, test_server, webhook_receiver,
};
