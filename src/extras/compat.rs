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

use utoipa_axum::router::OpenApiRouter;

use crate::assembly::{Assembly, Extra};
use crate::http::problem::Problem;
use blocknative::CHAINS_PATH;
use chain_route::ChainRoute;
use documents::Documents;
use section::Compat;

pub(crate) const EXTRA: Extra =
    Extra { name: "compat", sections: &[Compat::SECTION], command: None, join };

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
    /// True if the routes also exist at the root if a base path is configured.
    at_root: bool,
}

impl Format {
    /// Creates a format without routes.
    const fn new(name: &'static str) -> Self {
        Self { name, chain_routes: &[], others: OpenApiRouter::new, at_root: false }
    }

    fn routes(&self) -> OpenApiRouter<Documents> {
        let routes = self.chain_routes.iter().map(ChainRoute::described);
        routes.fold((self.others)(), OpenApiRouter::routes)
    }
}

/// Adds the routes of the chosen formats. Those of the others say how to choose them.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let compat: Compat = assembly.config.section();
    let documents = Documents::new(&assembly.store, assembly.offers.get().cloned());
    assembly.observe(|chain| Arc::clone(documents.kept.get(chain)));
    let routes = &mut assembly.routes;
    routes.costly.push(CHAINS_PATH);
    for format in FORMATS {
        let own = format.routes();
        if !compat.has(format.name) {
            let switch = format!("add {:?} to compat.formats", format.name);
            let problem = Problem::switched_off(&format!("the {} format", format.name), &switch);
            routes.switch_off(own.get_openapi().paths.paths.keys().map(String::as_str), &problem);
            continue;
        }
        let own = own.with_state(documents.clone());
        if format.at_root {
            routes.at_root.push(own.clone().into());
        }
        routes.timed.push(own);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
