//! The service as its users and its nodes see it: real sockets, real processes, real recordings.

#![expect(
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that meets something else than it expects should end there"
)]

mod alerts;
mod anvil;
mod backtest;
mod balancer;
mod chart;
mod collector;
mod command;
mod conformance;
mod contract;
mod corpus;
mod dashboard;
mod delegate_api;
mod delegation_api;
mod delegation_chain;
mod deployment;
mod docs;
mod exchange;
mod expected;
mod failover;
mod fake_node;
mod fault_proxy;
mod faults;
mod fixtures;
mod gauges;
mod hostile_replies;
mod http;
mod integrations;
mod lifecycle;
mod listener;
mod logged;
mod logs;
mod message;
mod new_heads;
mod openapi;
mod operations;
mod pages;
mod pending;
mod polling;
mod programs;
mod properties;
mod raw;
mod read_node;
mod reads;
mod real_node;
mod registry;
mod replicas;
mod restart;
mod rpc_bodies;
mod service;
mod shapes;
mod smuggling;
mod stream;
#[expect(unreachable_pub, reason = "the library of the fuzz targets exports them")]
#[path = "../../fuzz/targets.rs"]
mod targets;
mod traces;
mod upstream;
mod verification;
mod verification_clients;
mod verifier;
mod verify_form;
mod wall_clock;
mod web3_clients;
