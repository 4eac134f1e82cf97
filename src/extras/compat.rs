//! The suggestion in the formats of other gas services, so that their clients need only another URL.
//!
//! A format is a file with its bodies and its routes, and a row of `FORMATS`. A document is made of a `DocumentContent`
//! at the first request of a snapshot, and is as fresh as that. Prices of one number are
//! [`SinglePrices`](crate::fees::SinglePrices). Max fees are those of the tiers. Some formats have members that the
//! service cannot know, such as a waiting time. They hold counts over the newest blocks or quotes; see `content`.
//!
//! The routes accept any query parameter, because clients send some that mean nothing here, such as `apikey`.

mod blocknative;
mod chain_route;
mod content;
mod documents;
mod etherscan;
mod flat;
mod gwei;
mod kept_tiers;
mod lenient_query;
mod metamask;
mod openapi;
mod polygon;
mod rrelayer;
mod safe;
mod section;

use std::sync::Arc;

use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use crate::api::openapi::examples::set_response_example;
use crate::assembly::{Assembly, Extra, Join};
use crate::http::problem::Problem;
use blocknative::{CHAINS_PATH, SupportedChain};
use chain_route::ChainRoute;
use documents::{Document, Documents};
use section::Compat;

pub(crate) const EXTRA: Extra =
    Extra { sections: &[Compat::SECTION], ..Extra::new("compat", Join::Always(join)) };

/// Description of the tag.
const DESCRIPTION: &str = "The same suggestion in the formats of other gas services, whose clients need only another \
                           URL. `[compat] formats` selects them.";

/// Tag of the routes in the OpenAPI document.
const TAG: &str = "Drop-in formats";

/// All formats.
static FORMATS: &[Format] = &[
    metamask::FORMAT,
    etherscan::FORMAT,
    safe::FORMAT,
    blocknative::FORMAT,
    rrelayer::FORMAT,
    polygon::FORMAT,
    flat::FORMAT,
];

/// A format of another gas service.
#[derive(Debug)]
struct Format {
    /// Name in `compat.formats`.
    name: &'static str,
    chain_routes: &'static [ChainRoute],
    /// Routes that find their document in another way.
    others: fn() -> OpenApiRouter<Documents>,
    /// Paths of the other routes, and the documents that are examples of their responses.
    examples: &'static [(&'static str, &'static Document)],
    /// True if the routes also exist at the root if a base path is configured.
    at_root: bool,
}

impl Format {
    /// Creates a format without routes.
    const fn new(name: &'static str) -> Self {
        Self { name, chain_routes: &[], others: OpenApiRouter::new, examples: &[], at_root: false }
    }

    fn routes(&self) -> OpenApiRouter<Documents> {
        let routes = self.chain_routes.iter().map(ChainRoute::described);
        routes.fold((self.others)(), OpenApiRouter::routes)
    }

    /// Returns paths, and the documents that are examples of their responses.
    fn examples(&self) -> impl Iterator<Item = (&'static str, &'static Document)> {
        let routes = self.chain_routes.iter().map(|route| (route.path, route.document));
        routes.chain(self.examples.iter().copied())
    }
}

fn join(assembly: &mut Assembly) {
    let compat: Compat = assembly.config.section();
    let documents = Documents::new(&assembly.store, assembly.next_block_fees.clone());
    assembly.observe(|chain| Arc::clone(documents.kept.get(chain)));
    let routes = &mut assembly.routes;
    routes.add_tag(TAG, DESCRIPTION);
    let (chosen, others) = FORMATS.iter().partition::<Vec<_>, _>(|it| compat.has(it.name));
    routes.mark_costly(CHAINS_PATH);
    for format in &chosen {
        let own = format.routes().with_state(documents.clone());
        if format.at_root {
            routes.add_at_root(own.clone().into());
        }
        routes.add(own);
    }
    for format in others {
        let described = format.routes().into_openapi();
        let switch = format!("add {:?} to compat.formats", format.name);
        let problem = Problem::switched_off(&format!("the {} format", format.name), &switch);
        routes.switch_off(described.paths.paths.keys().map(String::as_str), &problem);
    }
    routes.write_examples(move |document, example| {
        for (path, document_of_path) in chosen.iter().flat_map(|format| format.examples()) {
            if let Some(body) = documents::example(example.chain, document_of_path) {
                set_response_example(document, path, body);
            }
        }
        let chains = json!([SupportedChain::new(example.chain.config())]);
        set_response_example(document, CHAINS_PATH, chains);
    });
}

#[cfg(test)]
mod tests;
