//! Delegation look-ups at the REST API: requests, keys, responses, and transactions.

mod keys;
mod parameters;
mod responses;
mod sources;
mod transactions;
