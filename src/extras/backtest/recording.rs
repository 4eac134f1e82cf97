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
    /// The blocks.
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
    #[must_use]
    pub fn has_tips(&self) -> bool {
        !self.percentiles.is_empty()
    }

    /// Number of the newest block.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        let below = u64::try_from(self.blocks.len().saturating_sub(1)).unwrap_or(u64::MAX);
        self.oldest_block.saturating_add(below)
    }

    /// Returns the history whose newest block is `head`; `None` if there is no such block.
    #[must_use]
    pub fn history_at(&self, head: usize) -> Option<HistoryAt<'_>> {
        let newest = self.blocks.get(head)?;
        Some(HistoryAt { recording: self, newest, head, is_next_base_fee_known: true })
    }

    /// Returns the column of the rewards at `percentile`; `None` if it is not recorded. A neighbouring percentile would
    /// give other numbers.
    pub(crate) fn reward_column(&self, percentile: f64) -> Option<usize> {
        self.percentiles.iter().position(|recorded| (recorded - percentile).abs() <= 0.0)
    }
}

impl RecordedBlock {
    /// Returns the block's reward in this column, if it has one.
    pub(crate) fn reward(&self, column: usize) -> Option<u128> {
        self.rewards.as_ref()?.get(column).copied()
    }

    /// Returns true if the block is known to have no transactions.
    pub(crate) fn is_empty(&self) -> bool {
        self.gas_used_ratio.is_some_and(|ratio| ratio <= 0.0)
    }
}

/// The blocks up to one head, and the base fee of the next block, which usually follows from them.
#[derive(Debug, Clone, Copy)]
pub struct HistoryAt<'a> {
    recording: &'a Recording,
    newest: &'a RecordedBlock,
    head: usize,
    is_next_base_fee_known: bool,
}

impl<'a> HistoryAt<'a> {
    /// Base fee of the newest block.
    pub(crate) fn base_fee(&self) -> u128 {
        self.newest.base_fee
    }

    /// Replaces the next base fee with that of the newest block, for a chain whose base fees do not follow from the
    /// blocks before them.
    pub(crate) fn without_next_base_fee(self) -> Self {
        Self { is_next_base_fee_known: false, ..self }
    }

    /// Base fee of the next block; `None` at the end of the recording.
    pub(crate) fn next_base_fee(&self) -> Option<u128> {
        if !self.is_next_base_fee_known {
            return Some(self.base_fee());
        }
        Some(self.recording.blocks.get(self.head.checked_add(1)?)?.base_fee)
    }

    /// Returns the newest `count` blocks; `None` if there are fewer.
    pub(crate) fn window(&self, count: usize) -> Option<&'a [RecordedBlock]> {
        let end = self.head.checked_add(1)?;
        self.recording.blocks.get(end.checked_sub(count)?..end)
    }

    /// Number of blocks up to the head.
    pub(crate) fn count_blocks(&self) -> usize {
        self.head.saturating_add(1)
    }

    /// Returns the number of the oldest of the newest `count` blocks.
    pub(crate) fn oldest_in_window(&self, count: usize) -> Option<u64> {
        let offset = self.count_blocks().checked_sub(count)?;
        self.recording.oldest_block.checked_add(u64::try_from(offset).ok()?)
    }

    /// Returns the rewards at `percentile` of those of the newest `count` blocks that have any; `None` if the
    /// percentile is not recorded.
    pub(crate) fn rewards(&self, percentile: f64, count: usize) -> Option<Vec<u128>> {
        let column = self.recording.reward_column(percentile)?;
        Some(self.window(count)?.iter().filter_map(|block| block.reward(column)).collect())
    }

    /// Like [`rewards`](Self::rewards), with each block's gas used ratio.
    pub(crate) fn rewards_with_ratios(
        &self,
        percentile: f64,
        count: usize,
    ) -> Option<Vec<(Option<f64>, u128)>> {
        let column = self.recording.reward_column(percentile)?;
        let reward = |block: &RecordedBlock| Some((block.gas_used_ratio, block.reward(column)?));
        Some(self.window(count)?.iter().filter_map(reward).collect())
    }

    /// Returns, for each of the newest `count` blocks, the lowest recorded reward of at least `min_reward`; `None` if
    /// the lowest percentile is not recorded.
    pub(crate) fn lowest_rewards(&self, count: usize, min_reward: u128) -> Option<Vec<u128>> {
        self.recording.reward_column(0.0)?;
        let lowest = |block: &RecordedBlock| {
            let rewards = block.rewards.as_ref()?.iter().copied();
            rewards.filter(|reward| *reward >= min_reward).min()
        };
        Some(self.window(count)?.iter().filter_map(lowest).collect())
    }

    /// Returns the gas used ratios of the newest `count` blocks; `None` elements are unknown.
    pub(crate) fn ratios(&self, count: usize) -> Option<Vec<Option<f64>>> {
        Some(self.window(count)?.iter().map(|block| block.gas_used_ratio).collect())
    }

    /// Returns the history one block earlier.
    pub(crate) fn previous(&self) -> Option<Self> {
        self.recording.history_at(self.head.checked_sub(1)?)
    }

    pub(crate) fn recording(&self) -> &'a Recording {
        self.recording
    }
}
