//! Fakes, clients and helpers that the tests of both programs share.

pub(crate) mod delegation_service;
pub(crate) mod fixtures;
pub(crate) mod http_client;
pub(crate) mod http_message;
pub(crate) mod logged_process;
pub(crate) mod mock_collector;
pub(crate) mod mock_delegate_api;
pub(crate) mod mock_node;
pub(crate) mod mock_upstream;
pub(crate) mod pages;
pub(crate) mod process;
pub(crate) mod raw_client;
pub(crate) mod test_server;
pub(crate) mod webhook_receiver;
