//! Up to which block the chain is known to be final.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::params;

/// What is known of it. What was final once stays final, so this only grows.
#[derive(Debug, Default)]
pub(super) struct Finality {
    /// The genesis block is final.
    number: AtomicU64,
    asked: Mutex<Option<Instant>>,
}

impl Finality {
    /// An answer that takes longer is not worth the wait.
    pub(super) const DEADLINE: Duration = Duration::from_secs(1);
    const INTERVAL: Duration = Duration::from_mins(1);
    /// Few chains call a block final before it has this many above it.
    const DEPTH: u64 = 32;

    /// Whether the block with this number is known to be final.
    pub(super) fn reaches(&self, number: u64) -> bool {
        number <= self.number.load(Ordering::Relaxed)
    }

    /// Whether somebody should ask now, for a read of this block; to be told so is to be the one who
    /// asks.
    pub(super) fn is_worth_asking(&self, number: u64, newest_block: u64, now: Instant) -> bool {
        if self.reaches(number) || number.saturating_add(Self::DEPTH) > newest_block {
            return false;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = asked.is_none_or(|at| now.saturating_duration_since(at) >= Self::INTERVAL);
        if is_due {
            *asked = Some(now);
        }
        is_due
    }

    /// Takes note of the chain's last final `block`, unless it is above the newest one.
    pub(super) fn learn(&self, block: &[u8], newest_block: u64) {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow)]
            number: Cow<'a, str>,
        }
        let block = serde_json::from_slice::<Block>(block).ok();
        let number = block.and_then(|block| params::number(&block.number));
        if let Some(number) = number.filter(|number| *number <= newest_block) {
            self.number.fetch_max(number, Ordering::Relaxed);
        }
    }
}

/// The parameters of the call that tells it.
pub(super) fn params() -> Box<RawValue> {
    to_raw_value(&("finalized", false)).expect("a pair of plain values serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_far_below_the_head_is_worth_one_question_a_minute() {
        let (finality, now) = (Finality::default(), Instant::now());
        assert!(!finality.is_worth_asking(69, 100, now));
        assert!(!finality.is_worth_asking(0, 100, now));
        assert!(finality.is_worth_asking(68, 100, now));
        assert!(!finality.is_worth_asking(68, 100, now + Duration::from_secs(59)));
        assert!(finality.is_worth_asking(68, 100, now + Duration::from_mins(1)));
    }

    #[test]
    fn it_only_grows_and_never_above_the_head() {
        let finality = Finality::default();
        for block in
            [r#"{"number":"0x41"}"#, r#"{"number":"0x40"}"#, r#"{"number":"0x65"}"#, "null"]
        {
            finality.learn(block.as_bytes(), 100);
        }
        assert!(finality.reaches(0x41));
        assert!(!finality.reaches(0x42));
        assert!(!finality.is_worth_asking(0x41, 100_000, Instant::now()));
    }
}
