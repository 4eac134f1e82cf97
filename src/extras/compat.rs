//! The suggestion in the formats of other gas services, so that their clients need only another URL.
//!
//! A format is a file with its bodies and its routes, and a row of `FORMATS`. A document is made of a `DocumentContent`
//! at the first request of a snapshot, and is as fresh as that. Prices of one number are
//! [`SinglePrices`](crate::fees::SinglePrices). Max fees are those of the tiers. Some formats have members that the
//! service cannot know, such as a waiting time. They hold counts over the newest blocks or quotes; see `content`.
//!
//! The routes accept any query parameter, because clients send some that mean nothing here, such as `apikey`.

mod blocknative;
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

use axum::Router;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use crate::api::openapi::examples::set_response_example;
use crate::assembly::{Assembly, Extra, Join};
use crate::config::SectionKind;
use crate::http::problem::Problem;
use blocknative::{CHAINS_PATH, SupportedChain};
use documents::{Document, Documents};
use section::Compat;

pub(crate) const EXTRA: Extra =
    Extra { sections: &[SectionKind::new::<Compat>()], ..Extra::new("compat", Join::Always(join)) };

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
    routes: fn() -> OpenApiRouter<Documents>,
    /// Routes that also exist at the root if a base path is configured.
    root_routes: fn() -> Router<Documents>,
    /// Paths, and the documents that are examples of their responses.
    examples: &'static [(&'static str, &'static Document)],
}

fn no_root_routes() -> Router<Documents> {
    Router::new()
}

fn join(assembly: &mut Assembly) {
    let compat: Compat = assembly.config.section();
    let documents = Documents::new(&assembly.store, assembly.next_block_fees.clone());
    assembly.observe(|chain| Arc::clone(documents.kept(chain)));
    let routes = &mut assembly.routes;
    routes.add_tag(TAG, DESCRIPTION);
    let (chosen, others) = FORMATS.iter().partition::<Vec<_>, _>(|it| compat.has(it.name));
    routes.mark_costly(CHAINS_PATH);
    for format in &chosen {
        routes.add((format.routes)().with_state(documents.clone()));
        routes.add_at_root((format.root_routes)().with_state(documents.clone()));
    }
    for format in others {
        let described = (format.routes)().into_openapi();
        let switch = format!("add {:?} to compat.formats", format.name);
        let problem = Problem::switched_off(&format!("the {} format", format.name), &switch);
        routes.switch_off(described.paths.paths.keys().map(String::as_str), &problem);
    }
    routes.write_examples(move |document, example| {
        for (path, body) in chosen.iter().flat_map(|format| format.examples) {
            if let Some(body) = documents::example(example.chain, body) {
                set_response_example(document, path, body);
            }
        }
        let chains = json!([SupportedChain::new(example.chain.config())]);
        set_response_example(document, CHAINS_PATH, chains);
    });
}

#[cfg(test)]
mod tests;
