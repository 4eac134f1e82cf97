//! Calls of a command to a node, outside of polls and reads.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::node_transport::NodeClient;
use super::pooled_client::PooledClient;
use super::{BodyLimit, Error, JsonRpcClient, NodeEndpoint};
use crate::config::{Upstream, UpstreamUrl};
use crate::observe::redaction::Redactor;

/// Client of one node without any memory of earlier calls.
#[derive(Debug)]
pub struct StatelessNodeClient {
    client: JsonRpcClient,
    node: NodeEndpoint,
}

impl StatelessNodeClient {
    /// A fee history of 1,024 blocks with a dozen percentiles has less than a tenth of this.
    const BODY_LIMIT: BodyLimit<'static> = BodyLimit { max_bytes: 8 * 1024 * 1024, memory: None };
    /// Deadline of a call. A node may have to read a thousand blocks for it.
    const TIMEOUT: Duration = Duration::from_mins(1);

    /// Creates a client of the node at `url`, called as `upstream` says. The URL appears in no output.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub fn new(url: UpstreamUrl, upstream: &Upstream) -> Result<Self, reqwest::Error> {
        let http = NodeClient::Http(PooledClient::new(upstream, |builder| builder)?);
        let shows_replies = !url.may_contain_secret();
        let client = JsonRpcClient {
            read_http: http.clone(),
            http,
            logs_reply_bodies: shows_replies,
            redactor: Arc::new(Redactor::new(url.secrets().into_iter().chain(upstream.secrets()))),
        };
        // Accepts any chain.
        Ok(Self { client, node: NodeEndpoint::new(url.into(), 0, 0, Self::TIMEOUT) })
    }

    /// Calls `method` and returns the `result`.
    ///
    /// # Errors
    ///
    /// Fails if there is no valid reply.
    pub async fn call(
        &self,
        method: &str,
        params: &serde_json::Value,
    ) -> Result<Box<RawValue>, Error> {
        let Self { client, node } = self;
        let call = client.call_for_poll(node, method, params, Self::BODY_LIMIT);
        tokio::time::timeout(Self::TIMEOUT, call)
            .await
            .unwrap_or(Err(Error::Timeout(Self::TIMEOUT)))
    }
}
