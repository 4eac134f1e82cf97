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
    /// The highest block of a receipt or a transaction, and the hashes that it was given: it is named
    /// while it is in the making, and again when it is there.
    block: u64,
    hashes: Vec<String>,
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
    /// No more are kept of one block: a node that names a new one each time does not take the answers
    /// their use.
    const MAX_HASHES: usize = 8;

    /// How often something new was told: what was answered before the last time may be out of date.
    pub(super) fn news(&self) -> u64 {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).news
    }

    pub(super) fn learn(&self, block: Block) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = match block {
            Block::Head(number) if number > known.head => {
                known.head = number;
                true
            }
            Block::OfTransaction(number, hash) if number >= known.block => {
                if number > known.block {
                    known.block = number;
                    known.hashes.clear();
                }
                let is_new = !known.hashes.contains(&hash) && known.hashes.len() < Self::MAX_HASHES;
                if is_new {
                    known.hashes.push(hash);
                }
                is_new
            }
            Block::Head(_) | Block::OfTransaction(..) => false,
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
        blocks.iter().cloned().for_each(|block| told.learn(block));
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
        let many: Vec<_> = (0..100).map(|hash| of_transaction(7, &format!("{hash}"))).collect();
        assert_eq!(news(&many), 8);
    }
}
