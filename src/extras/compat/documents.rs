//! Bodies of the formats, rendered at the first request after a change of the chain.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::chain_route::ChainIdPath;
use super::content::{DocumentContent, Learnt};
use super::kept_tiers::KeptTiers;
use crate::api::extractors::find_chain;
use crate::api::problems;
use crate::api::render_cache::RenderCache;
pub(super) use crate::api::render_cache::json_bytes as json;
use crate::api::suggestion;
use crate::assembly::NextBlockFees;
use crate::http::problem::Problem;
use crate::store::{ChainStore, PerChain, ServableSnapshot, StoredChain, Unavailable, etag};

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
    store: ChainStore,
    /// By revision of the chain, and by name.
    bodies: RenderCache<u64, &'static str, Result<Body, NotObserved>>,
    kept: PerChain<Arc<KeptTiers>>,
    next_block_fees: NextBlockFees,
}

/// A body and its strong entity tag.
#[derive(Debug, Clone)]
struct Body {
    json: Bytes,
    etag: HeaderValue,
}

/// The format demands what was not observed.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotObserved;

impl Documents {
    pub(super) fn new(store: &ChainStore, next_block_fees: NextBlockFees) -> Self {
        Self {
            store: store.clone(),
            bodies: RenderCache::new(store),
            kept: PerChain::new(store, KeptTiers::new),
            next_block_fees,
        }
    }

    /// Returns the record of the tiers of a chain.
    pub(super) fn kept(&self, chain: &StoredChain) -> &Arc<KeptTiers> {
        self.kept.get(chain)
    }

    pub(super) fn store(&self) -> &ChainStore {
        &self.store
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
        let Body { json, etag } = body.map_err(|_| without_rewards(chain))?;
        let headers = suggestion::headers_of(chain, &current, &etag);
        Ok((headers, json).into_response())
    }

    /// Returns the text of a document, if there is one.
    #[cfg(test)]
    pub(super) fn body(&self, chain: &StoredChain, document: &Document) -> Option<String> {
        let (_, body) = self.read(chain, document).ok()?;
        Some(String::from_utf8_lossy(&body.ok()?.json).into_owned())
    }

    /// Returns the snapshot that may be served, and its document.
    fn read(
        &self,
        chain: &StoredChain,
        document: &Document,
    ) -> Result<(ServableSnapshot, Result<Body, NotObserved>), Unavailable> {
        chain.read_together(|blocks| {
            let current = chain.servable_snapshot()?;
            let body = self.bodies.get_or_render(chain, chain.revision(), document.name, || {
                let learnt = Learnt {
                    next_block: self.next_block_fees.get().and_then(|known| known(chain)),
                    kept_within: self.kept(chain).kept_within(blocks),
                };
                let snapshot = &current.snapshot;
                render(&DocumentContent::new(chain.config(), snapshot, blocks, learnt), document)
            });
            Ok((current, body))
        })
    }
}

fn render(content: &DocumentContent, document: &Document) -> Result<Body, NotObserved> {
    let json = (document.render)(content).ok_or(NotObserved)?;
    Ok(Body { etag: etag::for_body(&json), json })
}

/// Returns the problem of a format that needs rewards, on a chain whose newest blocks have none.
fn without_rewards(chain: &StoredChain) -> Problem {
    let detail = "the newest blocks have no rewards, which this format needs";
    problems::unavailable(chain, Unavailable::NoData).with_detail(detail)
}

/// Returns the JSON of a document, for an example.
pub(super) fn example(chain: &StoredChain, document: &Document) -> Option<serde_json::Value> {
    let current = chain.servable_snapshot().ok()?;
    let body = chain.read_together(|blocks| {
        let content =
            DocumentContent::new(chain.config(), &current.snapshot, blocks, Learnt::default());
        render(&content, document)
    });
    serde_json::from_slice(&body.ok()?.json).ok()
}
