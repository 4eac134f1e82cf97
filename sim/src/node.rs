//! The nodes of a chain, and their replies.

use std::collections::VecDeque;
use std::time::Duration;

use axum::http::{Response, StatusCode};
use bytes::Bytes;
use gas_suggestion::nodes::Error;
use serde_json::{Value, json};

use crate::chain::{Block, Chain, PERCENTILES};
use crate::clock::WALL_START;
use crate::plan::{NodeFault, RateLimit};

/// A node. Its view of the chain is a little late.
#[derive(Debug)]
pub struct Node {
    pub faults: Vec<NodeFault>,
    /// Number of the newest block at the start of `CutOff`.
    pub cut_off_at: Option<u64>,
    /// Milliseconds until a new block arrives.
    pub delay_ms: i64,
    /// Longest time of a call in milliseconds.
    pub latency_ms: u64,
    /// Times of polls, by replica.
    pub polls: Vec<VecDeque<Duration>>,
    /// Times of clients' reads, by replica.
    pub reads: Vec<VecDeque<Duration>>,
}

/// A reply of a node to a poll, as far as promises depend on it.
#[derive(Debug, Clone)]
pub struct Said {
    pub at: Duration,
    pub node: usize,
    pub head: u64,
    /// The suggestion that follows: base fee and tips.
    pub price: Price,
    /// Age of the newest block by its header.
    pub block_age: Duration,
    pub is_honest: bool,
    pub is_other_chain: bool,
}

/// The suggestion of the network's rule, computed here on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub base_fee: u128,
    pub medium: u128,
    pub high: u128,
}

/// One call to a node.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

impl Call {
    pub fn parse(body: &[u8]) -> Option<Self> {
        let call: Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| Some(call.get(name)?.as_str()?.to_owned());
        Some(Self {
            id: call.get("id")?.clone(),
            method: text("method")?,
            params: call.get("params").cloned().unwrap_or_default(),
        })
    }

    /// Returns true if it is the call of polls: the newest twenty blocks.
    pub fn is_poll(&self) -> bool {
        self.method == "eth_feeHistory" && self.params[1] == "latest"
    }
}

/// Blocks as a node shows them.
struct View {
    blocks: Vec<Block>,
    /// Added to numbers.
    shift: i128,
    is_honest: bool,
}

impl Node {
    pub fn new(replicas: usize, delay_ms: i64, latency_ms: u64) -> Self {
        Self {
            faults: Vec::new(),
            cut_off_at: None,
            delay_ms,
            latency_ms,
            polls: vec![VecDeque::new(); replicas],
            reads: vec![VecDeque::new(); replicas],
        }
    }

    fn has(&self, wanted: impl Fn(&NodeFault) -> bool) -> bool {
        self.faults.iter().any(wanted)
    }

    /// Returns the failure of a call that arrives, before the node looks at it.
    pub fn connection_failure(&self) -> Option<Error> {
        self.faults.iter().find_map(|fault| match fault {
            NodeFault::Refused => Some(Error::Unreachable("connection refused".into())),
            NodeFault::Dropped => Some(Error::Transport("connection reset".into())),
            _ => None,
        })
    }

    pub fn is_silent(&self) -> bool {
        self.has(|fault| *fault == NodeFault::Silent)
    }

    /// Milliseconds that replies come later.
    pub fn slowness(&self) -> u64 {
        let slow = |fault: &NodeFault| if let NodeFault::Slow(ms) = fault { *ms } else { 0 };
        self.faults.iter().map(slow).sum()
    }

    /// Returns the response to a call, and what it says of the newest blocks.
    pub fn answer(
        &self,
        chain: &Chain,
        chain_id: u64,
        index: usize,
        call: &Call,
        now: Duration,
    ) -> (Response<Bytes>, Option<Said>) {
        if let Some(refused) = self.faults.iter().find_map(|fault| refusal(*fault, call)) {
            return (refused, None);
        }
        let view = self.view(chain, now);
        let is_other = self.has(|fault| *fault == NodeFault::WrongChain);
        let mut said = None;
        let result = match call.method.as_str() {
            "eth_chainId" => Ok(json!(format!("{:#x}", chain_id + u64::from(is_other)))),
            "eth_blockNumber" => Ok(json!(hex(view.number(view.newest())))),
            "eth_getBlockByNumber" => Ok(view.header(&call.params[0])),
            "eth_syncing" if self.faults.contains(&NodeFault::NoHeader) => Ok(json!(false)),
            "eth_syncing" if self.faults.contains(&NodeFault::Syncing) => Ok(json!({})),
            "eth_syncing" => Ok(json!(false)),
            "eth_getBalance" => Ok(json!("0x1")),
            "eth_feeHistory" => self.fee_history(&view, call, index, now, &mut said),
            _ => Err(json!({"code": -32601, "message": "the method does not exist"})),
        };
        let mut reply = json!({"jsonrpc": "2.0", "id": call.id});
        match result {
            Ok(result) => reply["result"] = result,
            Err(error) => reply["error"] = error,
        }
        (respond(StatusCode::OK, reply.to_string()), said)
    }

    fn view(&self, chain: &Chain, now: Duration) -> View {
        let now_ms = now.as_millis() as i64;
        let known_at = now_ms - self.delay_ms;
        let mut blocks: Vec<Block> =
            chain.blocks.iter().copied().filter(|block| block.time_ms <= known_at).collect();
        if blocks.is_empty() {
            blocks = chain.blocks[..1].to_vec();
        }
        let mut view = View { blocks, shift: 0, is_honest: true };
        for fault in &self.faults {
            view.apply(*fault, self.cut_off_at);
        }
        view
    }

    fn fee_history(
        &self,
        view: &View,
        call: &Call,
        index: usize,
        now: Duration,
        said: &mut Option<Said>,
    ) -> Result<Value, Value> {
        let invalid = || json!({"code": -32602, "message": "invalid params"});
        let count = quantity(&call.params[0]).ok_or_else(invalid)?;
        let count = self.faults.iter().fold(count, |count, fault| match fault {
            NodeFault::FewBlocks(few) => count.min(*few),
            _ => count,
        });
        let wanted: Vec<f64> =
            call.params[2].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let columns: Option<Vec<usize>> = wanted
            .iter()
            .map(|wanted| PERCENTILES.iter().position(|known| (known - wanted).abs() < 1e-9))
            .collect();
        let columns = columns.ok_or_else(invalid)?;
        let newest = if call.params[1] == "latest" {
            view.blocks.len()
        } else {
            let number = u128::from(quantity(&call.params[1]).ok_or_else(invalid)?);
            let position = view.blocks.iter().position(|block| view.number(block) == number);
            let unknown = || json!({"code": -32000, "message": "request beyond head block"});
            position.ok_or_else(unknown)? + 1
        };
        let first = newest.saturating_sub(count as usize);
        let blocks = &view.blocks[first..newest];
        let last = blocks.last().ok_or_else(invalid)?;
        let mut base_fees: Vec<u128> = blocks.iter().map(|block| block.base_fee).collect();
        base_fees.push(Chain::base_fee_after(last));
        let has_rewards = !self.has(|fault| *fault == NodeFault::NoRewards);
        let rewards: Vec<Vec<u128>> = blocks
            .iter()
            .map(|block| columns.iter().map(|column| block.rewards[*column]).collect())
            .collect();
        if call.is_poll() && has_rewards {
            *said = Some(Said {
                at: now,
                node: index,
                // No number is below 0, so that the head of a node that lies downwards may be a higher one.
                head: view.number(&blocks[0]) as u64 + blocks.len() as u64 - 1,
                price: Price::new(&base_fees[..blocks.len()], &rewards),
                block_age: age(last, now),
                is_honest: view.is_honest,
                is_other_chain: self.has(|fault| *fault == NodeFault::WrongChain),
            });
        }
        let quantities = |amounts: &[u128]| amounts.iter().map(|it| hex(*it)).collect::<Vec<_>>();
        let mut result = json!({
            "oldestBlock": hex(view.number(&blocks[0])),
            "baseFeePerGas": quantities(&base_fees),
            "gasUsedRatio": blocks.iter().map(|block| block.gas_used_ratio).collect::<Vec<_>>(),
        });
        if has_rewards {
            result["reward"] = rewards.iter().map(|row| quantities(row)).collect::<Vec<_>>().into();
        }
        Ok(result)
    }
}

impl View {
    fn newest(&self) -> &Block {
        self.blocks.last().expect("a view has blocks")
    }

    fn number(&self, block: &Block) -> u128 {
        (i128::from(block.number) + self.shift).max(0) as u128
    }

    fn keep(&mut self, count: usize) {
        self.blocks.truncate(count.max(1));
    }

    fn apply(&mut self, fault: NodeFault, cut_off_at: Option<u64>) {
        self.is_honest &= !fault.is_lie();
        let count = self.blocks.len();
        match fault {
            NodeFault::Lag(blocks) => self.keep(count.saturating_sub(blocks as usize)),
            NodeFault::CutOff => {
                let at = cut_off_at.unwrap_or(u64::MAX);
                let known = self.blocks.iter().filter(|block| block.number <= at).count();
                self.keep(known);
            }
            NodeFault::Syncing => self.keep(count.saturating_sub(900)),
            NodeFault::HeadAhead(blocks) => self.shift += i128::from(blocks),
            NodeFault::HeadBehind(blocks) => self.shift -= i128::from(blocks),
            NodeFault::HighBaseFees => {
                self.change(usize::MAX, |block| block.base_fee *= 10);
            }
            NodeFault::BaseFeeLeap => self.change(3, |block| block.base_fee *= 10),
            NodeFault::HighRewards => {
                self.change(usize::MAX, |block| block.rewards = block.rewards.map(|it| it * 3));
            }
            NodeFault::Branch(depth) => self.change(depth as usize, |block| {
                block.rewards = block.rewards.map(|it| it * 11 / 10);
                block.gas_used_ratio = 1.0 - block.gas_used_ratio;
            }),
            NodeFault::WrongChain => {
                self.shift += 5_000_000;
                self.change(usize::MAX, |block| {
                    block.base_fee = block.base_fee * 7 / 3;
                    block.rewards = block.rewards.map(|it| it * 5);
                });
            }
            _ => {}
        }
    }

    fn change(&mut self, newest: usize, change: impl Fn(&mut Block)) {
        let first = self.blocks.len().saturating_sub(newest);
        self.blocks[first..].iter_mut().for_each(change);
    }

    fn header(&self, tag: &Value) -> Value {
        let block = if tag == "latest" {
            Some(self.newest())
        } else {
            let number = quantity(tag).map(u128::from);
            self.blocks.iter().find(|block| Some(self.number(block)) == number)
        };
        let Some(block) = block else { return Value::Null };
        let seconds = WALL_START.as_secs() as i64 + block.time_ms.div_euclid(1000);
        json!({
            "number": hex(self.number(block)),
            "timestamp": hex(seconds as u128),
            "baseFeePerGas": hex(block.base_fee),
            "extraData": "0x",
        })
    }
}

impl Price {
    fn new(base_fees: &[u128], rewards: &[Vec<u128>]) -> Self {
        let average = |sum: u128, count: usize| sum / (count as u128).max(1);
        let column =
            |index: usize| average(rewards.iter().map(|row| row[index]).sum(), rewards.len());
        let medium = column(0);
        let high = match rewards.first() {
            Some(row) if row.len() == 2 => column(1).max(medium),
            _ => medium * 12 / 10,
        };
        Self { base_fee: 2 * average(base_fees.iter().sum(), base_fees.len()), medium, high }
    }
}

/// Returns the age of a block by the seconds in its header.
fn age(block: &Block, now: Duration) -> Duration {
    let whole_seconds = block.time_ms.div_euclid(1000) * 1000;
    Duration::from_millis((now.as_millis() as i64 - whole_seconds).max(0) as u64)
}

fn refusal(fault: NodeFault, call: &Call) -> Option<Response<Bytes>> {
    let error = |status: u16, code: i64, message: &str| {
        let error = json!({"code": code, "message": message});
        let reply = json!({"jsonrpc": "2.0", "id": call.id, "error": error});
        respond(StatusCode::from_u16(status).expect("a status"), reply.to_string())
    };
    let later = |status: u16, seconds: u32| {
        let mut response = respond(StatusCode::from_u16(status).expect("a status"), "later".into());
        response.headers_mut().insert("retry-after", seconds.into());
        response
    };
    Some(match fault {
        NodeFault::Status(status) => {
            respond(StatusCode::from_u16(status).expect("a status"), "<html></html>".into())
        }
        NodeFault::RateLimited(limit) => match limit {
            RateLimit::Status => respond(StatusCode::TOO_MANY_REQUESTS, String::new()),
            RateLimit::RetryAfter(seconds) => later(429, seconds),
            RateLimit::Code => error(200, -32005, "limit exceeded"),
            RateLimit::Words => {
                error(200, -32000, "daily request count exceeded, request rate limited")
            }
            RateLimit::Unavailable(seconds) => later(503, seconds),
        },
        NodeFault::NotJson => respond(StatusCode::OK, "<html></html>".into()),
        NodeFault::Empty => respond(StatusCode::OK, String::new()),
        NodeFault::WrongId => {
            let reply = json!({"jsonrpc": "2.0", "id": "other", "result": "0x1"});
            respond(StatusCode::OK, reply.to_string())
        }
        NodeFault::NullResult => {
            let reply = json!({"jsonrpc": "2.0", "id": call.id, "result": null});
            respond(StatusCode::OK, reply.to_string())
        }
        NodeFault::NoHeader | NodeFault::Headless if call.method == "eth_getBlockByNumber" => {
            error(200, -32000, "header not found")
        }
        NodeFault::Unsupported if call.method == "eth_feeHistory" => {
            error(200, -32601, "the method eth_feeHistory does not exist")
        }
        NodeFault::InternalError => error(500, -32603, "internal error"),
        _ => return None,
    })
}

fn respond(status: StatusCode, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response
}

fn hex(value: u128) -> String {
    format!("{value:#x}")
}

fn quantity(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        value => value.as_u64(),
    }
}
