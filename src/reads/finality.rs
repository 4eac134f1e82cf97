//! Tracks the highest final block of a chain.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::params;

/// Highest final block. It only grows.
#[derive(Debug, Default)]
pub(super) struct Finality {
    /// Initially 0, the genesis block.
    finalized_block: AtomicU64,
    last_probe: Mutex<Option<Instant>>,
}

impl Finality {
    /// The client's response waits for the probe, so a slower one is given up.
    pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
    const PROBE_INTERVAL: Duration = Duration::from_mins(1);
    /// Confirmations of a block before it causes a probe. On few chains a block is final earlier.
    const MIN_DEPTH: u64 = 32;

    /// Returns true if the block with this number is known to be final.
    pub(super) fn is_final(&self, number: u64) -> bool {
        number <= self.finalized_block.load(Ordering::Relaxed)
    }

    /// Claims the probe of the final block; returns true for the one caller that has to make it.
    pub(super) fn try_begin_probe(&self, number: u64, newest_block: u64, now: Instant) -> bool {
        if self.is_final(number) || number.saturating_add(Self::MIN_DEPTH) > newest_block {
            return false;
        }
        let mut last_probe = self.last_probe.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due =
            last_probe.is_none_or(|at| now.saturating_duration_since(at) >= Self::PROBE_INTERVAL);
        if is_due {
            *last_probe = Some(now);
        }
        is_due
    }

    /// Records the chain's finalized `block`, unless it is above the newest one.
    pub(super) fn update(&self, block: &[u8], newest_block: u64) {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow)]
            number: Cow<'a, str>,
        }
        let block = serde_json::from_slice::<Block>(block).ok();
        let number = block.and_then(|block| params::parse_number(&block.number));
        if let Some(number) = number.filter(|number| *number <= newest_block) {
            self.finalized_block.fetch_max(number, Ordering::Relaxed);
        }
    }
}

/// Parameters of the call that returns the finalized block.
pub(super) fn probe_params() -> Box<RawValue> {
    to_raw_value(&("finalized", false)).expect("a pair of plain values serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_block_allows_one_finality_probe_per_minute() {
        let (finality, now) = (Finality::default(), Instant::now());
        assert!(!finality.try_begin_probe(69, 100, now));
        assert!(!finality.try_begin_probe(0, 100, now));
        assert!(finality.try_begin_probe(68, 100, now));
        assert!(!finality.try_begin_probe(68, 100, now + Duration::from_secs(59)));
        assert!(finality.try_begin_probe(68, 100, now + Duration::from_mins(1)));
    }

    #[test]
    fn the_finalized_block_only_grows_up_to_the_head() {
        let finality = Finality::default();
        for block in
            [r#"{"number":"0x41"}"#, r#"{"number":"0x40"}"#, r#"{"number":"0x65"}"#, "null"]
        {
            finality.update(block.as_bytes(), 100);
        }
        assert!(finality.is_final(0x41));
        assert!(!finality.is_final(0x42));
        assert!(!finality.try_begin_probe(0x41, 100_000, Instant::now()));
    }
}
