//! `GET /v1/{chain}/fee-history.svg`.

use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use metrics::Counter;
use moka::future::Cache;
use tokio::sync::Semaphore;

use super::described::{
    Chart as ChartAnswer, IfNoneMatch, InvalidParameter, NoFees, NotModified, OfEveryRoute,
    UnknownChain, tag,
};
use super::extract::{BlockCount, OfChain};
use super::freshness::{Freshness, X_NEWEST_BLOCK};
use super::problem::Problem;
use crate::book::{Book, Chain, Excerpt, Reading, Unavailable};
use crate::chart::{Failure, Picture};
use crate::etag;
use crate::metrics::Metrics;

/// All charts that were drawn of the chains as they are now. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Charts {
    book: Book,
    drawn: Cache<Subject, Chart>,
    /// Held by who draws.
    pencil: Arc<Semaphore>,
    count: Counter,
}

/// What a chart shows: another subject is another chart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Subject {
    chain_id: u64,
    blocks: usize,
    /// Of the chain's recent blocks.
    revision: u64,
    /// The suggestion's entity tag.
    suggestion: HeaderValue,
    is_stale: bool,
}

#[derive(Debug, Clone)]
struct Chart {
    svg: Bytes,
    etag: HeaderValue,
    newest_block: u64,
}

impl FromRef<Charts> for Book {
    fn from_ref(charts: &Charts) -> Self {
        charts.book.clone()
    }
}

impl Charts {
    /// What all of them may take; one of 1,024 blocks takes about 100 KiB.
    const MAX_BYTES: u64 = 16 * 1024 * 1024;

    pub(super) fn new(book: &Book, metrics: &Metrics) -> Self {
        let weight =
            |_: &Subject, chart: &Chart| u32::try_from(chart.svg.len()).unwrap_or(u32::MAX);
        let drawn = Cache::builder().weigher(weight).max_capacity(Self::MAX_BYTES).build();
        let kept = drawn.clone();
        metrics.watch_cache("charts", move || [kept.entry_count(), kept.weighted_size()]);
        let pencil = Arc::new(Semaphore::new(1));
        Self { book: book.clone(), drawn, pencil, count: metrics.charts_drawn() }
    }

    /// The chart of the chain's newest `blocks`, drawn at most once for each state of the chain, and how
    /// fresh it is.
    async fn of(&self, chain: &Chain, blocks: usize) -> Result<(Chart, Freshness), Arc<Undrawn>> {
        let (reading, revision) = chain.read_revision().map_err(Undrawn::Unavailable)?;
        let subject = Subject {
            chain_id: chain.config().chain_id,
            blocks,
            revision,
            suggestion: reading.observation.quote.etag().clone(),
            is_stale: reading.is_stale,
        };
        let chart = self.drawn.try_get_with(subject, self.draw(chain, blocks)).await?;
        Ok((chart, Freshness::of(chain, &reading)))
    }

    async fn draw(&self, chain: &Chain, blocks: usize) -> Result<Chart, Undrawn> {
        // One at a time: who asks for many charts slows down those who ask for charts.
        let pencil = Arc::clone(&self.pencil).acquire_owned().await;
        let (reading, excerpt) = chain.read_blocks(blocks).map_err(Undrawn::Unavailable)?;
        self.count.increment(1);
        let chain = chain.clone();
        let drawing = move || {
            let _held = pencil;
            Chart::draw(&chain, &reading, &excerpt)
        };
        // Tens of thousands of blocks take a tenth of a second.
        let drawn = tokio::task::spawn_blocking(drawing).await.map_err(anyhow::Error::new);
        drawn.and_then(|drawn| Ok(drawn?)).map_err(Undrawn::Failed)
    }
}

impl Chart {
    fn draw(chain: &Chain, reading: &Reading, excerpt: &Excerpt) -> Result<Self, Failure> {
        let config = chain.config();
        let picture = Picture {
            chain_name: config.name(),
            percentiles: config.pricing.percentiles().as_slice(),
            excerpt,
            suggestion: reading.observation.quote.suggestion(),
            is_stale: reading.is_stale,
        };
        let svg = Bytes::from(picture.draw()?);
        Ok(Self { etag: etag::of(&svg), svg, newest_block: excerpt.newest_block })
    }
}

/// Why there is no chart.
#[derive(Debug)]
enum Undrawn {
    Unavailable(Unavailable),
    Failed(anyhow::Error),
}

/// The fees of the last blocks of one chain as a chart
///
/// The answer is 304 when the client has it.
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-history.svg",
    operation_id = "getFeeHistoryChart",
    tag = tag::GAS,
    params(OfChain, BlockCount, IfNoneMatch),
    responses(OfEveryRoute, ChartAnswer, NotModified, InvalidParameter, UnknownChain, NoFees)
)]
pub(super) async fn of_chain(
    State(charts): State<Charts>,
    OfChain(chain): OfChain,
    count: BlockCount,
    request: HeaderMap,
) -> Result<Response, Problem> {
    let count = count.up_to(chain.config().history_blocks.get())?;
    let (chart, freshness) = charts.of(&chain, count).await.map_err(|why| match &*why {
        Undrawn::Unavailable(why) => Problem::unavailable(&chain, *why),
        Undrawn::Failed(error) => {
            tracing::error!(error = format!("{error:#}"), "cannot draw a chart");
            Problem::of_framework(StatusCode::INTERNAL_SERVER_ERROR)
        }
    })?;
    let mut response = if etag::is_named(&chart.etag, &request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "image/svg+xml")], chart.svg).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, chart.etag);
    headers.insert(X_NEWEST_BLOCK, chart.newest_block.into());
    freshness.write_headers(headers);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::fees::{self, Block, FeeHistory};

    #[tokio::test]
    async fn a_chart_is_drawn_once_for_each_state_of_the_chain() {
        let config = Config::from_toml(
            "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]\nblock_time = \"2s\"",
        )
        .unwrap();
        let (book, mut publishers) = Book::new(&config.chains);
        let (charts, chain) = (Charts::new(&book, &Metrics::new()), book.chain("a").unwrap());
        let mut publish = |oldest_block, base_fee| {
            let block = Block { base_fee, gas_used_ratio: None, rewards: None };
            let history = FeeHistory::new(oldest_block, vec![block; 3], None).unwrap();
            let market = fees::price(&history, &chain.config().pricing).unwrap();
            publishers[0].publish(&history, market);
        };
        let chart = async |blocks| charts.of(chain, blocks).await.unwrap().0;
        publish(1, 5);
        let [first, again, other] = [chart(3).await, chart(3).await, chart(2).await];
        assert_eq!(again.svg.as_ptr(), first.svg.as_ptr());
        assert_ne!(other.svg, first.svg);
        // Another poll that says the same.
        publish(1, 5);
        assert_eq!(chart(3).await.svg.as_ptr(), first.svg.as_ptr());
        // A reorg at one height, which changes no suggestion: the floor decides.
        publish(1, 6);
        let reorganised = chart(3).await;
        assert_eq!(reorganised.newest_block, 3);
        assert_ne!(reorganised.svg, first.svg);
        publish(2, 6);
        let later = chart(3).await;
        assert_eq!(later.newest_block, 4);
        assert_ne!(later.svg, reorganised.svg);
    }
}
