//! The address of a node, and how calls to it are sent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::node_transport::NodeClient;
use super::pooled_client::Repeat;
use crate::config::NodeUrl;

/// One node of a chain.
#[derive(Debug)]
pub(crate) struct NodeEndpoint {
    pub(super) url: NodeUrl,
    /// Chain that the node must serve.
    pub(super) chain_id: u64,
    /// Index in `rpc_urls`, continued in `read_urls`.
    pub(super) index: usize,
    /// Milliseconds after which a poll is sent once more if a kept connection is silent.
    patience_ms: AtomicU64,
    /// See [`Repeat`].
    is_slow: AtomicBool,
}

/// How a call is sent.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) http: &'a NodeClient,
    pub(super) repeat: Option<Repeat<'a>>,
}

impl NodeEndpoint {
    pub(super) fn new(url: NodeUrl, chain_id: u64, index: usize) -> Self {
        let endpoint = Self {
            url,
            chain_id,
            index,
            patience_ms: AtomicU64::default(),
            is_slow: AtomicBool::default(),
        };
        endpoint.set_deadline(Duration::MAX);
        endpoint
    }

    /// Sets the deadline of the calls of polls.
    pub(super) fn set_deadline(&self, deadline: Duration) {
        let millis = u64::try_from(Repeat::patience(deadline).as_millis()).unwrap_or(u64::MAX);
        self.patience_ms.store(millis, Ordering::Relaxed);
    }

    /// Returns how a call of a poll is sent once more.
    pub(super) fn repeat(&self) -> Repeat<'_> {
        let after = Duration::from_millis(self.patience_ms.load(Ordering::Relaxed));
        Repeat { after, try_take: &|| true, is_slow: &self.is_slow }
    }
}
