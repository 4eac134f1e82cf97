//! `GET /v1/{chain}/fee-history.svg`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use moka::future::Cache;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use super::{ChartMetrics, ChartSpec};
use crate::api::extractors::{BlocksQuery, ChainParam};
use crate::api::freshness::write_snapshot_headers;
use crate::api::openapi::components::{IfNoneMatch, NotModified};
use crate::api::problems;
use crate::http::chunked_body::{Charged, ChunkedBody};
use crate::http::client_limits::{ClientHandle, LongRequestKind};
use crate::http::headers::X_NEWEST_BLOCK;
use crate::http::problem::Problem;
use crate::http::query::ValidQuery;
use crate::observe::memory_budget::{MemoryBudget, MemoryExhausted};
use crate::observe::metrics::{Counter, Metrics};
use crate::store::etag;
use crate::store::{BlockWindow, ChainStore, ServableSnapshot, StoredChain, Unavailable};

/// Policy of an image of this service: it has its styles inside, and loads nothing.
pub(crate) const SVG_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Charts of the current state of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ChartRenderer {
    store: ChainStore,
    cache: Cache<ChartKey, RenderedChart>,
    /// Budget that charts are charged to, also those in the cache.
    memory: MemoryBudget,
    /// Limits rendering to one chart at a time.
    render_semaphore: Arc<Semaphore>,
    rendered: Counter,
}

/// Cache key: everything that changes the chart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ChartKey {
    chain_id: u64,
    blocks: usize,
    /// Revision of the chain's recent blocks.
    revision: u64,
    /// Entity tag of the suggestion.
    suggestion: HeaderValue,
    is_stale: bool,
}

#[derive(Debug, Clone)]
struct RenderedChart {
    svg: Bytes,
    etag: HeaderValue,
    newest_block: u64,
}

impl FromRef<ChartRenderer> for ChainStore {
    fn from_ref(renderer: &ChartRenderer) -> Self {
        renderer.store.clone()
    }
}

impl ChartRenderer {
    /// Maximum total size of the cached charts. A chart of 1,024 blocks takes about 100 KiB.
    const MAX_CACHE_BYTES: usize = 16 * 1024 * 1024;

    pub(crate) fn new(store: &ChainStore, memory: &MemoryBudget, metrics: &Metrics) -> Self {
        let weigher = |_: &ChartKey, chart: &RenderedChart| {
            u32::try_from(chart.svg.len()).unwrap_or(u32::MAX)
        };
        let max_bytes = Self::MAX_CACHE_BYTES.min(memory.total() / 16);
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let cache = Cache::builder().weigher(weigher).max_capacity(max_bytes).build();
        let measured_cache = cache.clone();
        metrics.register_cache("charts", move || {
            [measured_cache.entry_count(), measured_cache.weighted_size()]
        });
        let render_semaphore = Arc::new(Semaphore::new(1));
        let rendered = metrics.set::<ChartMetrics>().charts_rendered_total;
        Self { store: store.clone(), cache, memory: memory.clone(), render_semaphore, rendered }
    }

    /// Charts of one client that are rendered or wait for that.
    const MAX_PER_CLIENT: usize = 32;

    /// Returns the chart of the chain's newest `blocks` and the snapshot that it shows. It is rendered at most once per
    /// state of the chain.
    async fn get_or_render(
        &self,
        chain: &StoredChain,
        blocks: usize,
        client: &ClientHandle,
    ) -> Result<(RenderedChart, ServableSnapshot), Arc<ChartError>> {
        let (current, revision) =
            chain.snapshot_with_revision().map_err(ChartError::Unavailable)?;
        let key = ChartKey {
            chain_id: chain.config().chain_id,
            blocks,
            revision,
            suggestion: current.snapshot.etag.clone(),
            is_stale: current.is_stale(),
        };
        if let Some(chart) = self.cache.get(&key).await {
            return Ok((chart, current));
        }
        // A client's charts must not keep those of others waiting for long.
        let permit = client.acquire(LongRequestKind::Chart, Self::MAX_PER_CLIENT);
        let _permit = permit.map_err(|_| ChartError::TooManyPerClient)?;
        let chart = self.cache.try_get_with(key, self.render(chain, blocks)).await?;
        Ok((chart, current))
    }

    async fn render(
        &self,
        chain: &StoredChain,
        blocks: usize,
    ) -> Result<RenderedChart, ChartError> {
        // One chart at a time, so that a client that requests many charts delays only other charts.
        let permit = Arc::clone(&self.render_semaphore).acquire_owned().await;
        let (current, window) =
            chain.snapshot_with_blocks(blocks).map_err(ChartError::Unavailable)?;
        self.rendered.increment();
        let (chain, memory) = (chain.clone(), self.memory.clone());
        let render = move || {
            let _permit = permit;
            RenderedChart::render(&chain, &current, &window, &memory)
        };
        // Tens of thousands of blocks take too long for a runtime thread.
        let chart = tokio::task::spawn_blocking(render).await.map_err(ChartError::Failed)?;
        chart.map_err(ChartError::NoMemory)
    }
}

impl RenderedChart {
    fn render(
        chain: &StoredChain,
        current: &ServableSnapshot,
        window: &BlockWindow,
        memory: &MemoryBudget,
    ) -> Result<Self, MemoryExhausted> {
        let config = chain.config();
        let spec = ChartSpec {
            chain_name: config.name(),
            pricing: &config.pricing,
            window,
            suggestion: &current.snapshot.market.suggestion,
            is_stale: current.is_stale(),
        };
        let svg = memory.try_hold(spec.render().into_bytes())?;
        Ok(Self { etag: etag::for_body(&svg), svg, newest_block: window.newest_block })
    }
}

/// Reason why there is no chart.
#[derive(Debug)]
enum ChartError {
    Unavailable(Unavailable),
    TooManyPerClient,
    NoMemory(MemoryExhausted),
    Failed(JoinError),
}

/// Fees of the last blocks of one chain as a chart
///
/// The response is 304 if the client's copy is current.
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-history.svg",
    operation_id = "getFeeHistoryChart",
    tag = "Gas",
    params(
        ChainParam, BlocksQuery, IfNoneMatch,
        (
            "of" = Option<String>,
            Query,
            description = "Has no effect. A page that gives each block another value gets the image anew.",
        ),
    ),
    responses(
        NotModified,
        (status = 200,
            description = "An SVG document that follows the reader's light or dark colour scheme.",
            content_type = "image/svg+xml", body = String,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_chart(
    State(renderer): State<ChartRenderer>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<BlocksQuery>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    let count = query.validate_and_charge(chain.config().history_blocks.get(), &client)?;
    let (chart, current) =
        renderer.get_or_render(&chain, count, &client).await.map_err(|error| match &*error {
            ChartError::Unavailable(reason) => problems::unavailable(&chain, *reason),
            ChartError::TooManyPerClient => Problem::too_many_concurrent(),
            ChartError::NoMemory(_) => Problem::overloaded(),
            ChartError::Failed(error) => {
                tracing::error!(error = error.to_string(), "chart rendering failed");
                Problem::from_status(StatusCode::INTERNAL_SERVER_ERROR)
            }
        })?;
    let headers =
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, SVG_POLICY)];
    let body = Body::from(ChunkedBody::from(chart.svg));
    let mut response = (headers, Extension(Charged), body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::ETAG, chart.etag);
    write_snapshot_headers(headers, &chain, &current);
    headers.insert(X_NEWEST_BLOCK, chart.newest_block.into());
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::fees::{self, Block, ChainParameters, FeeHistory};
    use crate::store::Accepted;

    #[tokio::test]
    async fn chart_is_rendered_once_per_chain_state() {
        let config = Config::from_toml(
            "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]\nblock_time = \"2s\"\n\
             pricing.priority_fee_floor = \"1 gwei\"",
            &[],
        )
        .unwrap();
        let (store, mut publishers) = ChainStore::new(&config.chains);
        let (memory, client) = (MemoryBudget::new(1024 * 1024), ClientHandle::default());
        let (renderer, chain) =
            (ChartRenderer::new(&store, &memory, &Metrics::new()), store.chain("a").unwrap());
        let mut publish = |oldest_block, base_fee| {
            let block = Block { base_fee, gas_used_ratio: None, rewards: None };
            let history = FeeHistory::new(oldest_block, vec![block; 3], None).unwrap();
            let pricing = &chain.config().pricing;
            let parameters = ChainParameters::without_header(pricing);
            let market = fees::price(&history, &[], pricing, &parameters).unwrap();
            publishers[0].publish(Accepted::now(&history, market));
        };
        let render = async |blocks| renderer.get_or_render(chain, blocks, &client).await.unwrap().0;
        publish(1, 5);
        let [first, again, other] = [render(3).await, render(3).await, render(2).await];
        assert_eq!(again.svg.as_ptr(), first.svg.as_ptr());
        assert_ne!(other.svg, first.svg);
        // Another poll with the same result.
        publish(1, 5);
        assert_eq!(render(3).await.svg.as_ptr(), first.svg.as_ptr());
        // A reorg at the same height that does not change the suggestion, because the floor applies.
        publish(1, 6);
        let reorganised = render(3).await;
        assert_eq!(reorganised.newest_block, 3);
        assert_ne!(reorganised.svg, first.svg);
        publish(2, 6);
        let later = render(3).await;
        assert_eq!(later.newest_block, 4);
        assert_ne!(later.svg, reorganised.svg);
    }
}
