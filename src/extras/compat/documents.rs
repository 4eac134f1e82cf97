//! Bodies of the formats, rendered at the first request after a change of the chain.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use bytes::Bytes;

use super::chain_route::ChainIdPath;
use super::content::DocumentContent;
use super::kept_tiers::KeptTiers;
use crate::api::extractors::find_chain;
use crate::api::freshness::{snapshot_response, tagged_json};
use crate::api::problems;
use crate::api::render_cache::RenderCache;
pub(super) use crate::api::render_cache::json_bytes as json;
use crate::assembly::NextBlockFees;
use crate::http::problem::Problem;
use crate::store::{ChainStore, PerChain, ServableSnapshot, StoredChain, Unavailable};

/// A response body of a format.
#[derive(Debug)]
pub(crate) struct Document {
    /// Name, once among all documents.
    pub(super) name: &'static str,
    /// Returns the JSON text; `None`: the format demands what was not observed.
    pub(super) render: fn(&DocumentContent<'_>) -> Option<Bytes>,
}

/// The documents of all chains. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Documents {
    pub(super) store: ChainStore,
    /// By revision of the chain, and by name. `None`: the format demands what was not observed.
    bodies: RenderCache<u64, &'static str, Option<Bytes>>,
    /// Records of the tiers.
    pub(super) kept: PerChain<Arc<KeptTiers>>,
    next_block_fees: Option<NextBlockFees>,
}

impl Documents {
    pub(super) fn new(store: &ChainStore, next_block_fees: Option<NextBlockFees>) -> Self {
        Self {
            store: store.clone(),
            bodies: RenderCache::new(store),
            kept: PerChain::new(store, KeptTiers::new),
            next_block_fees,
        }
    }

    /// Returns the chain with this id, or the one with the lowest id.
    pub(super) fn chain_or_lowest(&self, id: Option<String>) -> Result<&StoredChain, Problem> {
        match (id, self.store.chains()) {
            (None, [lowest, ..]) => Ok(lowest),
            (id, _) => find_chain(&self.store, &id.unwrap_or_default()),
        }
    }

    /// Builds the response with a document of the chain that the path names.
    pub(super) fn respond_to_path(
        &self,
        path: ChainIdPath,
        document: &Document,
    ) -> Result<Response, Problem> {
        let name = path.map_or_else(|_| String::new(), |Path(path)| path.chain_id);
        self.respond(find_chain(&self.store, &name)?, document)
    }

    /// Builds the response with a document.
    pub(super) fn respond(
        &self,
        chain: &StoredChain,
        document: &Document,
    ) -> Result<Response, Problem> {
        let (current, body) =
            self.read(chain, document).map_err(|reason| problems::unavailable(chain, reason))?;
        let body = body.ok_or_else(|| {
            let detail = "the newest blocks have no rewards, which this format needs";
            problems::unavailable(chain, Unavailable::NoData).with_detail(detail)
        })?;
        Ok(snapshot_response(chain, &current, tagged_json(body)))
    }

    /// Returns the snapshot that may be served, and its document.
    pub(super) fn read(
        &self,
        chain: &StoredChain,
        document: &Document,
    ) -> Result<(ServableSnapshot, Option<Bytes>), Unavailable> {
        chain.read_together(|blocks| {
            let current = chain.servable_snapshot()?;
            let body = self.bodies.get_or_render(chain, chain.revision(), document.name, || {
                let content = DocumentContent {
                    next_block: self.next_block_fees.as_ref().and_then(|known| known(chain)),
                    kept_within: self.kept.get(chain).kept_within(blocks),
                    ..DocumentContent::new(chain.config(), &current.snapshot, blocks)
                };
                (document.render)(&content)
            });
            Ok((current, body))
        })
    }
}
