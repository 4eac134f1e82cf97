//! Looks for leaps of the machine's clocks, after which what is served may be old.

use std::convert::Infallible;
use std::time::Duration;

use crate::observe::clock::{self, LeapDetector};
use crate::store::ChainStore;

/// Time between two looks. A leap is noticed after this long at the latest.
const INTERVAL: Duration = Duration::from_millis(250);

/// Watches the clocks for ever. Dropping the future ends it.
pub(crate) async fn watch(store: ChainStore) -> Infallible {
    let mut detector = LeapDetector::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        if let Some(leap) = detector.leap() {
            let (now, seconds) = (clock::now(), leap.as_secs());
            store.chains().iter().for_each(|chain| chain.record_leap(now));
            tracing::info!(seconds, "the machine slept, or its clock was set forward; polling now");
        }
    }
}
