//! The service on the recorded blocks of Base.

use std::time::Duration;

use gas_suggestion::extras::demo::{BlockTiming, ReplayNode};

use crate::process::{File, Process};

/// Runs the service on the recorded blocks of Base, with `more` keys of the chain, until it has a suggestion.
pub(crate) async fn start(more: &str) -> Process {
    // With this block time the node has no second block while the test runs.
    let node = ReplayNode::bind(BlockTiming { block_time: Duration::from_hours(1), jitter: 0 });
    let node = node.unwrap();
    let url = format!("http://{}/base", node.address().unwrap());
    tokio::spawn(node.run());
    // As when they were recorded.
    let then = "block_time = \"2s\"\npricing.base_fee_change_denominator = 25\n\
                pricing.empty_block_denominator = 50\npricing.strategy = \"network\"\n\
                pricing.ask_interval = 0";
    let chain = format!("[chains.base]\nchain_id = 8453\nrpc_urls = [\"{url}\"]\n{then}\n{more}");
    let file = File::new("base", &chain);
    let service = Process::start(&["--config", file.path()], &[]);
    service.wait_for_ok("/v1/base/gas-suggestion").await;
    service
}
