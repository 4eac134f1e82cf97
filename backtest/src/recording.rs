//! Recorded blocks of one chain, and the history that was known at each of them.

/// Consecutive blocks of one chain, oldest first; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Display name: the path of the file, or a description of the source.
    pub name: String,
    /// Number of the first block.
    pub oldest_block: u64,
    /// Percentiles of each block's rewards, ascending; empty if no tips are recorded.
    pub percentiles: Vec<f64>,
    pub blocks: Vec<RecordedBlock>,
}

/// One mined block.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedBlock {
    /// In wei.
    pub base_fee: u128,
    /// Gas used divided by gas limit, from 0 to 1; `None`: unknown.
    pub gas_used_ratio: Option<f64>,
    /// Priority fees of its transactions in wei, one per percentile of the recording; `None` if unknown.
    pub rewards: Option<Vec<u128>>,
}

impl Recording {
    /// Returns true if tips are recorded.
    pub fn has_tips(&self) -> bool {
        !self.percentiles.is_empty()
    }

    /// Returns the history whose newest block is at the position `head`.
    pub fn history_at(&self, head: usize) -> HistoryAt<'_> {
        HistoryAt { recording: self, head, is_next_base_fee_known: true }
    }

    /// Returns the column of the rewards at `percentile`; `None` if it is not recorded. A neighbouring percentile would
    /// give other numbers.
    pub fn reward_column(&self, percentile: f64) -> Option<usize> {
        self.percentiles.iter().position(|recorded| recorded.total_cmp(&percentile).is_eq())
    }
}

impl RecordedBlock {
    /// Returns the block's reward in this column, if it has one.
    pub fn reward(&self, column: usize) -> Option<u128> {
        self.rewards.as_ref().map(|rewards| rewards[column])
    }

    /// Like [`reward`](Self::reward); `None` without a column.
    pub fn reward_in(&self, column: Option<usize>) -> Option<u128> {
        self.reward(column?)
    }

    /// Returns true if the block is known to have no transactions.
    pub fn is_empty(&self) -> bool {
        self.gas_used_ratio.is_some_and(|ratio| ratio <= 0.0)
    }
}

/// The blocks up to one head, and the base fee of the next block, which usually follows from them.
#[derive(Debug, Clone, Copy)]
pub struct HistoryAt<'a> {
    pub recording: &'a Recording,
    /// Position of the newest block.
    pub head: usize,
    /// False for a chain whose base fees do not follow from the blocks before them: the newest one replaces the next.
    pub is_next_base_fee_known: bool,
}

impl<'a> HistoryAt<'a> {
    /// Base fee of the newest block.
    pub fn base_fee(&self) -> u128 {
        self.recording.blocks[self.head].base_fee
    }

    /// Base fee of the next block; `None` at the end of the recording.
    pub fn next_base_fee(&self) -> Option<u128> {
        let position = self.head + usize::from(self.is_next_base_fee_known);
        self.recording.blocks.get(position).map(|block| block.base_fee)
    }

    /// Returns the newest `count` blocks; `None` if there are fewer.
    pub fn window(&self, count: usize) -> Option<&'a [RecordedBlock]> {
        let end = self.head + 1;
        self.recording.blocks.get(end.checked_sub(count)?..end)
    }

    /// Returns the rewards at `percentile` of those of the newest `count` blocks that have any; `None` if the
    /// percentile is not recorded.
    pub fn rewards(&self, percentile: f64, count: usize) -> Option<Vec<u128>> {
        self.rewards_in(percentile, count, |_| true)
    }

    /// Like [`rewards`](Self::rewards), without the blocks that are not `wanted`.
    pub fn rewards_in(
        &self,
        percentile: f64,
        count: usize,
        wanted: impl Fn(&RecordedBlock) -> bool,
    ) -> Option<Vec<u128>> {
        let column = self.recording.reward_column(percentile)?;
        let wanted = self.window(count)?.iter().filter(|block| wanted(block));
        Some(wanted.filter_map(|block| block.reward(column)).collect())
    }

    /// Returns the known gas used ratios of the newest `count` blocks; `None` if there are fewer blocks.
    pub fn ratios(&self, count: usize) -> Option<Vec<f64>> {
        Some(self.window(count)?.iter().filter_map(|block| block.gas_used_ratio).collect())
    }

    /// Returns the history one block earlier.
    pub fn previous(&self) -> Option<Self> {
        Some(Self { head: self.head.checked_sub(1)?, ..*self })
    }
}
