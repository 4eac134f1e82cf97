//! Looks for leaps of the machine's clocks, after which what is served may be old.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::nodes::ChainUpstreams;
use crate::observe::clock::Clocks;
use crate::store::ChainStore;

/// Time between two looks. A leap is noticed after this long at the latest.
const INTERVAL: Duration = Duration::from_millis(250);

/// Watches the clocks for ever. Dropping the future ends it. A failure of a node from before a leap may be long over, so its
/// `upstreams` forget them.
pub(crate) async fn watch(store: ChainStore, upstreams: Vec<Arc<ChainUpstreams>>) -> Infallible {
    let mut last = Clocks::now();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let clocks = Clocks::now();
        let leap = clocks.leap_since(std::mem::replace(&mut last, clocks));
        if let Some(leap) = leap {
            let seconds = leap.as_secs();
            for chain in &upstreams {
                chain.forget_failures();
            }
            store.chains().iter().for_each(|chain| chain.record_leap(clocks.ages));
            tracing::info!(seconds, "the machine slept, or its clock was set; polling now");
        }
    }
}
