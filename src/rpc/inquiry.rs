//! A node that a command asks a few things by itself, outside of polls and reads.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{Cap, Client, Error, Node, read_reply};
use crate::config::UpstreamUrl;
use crate::outbound;

/// One node, asked call by call; nothing is known of it beforehand and nothing is remembered.
#[derive(Debug)]
pub(crate) struct Inquiry {
    client: Client,
    node: Node,
}

impl Inquiry {
    /// A fee history of 1,024 blocks with a dozen percentiles is less than a tenth of this.
    const CAP: Cap<'static> = Cap { bytes: 8 * 1024 * 1024, memory: None };
    /// What a call may take, for a node may have to read a thousand blocks for it.
    const DEADLINE: Duration = Duration::from_mins(1);

    /// Of the node at `url`, which is not shown to anybody. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub(crate) fn of(url: UpstreamUrl) -> Result<Self, reqwest::Error> {
        let http = outbound::http().build()?;
        let shows_replies = !url.may_hold_a_secret();
        let client = Client { polls: http.clone(), reads: http, shows_replies };
        // The chain is whatever the node serves.
        Ok(Self { client, node: Node { url, chain_id: 0, place: 0 } })
    }

    /// Calls `method` and gives its `result`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being believed.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &serde_json::Value,
    ) -> Result<Box<RawValue>, Error> {
        let Self { client, node } = self;
        let read = |body: &Bytes, status, id| read_reply(body, status, id);
        let asked = client.exchange(&client.polls, node, method, params, Self::CAP, read);
        tokio::time::timeout(Self::DEADLINE, asked).await.unwrap_or(Err(Error::Timeout))
    }
}
