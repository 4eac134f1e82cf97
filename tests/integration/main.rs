//! Tests of the service from outside: real sockets, real processes, real recordings.

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
mod chart;
mod command;
mod conformance;
mod contract;
mod corpus;
mod dashboard;
mod delegation_api;
mod delegation_chain;
mod deployment;
mod docs;
mod expected;
mod failover;
mod fault_proxy;
mod faults;
mod fixtures;
mod gauges;
mod hostile_replies;
mod http;
mod http_message;
mod integrations;
mod lifecycle;
mod listener;
mod logged_process;
mod logs;
mod mock_collector;
mod mock_delegate_api;
mod mock_node;
mod mock_read_node;
mod mock_upstream;
mod new_heads;
mod openapi;
mod operations;
mod pages;
mod pending;
mod polling;
mod programs;
mod properties;
mod raw_client;
mod raw_exchange;
mod reads;
mod real_node;
mod registry;
mod replicas;
mod restart;
mod rpc_bodies;
mod shapes;
mod smuggling;
mod stream;
#[expect(unreachable_pub, reason = "the library of the fuzz targets exports them")]
#[path = "../../fuzz/targets.rs"]
mod targets;
mod test_server;
mod traces;
mod verification;
mod verification_clients;
mod verifier;
mod verify_form;
mod wall_clock;
mod web3_clients;
