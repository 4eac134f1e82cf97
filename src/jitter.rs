//! Spread in time, so that what fails together does not come back together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Anything from nothing to just below `most`.
pub(crate) fn random_up_to(max: Duration) -> Duration {
    let thousandths = u32::try_from(RandomState::new().hash_one(()) % 1000).unwrap_or_default();
    (max / 1000).saturating_mul(thousandths)
}
