//! HTTP clients of the tests.

use reqwest::{Client, ClientBuilder};

/// Returns a builder of a client with the TLS of the service.
pub(crate) fn builder() -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

/// Creates a client.
pub(crate) fn new() -> Client {
    builder().build().unwrap()
}
