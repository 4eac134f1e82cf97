//! The address of a node, and how calls to it are sent.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
    /// Time after which a poll is sent once more if a kept connection is silent.
    patience: Duration,
    /// See [`Repeat`].
    is_slow: AtomicBool,
}

impl NodeEndpoint {
    /// Creates the node of a chain whose polls have this `deadline` at first.
    pub(super) fn new(url: NodeUrl, chain_id: u64, index: usize, deadline: Duration) -> Self {
        let patience = Repeat::patience(deadline);
        Self { url, chain_id, index, patience, is_slow: AtomicBool::default() }
    }

    /// Returns how a call of a poll is sent once more.
    pub(super) fn repeat(&self) -> Repeat<'_> {
        Repeat { after: self.patience, try_take: &|| true, is_slow: &self.is_slow }
    }
}
