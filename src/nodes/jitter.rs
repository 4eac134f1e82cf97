//! Random delays, so that clients which fail together do not retry together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Returns a random duration below `max`.
pub(crate) fn random_up_to(max: Duration) -> Duration {
    let thousandths = u32::try_from(RandomState::new().hash_one(()) % 1000).unwrap_or_default();
    (max / 1000).saturating_mul(thousandths)
}
