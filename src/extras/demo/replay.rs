//! Replays a recording as a live chain: one block per block time, for ever.
//!
//! The head is a function of the time since the start, so no task runs in the background. After the last recorded block
//! the first one follows with a new, higher number. The base fee jumps there. In the same way the recording repeats
//! before the start, so that the service finds a history.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::recording::DemoRecording;
use crate::nodes::parse_hex;
use crate::observe::clock;

/// A recorded chain that advances with time.
#[derive(Debug)]
pub struct Replay {
    recording: DemoRecording,
    timing: BlockTiming,
    /// Number of blocks before the first recorded one: a multiple of their number.
    past_blocks: u64,
    started: Instant,
    started_at_wall_clock: SystemTime,
}

/// Times of the blocks of a replayed chain.
#[derive(Debug, Clone, Copy)]
pub struct BlockTiming {
    /// Time between two blocks.
    pub block_time: Duration,
    /// Percentage of the block time by which a block may be early or late; below 50.
    pub jitter: u8,
}

impl BlockTiming {
    /// Returns when the new block with this index is due, as a time since the start. Jitter moves each block by its own
    /// amount but never changes their order.
    #[must_use]
    pub fn block_due(self, index: u64) -> Duration {
        // Spreads neighbouring indices widely (fraction of the golden ratio).
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let noise = u32::try_from(index.wrapping_mul(GOLDEN_RATIO) >> 54).unwrap_or_default();
        let regular = self.block_time.saturating_mul(u32::try_from(index).unwrap_or(u32::MAX));
        let max_jitter = self.block_time * u32::from(self.jitter) / 100;
        (regular + max_jitter * 2 * noise / 1024).saturating_sub(max_jitter)
    }

    /// Returns the number of new blocks that are due by this time since the start.
    pub(crate) fn blocks_by(self, elapsed: Duration) -> u64 {
        let passed = elapsed.as_nanos() / self.block_time.as_nanos().max(1);
        let next = u64::try_from(passed).unwrap_or(u64::MAX).saturating_add(1);
        let not_yet_due =
            (0..2).take_while(|back| *back < next && self.block_due(next - back) > elapsed).count();
        next.saturating_sub(u64::try_from(not_yet_due).unwrap_or_default())
    }
}

/// A JSON-RPC error: code and message.
pub(crate) type RpcErrorReply = (i64, &'static str);

const INVALID_PARAMS: i64 = -32602;
/// geth's code for a block that does not exist yet.
const SERVER_ERROR: i64 = -32000;
const NOT_RECORDED: &str = "not part of the demo: its chains answer eth_feeHistory, eth_blockNumber, \
                            eth_getBlockByNumber, eth_chainId and net_version";

impl Replay {
    /// Number of recorded blocks at the start, besides the past: a window of the default size.
    const BLOCKS_AT_START: u64 = 20;
    /// Number of repetitions before the start: a day of blocks, at the default block time.
    const PAST_REPETITIONS: u64 = 43;
    /// geth's limit per call.
    const MAX_BLOCKS: u64 = 1024;

    /// Starts the replay of `recording` with this timing.
    #[must_use]
    pub fn start_now(recording: DemoRecording, timing: BlockTiming) -> Self {
        let blocks = u64::try_from(recording.blocks()).unwrap_or(u64::MAX).max(1);
        let repetitions = Self::PAST_REPETITIONS.min(recording.oldest_block / blocks);
        Self {
            recording,
            timing,
            past_blocks: repetitions.saturating_mul(blocks),
            started: clock::now(),
            started_at_wall_clock: SystemTime::now(),
        }
    }

    /// The replayed recording.
    #[must_use]
    pub fn recording(&self) -> &DemoRecording {
        &self.recording
    }

    /// Handles one call.
    pub(crate) fn call(&self, method: &str, params: &[Value]) -> Result<Value, RpcErrorReply> {
        match method {
            "eth_chainId" => Ok(to_hex(self.recording.chain_id)),
            "net_version" => Ok(self.recording.chain_id.to_string().into()),
            "eth_blockNumber" => Ok(to_hex(self.number(self.head_position()))),
            "eth_feeHistory" => self.fee_history(params),
            "eth_getBlockByNumber" => self.block(params),
            // A node's usual code would mean that another upstream may know the method.
            _ => Err((SERVER_ERROR, NOT_RECORDED)),
        }
    }

    /// Position of the newest block at the start.
    fn first_head_position(&self) -> u64 {
        self.past_blocks.saturating_add(Self::BLOCKS_AT_START - 1)
    }

    /// Number of blocks before the newest one.
    fn head_position(&self) -> u64 {
        self.timing
            .blocks_by(clock::elapsed(self.started))
            .saturating_add(self.first_head_position())
    }

    /// Number of the block at position 0.
    fn first_number(&self) -> u64 {
        self.recording.oldest_block.saturating_sub(self.past_blocks)
    }

    fn number(&self, position: u64) -> u64 {
        self.first_number().saturating_add(position)
    }

    /// Returns the index in the recording of the block at `position`.
    fn recording_index(&self, position: u64) -> usize {
        let blocks = u64::try_from(self.recording.blocks()).unwrap_or(u64::MAX);
        usize::try_from(position % blocks).unwrap_or_default()
    }

    /// Returns the position of a block tag or number.
    fn resolve_block(&self, tag: Option<&Value>) -> Result<u64, RpcErrorReply> {
        let invalid_tag = (INVALID_PARAMS, "expected a block tag or a 0x number");
        let tag = tag.and_then(Value::as_str).ok_or(invalid_tag)?;
        match tag {
            "latest" | "pending" | "safe" | "finalized" => Ok(self.head_position()),
            "earliest" => Ok(0),
            number => {
                let number = parse_hex(number).ok_or(invalid_tag)?;
                let position = number.checked_sub(self.first_number());
                position
                    .filter(|position| *position <= self.head_position())
                    .ok_or((SERVER_ERROR, "the block is outside the recorded chain"))
            }
        }
    }

    fn fee_history(&self, params: &[Value]) -> Result<Value, RpcErrorReply> {
        let count = params.first().and_then(|count| match count {
            Value::String(text) => parse_hex(text),
            count => count.as_u64(),
        });
        let count = count
            .filter(|count| *count > 0)
            .ok_or((INVALID_PARAMS, "expected a block count above 0"))?;
        let newest = self.resolve_block(params.get(1))?;
        let columns = self.columns(params.get(2))?;
        let count = count.min(Self::MAX_BLOCKS).min(newest.saturating_add(1));
        let oldest = newest.saturating_sub(count - 1);

        let recording = &self.recording;
        let indices: Vec<usize> =
            (oldest..=newest).map(|position| self.recording_index(position)).collect();
        let next = indices.last().map(|index| index.saturating_add(1));
        let base_fees = indices.iter().copied().chain(next);
        let base_fees: Vec<Value> = base_fees
            .filter_map(|index| recording.base_fee_per_gas.get(index).copied().map(to_hex))
            .collect();
        let ratios: Vec<f64> = indices
            .iter()
            .filter_map(|index| recording.gas_used_ratio.get(*index).copied())
            .collect();
        let mut reply = json!({
            "oldestBlock": to_hex(self.number(oldest)),
            "baseFeePerGas": base_fees,
            "gasUsedRatio": ratios,
        });
        if let (Some(members), false) = (reply.as_object_mut(), columns.is_empty()) {
            let rows = indices.iter().filter_map(|index| recording.reward.get(*index));
            let pick = |row: &Vec<u64>| -> Value {
                columns.iter().filter_map(|column| row.get(*column).copied().map(to_hex)).collect()
            };
            members.insert("reward".into(), rows.map(pick).collect());
        }
        Ok(reply)
    }

    /// Rejects percentiles that were not recorded, because their rewards are unknown.
    fn columns(&self, percentiles: Option<&Value>) -> Result<Vec<usize>, RpcErrorReply> {
        let unknown_percentile = (INVALID_PARAMS, "expected recorded percentiles: 0, 5, …, 100");
        let Some(percentiles) = percentiles else {
            return Ok(Vec::new());
        };
        let percentiles = percentiles.as_array().ok_or(unknown_percentile)?;
        let column = |percentile: &Value| {
            percentile
                .as_f64()
                .and_then(|value| self.recording.column(value))
                .ok_or(unknown_percentile)
        };
        percentiles.iter().map(column).collect()
    }

    /// Returns a block with the recorded members, and the time of the replay.
    fn block(&self, params: &[Value]) -> Result<Value, RpcErrorReply> {
        let position = match self.resolve_block(params.first()) {
            Ok(position) => position,
            Err((SERVER_ERROR, _)) => return Ok(Value::Null),
            Err(error) => return Err(error),
        };
        let base_fee = self.recording.base_fee_per_gas.get(self.recording_index(position)).copied();
        Ok(json!({
            "number": to_hex(self.number(position)),
            "timestamp": to_hex(self.timestamp(position)),
            "baseFeePerGas": base_fee.map(to_hex),
        }))
    }

    /// Returns when the block at `position` was produced, or would have been before the start, in seconds since 1970.
    fn timestamp(&self, position: u64) -> u64 {
        let block_times = |count: u64| {
            self.timing.block_time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
        };
        let since_epoch = self.started_at_wall_clock.duration_since(UNIX_EPOCH).unwrap_or_default();
        since_epoch
            .saturating_add(block_times(position))
            .saturating_sub(block_times(self.first_head_position()))
            .as_secs()
    }
}

fn to_hex(number: u64) -> Value {
    format!("{number:#x}").into()
}
