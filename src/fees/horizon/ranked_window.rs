//! A set of ranks that finds its highest ones fast.

use std::collections::VecDeque;

/// The newest of some amounts, by their ranks among all of them. To add one takes constant time, and to find the highest
/// ones takes a few words, so that one window per cell costs little.
#[derive(Debug, Clone)]
pub(super) struct RankedWindow {
    capacity: usize,
    /// In the order in which they came.
    ranks: VecDeque<usize>,
    /// A bit for each rank.
    bits: [u64; Self::WORDS],
}

impl RankedWindow {
    const WORDS: usize = super::BLOCKS.div_ceil(Self::WORD_BITS);
    const WORD_BITS: usize = 64;

    /// Creates an empty window of the newest `capacity` amounts.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, ranks: VecDeque::with_capacity(capacity), bits: [0; Self::WORDS] }
    }

    /// Number of amounts.
    pub(super) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns true if the next amount replaces the oldest one.
    pub(super) fn is_full(&self) -> bool {
        self.ranks.len() >= self.capacity
    }

    /// Adds an amount by its rank, which no other amount has. It is below the number of blocks.
    pub(super) fn push(&mut self, rank: usize) {
        if self.is_full()
            && let Some(oldest) = self.ranks.pop_front()
        {
            self.flip(oldest);
        }
        self.ranks.push_back(rank);
        self.flip(rank);
    }

    fn flip(&mut self, rank: usize) {
        if let Some(word) = self.bits.get_mut(rank / Self::WORD_BITS) {
            *word ^= 1 << (rank % Self::WORD_BITS);
        }
    }

    /// Returns the rank of the `position`-th highest amount, from 1 on; `None` if there are fewer.
    pub(super) fn highest(&self, position: usize) -> Option<usize> {
        let mut left = u32::try_from(position.checked_sub(1)?).ok()?;
        for (index, word) in self.bits.iter().enumerate().rev() {
            let count = word.count_ones();
            if left < count {
                return Some(index * Self::WORD_BITS + highest_bit(*word, left));
            }
            left -= count;
        }
        None
    }
}

/// Returns the position of a bit of `word` that has `left` set bits above it. There is one.
fn highest_bit(mut word: u64, mut left: u32) -> usize {
    let mut position = 0;
    for width in [32, 16, 8, 4, 2, 1] {
        let upper = word >> width;
        let count = upper.count_ones();
        if left < count {
            word = upper;
            position += width;
        } else {
            left -= count;
            word &= (1 << width) - 1;
        }
    }
    position
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_highest_ranks_of_the_newest_amounts_are_found(
            ranks in Just((0..crate::fees::horizon::BLOCKS).collect::<Vec<_>>()).prop_shuffle(),
            capacity in 1..250_usize,
        ) {
            let mut window = RankedWindow::new(capacity);
            for (index, rank) in ranks.iter().enumerate() {
                window.push(*rank);
                let mut known = ranks[(index + 1).saturating_sub(capacity)..=index].to_vec();
                known.sort_unstable_by(|one, other| other.cmp(one));
                prop_assert_eq!(window.len(), known.len());
                for position in [0, 1, 2, known.len() / 2, known.len(), known.len() + 1] {
                    let expected = position.checked_sub(1).and_then(|index| known.get(index));
                    prop_assert_eq!(window.highest(position), expected.copied());
                }
            }
        }
    }
}
