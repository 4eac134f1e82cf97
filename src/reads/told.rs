//! What answers have told of the chain's head, which the polls may not have seen yet: after a receipt,
//! the state before its block must not be shown as the latest.

use std::sync::{Mutex, PoisonError};

/// What was told so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By `eth_blockNumber`.
    head: u64,
    /// The highest block of a receipt or a transaction, and its last hash: it is named while it is in
    /// the making, perhaps at each flashblock, and again when it is there.
    block: u64,
    hash: String,
    /// How often something new was told.
    news: u64,
}

/// A block that an answer tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// The newest there is.
    Head(u64),
    /// That of a transaction, by number and hash.
    OfTransaction(u64, String),
}

impl Told {
    /// A node that names a block further ahead of the polls is not believed: what it said would hide all
    /// news from then on.
    const MAX_AHEAD: u64 = 1024;

    /// How often something new was told: what was answered before the last time may be out of date.
    pub(super) fn news(&self) -> u64 {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).news
    }

    /// Takes note of a block, where the polls have seen `newest`.
    pub(super) fn learn(&self, block: Block, newest: Option<u64>) {
        let (Block::Head(number) | Block::OfTransaction(number, _)) = block;
        if newest.is_some_and(|newest| number > newest.saturating_add(Self::MAX_AHEAD)) {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = match block {
            Block::Head(number) => {
                let is_new = number > known.head;
                known.head = known.head.max(number);
                is_new
            }
            Block::OfTransaction(number, hash) => {
                let is_new = number > known.block || (number == known.block && hash != known.hash);
                if is_new {
                    (known.block, known.hash) = (number, hash);
                }
                is_new
            }
        };
        known.news = known.news.saturating_add(u64::from(is_new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often these are news.
    fn news(blocks: &[Block]) -> u64 {
        let told = Told::default();
        blocks.iter().cloned().for_each(|block| told.learn(block, Some(100)));
        told.news()
    }

    fn of_transaction(number: u64, hash: &str) -> Block {
        Block::OfTransaction(number, hash.into())
    }

    #[test]
    fn a_higher_head_and_a_higher_block_are_news_once() {
        assert_eq!(news(&[Block::Head(7), Block::Head(7), Block::Head(6)]), 1);
        assert_eq!(
            news(&[of_transaction(7, "a"), of_transaction(7, "a"), of_transaction(6, "b")]),
            1
        );
        assert_eq!(news(&[Block::Head(7), Block::Head(8), of_transaction(3, "a")]), 3);
    }

    #[test]
    fn a_block_that_was_in_the_making_is_news_again_when_it_is_there() {
        assert_eq!(news(&[of_transaction(7, "making"), of_transaction(7, "there")]), 2);
        assert_eq!(news(&[of_transaction(7, "making"), Block::Head(7)]), 2);
        let of_flashblocks: Vec<_> =
            (0..8).map(|hash| of_transaction(7, &format!("{hash}"))).collect();
        assert_eq!(news(&[of_flashblocks.as_slice(), &[of_transaction(7, "there")]].concat()), 9);
    }

    #[test]
    fn a_block_that_cannot_be_does_not_hide_what_comes() {
        let far = 100 + Told::MAX_AHEAD;
        assert_eq!(news(&[Block::Head(far + 1), of_transaction(far + 1, "a")]), 0);
        assert_eq!(news(&[Block::Head(far), Block::Head(u64::MAX), of_transaction(far, "a")]), 2);
    }
}
