//! Blocks that results mention before the polls have seen them.
//!
//! A client that has a receipt must not get the state from before its block as the latest.

use std::sync::{Mutex, PoisonError};

/// Hints so far.
#[derive(Debug, Default)]
pub(super) struct HeadHints {
    state: Mutex<HintState>,
}

#[derive(Debug, Default)]
struct HintState {
    /// Highest result of `eth_blockNumber`.
    head: u64,
    /// Highest block of a receipt or a transaction, and its last known hash. A pending block is reported at each
    /// flashblock with another hash, and once more when it is mined.
    transaction_block: u64,
    transaction_block_hash: String,
    /// Number of hints so far.
    generation: u64,
}

/// Block that a result mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockHint {
    /// The newest block.
    Head(u64),
    /// The block of a transaction, by number and hash.
    Transaction(u64, String),
}

impl HeadHints {
    /// Blocks further ahead of the polls are ignored: a false one would hide all later hints.
    const MAX_BLOCKS_AHEAD: u64 = 1024;

    /// Returns the generation of hints: cached results of an older generation may be stale.
    pub(super) fn generation(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).generation
    }

    /// Records a hint, given the newest polled block.
    pub(super) fn record(&self, block: BlockHint, newest_polled: Option<u64>) {
        let (BlockHint::Head(number) | BlockHint::Transaction(number, _)) = block;
        if newest_polled
            .is_some_and(|newest| number > newest.saturating_add(Self::MAX_BLOCKS_AHEAD))
        {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = match block {
            BlockHint::Head(number) => {
                let is_new = number > state.head;
                state.head = state.head.max(number);
                is_new
            }
            BlockHint::Transaction(number, hash) => {
                let is_new = number > state.transaction_block
                    || (number == state.transaction_block && hash != state.transaction_block_hash);
                if is_new {
                    (state.transaction_block, state.transaction_block_hash) = (number, hash);
                }
                is_new
            }
        };
        state.generation = state.generation.saturating_add(u64::from(is_new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the generation after these hints.
    fn generation_after(blocks: &[BlockHint]) -> u64 {
        let hints = HeadHints::default();
        blocks.iter().cloned().for_each(|block| hints.record(block, Some(100)));
        hints.generation()
    }

    fn transaction_hint(number: u64, hash: &str) -> BlockHint {
        BlockHint::Transaction(number, hash.into())
    }

    #[test]
    fn a_higher_head_or_block_counts_once() {
        assert_eq!(
            generation_after(&[BlockHint::Head(7), BlockHint::Head(7), BlockHint::Head(6)]),
            1
        );
        assert_eq!(
            generation_after(&[
                transaction_hint(7, "a"),
                transaction_hint(7, "a"),
                transaction_hint(6, "b")
            ]),
            1
        );
        assert_eq!(
            generation_after(&[BlockHint::Head(7), BlockHint::Head(8), transaction_hint(3, "a")]),
            3
        );
    }

    #[test]
    fn a_pending_block_counts_again_once_mined() {
        assert_eq!(
            generation_after(&[transaction_hint(7, "making"), transaction_hint(7, "there")]),
            2
        );
        assert_eq!(generation_after(&[transaction_hint(7, "making"), BlockHint::Head(7)]), 2);
        let of_flashblocks: Vec<_> =
            (0..8).map(|hash| transaction_hint(7, &format!("{hash}"))).collect();
        assert_eq!(
            generation_after(
                &[of_flashblocks.as_slice(), &[transaction_hint(7, "there")]].concat()
            ),
            9
        );
    }

    #[test]
    fn an_implausible_block_is_ignored() {
        let far = 100 + HeadHints::MAX_BLOCKS_AHEAD;
        assert_eq!(
            generation_after(&[BlockHint::Head(far + 1), transaction_hint(far + 1, "a")]),
            0
        );
        assert_eq!(
            generation_after(&[
                BlockHint::Head(far),
                BlockHint::Head(u64::MAX),
                transaction_hint(far, "a")
            ]),
            2
        );
    }
}
