//! The true blocks of a chain, and what nodes see of them.

use std::time::Duration;

use fastrand::Rng;

use crate::plan::{ChainFault, ChainPlan};

/// Blocks that exist when a world starts.
const PAST_BLOCKS: u64 = 1000;
/// Number of the first of them.
const FIRST_NUMBER: u64 = 1_000_000;

/// Percentiles of rewards that blocks have.
pub const PERCENTILES: [f64; 3] = [10.0, 60.0, 100.0];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub number: u64,
    /// Since the start of the world; negative before.
    pub time_ms: i64,
    pub base_fee: u128,
    pub gas_used_ratio: f64,
    /// At `PERCENTILES`.
    pub rewards: [u128; 3],
}

#[derive(Debug)]
pub struct Chain {
    pub plan: ChainPlan,
    pub blocks: Vec<Block>,
    /// Blocks that a reorganisation or a reset has replaced, with the time.
    pub replaced_at: Option<Duration>,
    next_at_ms: i64,
    tip: u128,
    rng: Rng,
    /// Faults that last.
    pub halted: bool,
    pub rushes: bool,
    pub pace: f64,
}

impl Chain {
    pub fn new(plan: ChainPlan, seed: u64) -> Self {
        let block_ms = plan.block_time.as_millis() as i64;
        let mut chain = Self {
            plan,
            blocks: Vec::new(),
            replaced_at: None,
            next_at_ms: -block_ms * PAST_BLOCKS as i64,
            tip: 1_000_000_000,
            rng: Rng::with_seed(seed),
            halted: false,
            rushes: false,
            pace: 1.0,
        };
        chain.advance(Duration::ZERO);
        chain
    }

    /// Makes the blocks that are due.
    pub fn advance(&mut self, now: Duration) {
        let now_ms = now.as_millis() as i64;
        while self.next_at_ms <= now_ms {
            let at = self.next_at_ms;
            let block_ms = (self.plan.block_time.as_millis() as f64 * self.pace).max(1.0) as i64;
            // One slot of thirty stays empty, and blocks are up to a tenth late.
            let missed = i64::from(self.rng.u8(..30) == 0);
            let late = self.rng.i64(0..=block_ms / 10);
            self.next_at_ms = at + block_ms * (1 + missed) + late - block_ms / 20;
            if !self.halted {
                let block = self.next_block(at);
                self.blocks.push(block);
            }
        }
    }

    pub fn newest(&self) -> &Block {
        self.blocks.last().expect("a chain has blocks")
    }

    /// Base fee of the block after this one: EIP-1559 with the denominator 8.
    pub fn base_fee_after(block: &Block) -> u128 {
        let base_fee = block.base_fee;
        let parts_of_million = (block.gas_used_ratio * 1_000_000.0) as u128;
        if parts_of_million >= 500_000 {
            base_fee + (base_fee * (parts_of_million - 500_000) / 500_000 / 8).max(1)
        } else {
            base_fee - base_fee * (500_000 - parts_of_million) / 500_000 / 8
        }
    }

    fn next_block(&mut self, time_ms: i64) -> Block {
        let (number, base_fee) = match self.blocks.last() {
            None => (FIRST_NUMBER, 10_000_000_000),
            Some(last) => (last.number + 1, Self::base_fee_after(last).max(1_000_000)),
        };
        let ratio = if self.rushes && base_fee < 100_000_000_000 {
            self.rng.u32(900_000..=1_000_000)
        } else if base_fee > 200_000_000_000 {
            self.rng.u32(..500_000)
        } else if base_fee < 1_000_000_000 {
            self.rng.u32(500_000..=1_000_000)
        } else {
            self.rng.u32(..=1_000_000)
        };
        let factor = u128::from(self.rng.u32(70..=140));
        let wanted = if self.rushes { self.tip * 130 / 100 } else { self.tip * factor / 104 };
        self.tip = wanted.clamp(100_000_000, 50_000_000_000);
        let tip = self.tip;
        Block {
            number,
            time_ms,
            base_fee,
            gas_used_ratio: f64::from(ratio) / 1_000_000.0,
            rewards: [tip * 6 / 10, tip, tip * 3],
        }
    }

    /// Starts a fault.
    pub fn begin(&mut self, fault: ChainFault, now: Duration) {
        self.advance(now);
        match fault {
            ChainFault::Halt => self.halted = true,
            ChainFault::Rush => self.rushes = true,
            ChainFault::Fast => self.pace = 0.5,
            ChainFault::Slow => self.pace = 2.0,
            ChainFault::Reorganisation(depth) => {
                let replaced = self.blocks.len().saturating_sub(depth as usize).max(1);
                let replaced = self.blocks.split_off(replaced);
                // The new branch is one block shorter at first.
                for block in &replaced[..replaced.len().saturating_sub(1)] {
                    let block = self.next_block(block.time_ms);
                    self.blocks.push(block);
                }
                self.replaced_at = Some(now);
            }
            ChainFault::Reset => {
                self.blocks.clear();
                for number in 0..30 {
                    let block_ms = self.plan.block_time.as_millis() as i64;
                    let time_ms = now.as_millis() as i64 - (30 - number) * block_ms;
                    let block = self.next_block(time_ms);
                    self.blocks.push(Block { number: number as u64, ..block });
                }
                self.replaced_at = Some(now);
            }
        }
    }

    /// Ends a fault.
    pub fn end(&mut self, fault: ChainFault, now: Duration) {
        self.advance(now);
        match fault {
            ChainFault::Halt => self.halted = false,
            ChainFault::Rush => self.rushes = false,
            ChainFault::Fast | ChainFault::Slow => self.pace = 1.0,
            ChainFault::Reorganisation(_) | ChainFault::Reset => {}
        }
    }
}
