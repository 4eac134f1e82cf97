//! The plan of a world: its chains, its replicas, and the faults, all of them chosen by the seed.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// A world before it runs.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub chains: Vec<ChainPlan>,
    pub replicas: usize,
    /// True if the replicas share polls through Redis.
    pub has_redis: bool,
    /// True if each replica keeps its price history in a file.
    pub keeps_history: bool,
    pub faults: Vec<Fault>,
    /// Time by which all must be fresh again.
    pub fresh_from: Duration,
    pub end: Duration,
}

#[derive(Debug, Clone)]
pub struct ChainPlan {
    pub block_time: Duration,
    pub nodes: usize,
    pub agreement: usize,
    /// Reads of clients that a node takes in a minute.
    pub reads_per_minute: u32,
    pub has_two_percentiles: bool,
}

/// Something that goes wrong for a while.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub at: Duration,
    pub lasts: Duration,
    pub what: What,
}

#[derive(Debug, Clone, Copy)]
pub enum What {
    Node(usize, usize, NodeFault),
    Chain(usize, ChainFault),
    Redis(RedisFault),
    /// The process of a replica is killed, and starts again at the end.
    Kill(usize),
    /// A replica is stopped as a deployment does, and starts again at the end.
    Stop(usize),
    /// The machine of all replicas stands still.
    Freeze,
    /// The machine of all replicas sleeps: its monotonic clock stands still, and the others do not.
    Sleep,
    /// The virtual machine of all replicas is paused, and none of its clocks counts that. So many seconds later its wall
    /// clock is set.
    Pause(u64),
    /// The clock of the machine is wrong by so many seconds.
    Clock(i64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NodeFault {
    /// Replies come so many milliseconds later.
    Slow(u64),
    /// No reply ever comes.
    Silent,
    Refused,
    /// The connection ends during the call.
    Dropped,
    /// An HTTP status with a page.
    Status(u16),
    RateLimited(RateLimit),
    NotJson,
    Empty,
    WrongId,
    NullResult,
    /// It returns no header, and denies that it syncs. Scenes alone have it.
    NoHeader,
    /// It returns no header, and says whether it syncs. Scenes alone have it.
    Headless,
    Unsupported,
    InternalError,
    /// So many blocks behind.
    Lag(u64),
    /// The head at the start of the fault stays.
    CutOff,
    /// Blocks of long ago, which advance.
    Syncing,
    /// Numbers that are too high.
    HeadAhead(u64),
    /// Numbers that are too low.
    HeadBehind(u64),
    /// Base fees that are ten times too high.
    HighBaseFees,
    /// The same of the newest three blocks alone. Scenes alone have it.
    BaseFeeLeap,
    /// Rewards that are three times too high.
    HighRewards,
    NoRewards,
    /// Another chain answers.
    WrongChain,
    /// At most so many blocks in a fee history.
    FewBlocks(u64),
    /// The last blocks are those of another branch.
    Branch(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateLimit {
    Status,
    /// With `Retry-After`, in seconds.
    RetryAfter(u32),
    Code,
    Words,
    /// 503 with `Retry-After`.
    Unavailable(u32),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChainFault {
    /// No blocks.
    Halt,
    /// The last blocks are replaced, at once.
    Reorganisation(u64),
    /// The chain starts anew with block 0, at once.
    Reset,
    /// Blocks are full, and tips are high.
    Rush,
    /// Blocks come at half of the time.
    Fast,
    /// Blocks come at twice the time.
    Slow,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RedisFault {
    Down,
    /// Connected, without replies.
    Hangs,
    /// Replies come so many milliseconds later.
    Slow(u64),
    ReadOnly,
    /// Messages are lost.
    LosesMessages,
    /// All data is lost, at once.
    Forgets,
    /// Another server without data takes over, whose clock differs by so many milliseconds.
    FailsOver(i64),
    /// All connections end, at once.
    Disconnects,
    /// Its clock steps by so many milliseconds, at once. Scenes alone have it.
    Steps(i64),
    /// Records and messages are other ones. Scenes alone have it.
    Garbles(Garbled),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Garbled {
    Empty,
    NoText,
    Half,
    /// The blocks have other numbers.
    Shifted(i64),
}

impl NodeFault {
    /// Returns true if what the node says is not true.
    pub fn is_lie(self) -> bool {
        matches!(
            self,
            Self::HeadAhead(_)
                | Self::HeadBehind(_)
                | Self::HighBaseFees
                | Self::BaseFeeLeap
                | Self::HighRewards
                | Self::WrongChain
                | Self::Branch(_)
        )
    }

    /// Longest time after which the node is asked again, as docs/reliability.md has it.
    fn recovery(self) -> Duration {
        match self {
            Self::Unsupported => Duration::from_secs(660),
            Self::WrongChain => Duration::from_secs(120),
            _ => Duration::from_secs(75),
        }
    }
}

impl Fault {
    /// Longest time after the fault in which it shows.
    pub fn recovery(&self) -> Duration {
        match self.what {
            What::Node(_, _, fault) => fault.recovery(),
            _ => Duration::from_secs(75),
        }
    }
}

impl Plan {
    /// Chooses the world of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let block_times = [250, 500, 1000, 2000, 2000, 3000, 12_000];
        let chains: Vec<_> = (0..rng.usize(1..=2))
            .map(|_| {
                let nodes = *pick(&mut rng, &[1, 2, 2, 3, 3, 4]);
                let agrees = nodes >= 3 && rng.u8(..4) == 0;
                ChainPlan {
                    block_time: Duration::from_millis(*pick(&mut rng, &block_times)),
                    nodes,
                    agreement: if agrees { 3 } else { 1 },
                    reads_per_minute: rng.u32(20..80),
                    has_two_percentiles: rng.u8(..5) == 0,
                }
            })
            .collect();
        let has_redis = rng.bool();
        let replicas = if has_redis { rng.usize(2..=3) } else { 1 };
        let keeps_history = rng.u8(..4) == 0;
        let faulty = Duration::from_secs(rng.u64(60..600));
        let mut faults: Vec<_> = (0..rng.usize(1..=12))
            .map(|_| random_fault(&mut rng, &chains, replicas, has_redis, faulty))
            .collect();
        faults.sort_by_key(|fault| fault.at);
        Self::with_faults(seed, chains, replicas, has_redis, keeps_history, faults)
    }

    /// Returns the world with other faults.
    pub fn with(&self, faults: Vec<Fault>) -> Self {
        let Self { seed, chains, replicas, has_redis, keeps_history, .. } = self.clone();
        Self::with_faults(seed, chains, replicas, has_redis, keeps_history, faults)
    }

    fn with_faults(
        seed: u64,
        chains: Vec<ChainPlan>,
        replicas: usize,
        has_redis: bool,
        keeps_history: bool,
        faults: Vec<Fault>,
    ) -> Self {
        let fresh = faults.iter().map(|fault| fault.at + fault.lasts + fault.recovery());
        // A head needs three polls to be believed, from a later URL ten block times more.
        let slowest = chains.iter().map(|chain| chain.block_time).max().unwrap_or_default();
        let fresh_from = fresh.max().unwrap_or_default().max(Duration::from_secs(60));
        let fresh_from = fresh_from + 5 * slowest;
        let end = fresh_from + Duration::from_secs(30) + 3 * slowest;
        Self { seed, chains, replicas, has_redis, keeps_history, faults, fresh_from, end }
    }
}

fn pick<'a, T>(rng: &mut Rng, values: &'a [T]) -> &'a T {
    &values[rng.usize(..values.len())]
}

fn random_fault(
    rng: &mut Rng,
    chains: &[ChainPlan],
    replicas: usize,
    has_redis: bool,
    faulty: Duration,
) -> Fault {
    let at = Duration::from_millis(rng.u64(..faulty.as_millis() as u64));
    let mut lasts = Duration::from_millis(rng.u64(200..90_000));
    let chain = rng.usize(..chains.len());
    let kinds = if has_redis { 22 } else { 18 };
    let what = match rng.u8(..kinds) {
        0..=9 => What::Node(chain, rng.usize(..chains[chain].nodes), random_node_fault(rng)),
        10 | 11 => What::Chain(
            chain,
            match rng.u8(..12) {
                0..=2 => ChainFault::Halt,
                3..=6 => ChainFault::Reorganisation(rng.u64(1..12)),
                7 => ChainFault::Reset,
                8 | 9 => ChainFault::Rush,
                10 => ChainFault::Fast,
                _ => ChainFault::Slow,
            },
        ),
        12 => What::Kill(rng.usize(..replicas)),
        13 => What::Stop(rng.usize(..replicas)),
        14 => {
            lasts = Duration::from_millis(rng.u64(100..90_000));
            What::Freeze
        }
        15 => What::Clock(rng.i64(-7200..7200)),
        16 | 17 => {
            lasts = Duration::from_millis(rng.u64(100..60_000) * *pick(rng, &[1, 1, 10]));
            if rng.bool() { What::Sleep } else { What::Pause(rng.u64(..20)) }
        }
        _ => What::Redis(match rng.u8(..8) {
            0 => RedisFault::Down,
            1 => RedisFault::Hangs,
            2 => RedisFault::Slow(rng.u64(1..900)),
            3 => RedisFault::ReadOnly,
            4 => RedisFault::LosesMessages,
            5 => RedisFault::Forgets,
            6 => RedisFault::FailsOver(rng.i64(-20_000..20_000)),
            _ => RedisFault::Disconnects,
        }),
    };
    if what.is_instant() {
        lasts = Duration::ZERO;
    }
    Fault { at, lasts, what }
}

fn random_node_fault(rng: &mut Rng) -> NodeFault {
    match rng.u8(..23) {
        0 => NodeFault::Slow(rng.u64(50..4000)),
        1 => NodeFault::Silent,
        2 => NodeFault::Refused,
        3 => NodeFault::Dropped,
        4 => NodeFault::Status(*pick(rng, &[302, 400, 403, 500, 502, 503])),
        5 => NodeFault::RateLimited(match rng.u8(..5) {
            0 => RateLimit::Status,
            1 => RateLimit::RetryAfter(rng.u32(..120)),
            2 => RateLimit::Code,
            3 => RateLimit::Words,
            _ => RateLimit::Unavailable(rng.u32(1..60)),
        }),
        6 => NodeFault::NotJson,
        7 => NodeFault::Empty,
        8 => NodeFault::WrongId,
        9 => NodeFault::NullResult,
        10 => NodeFault::Unsupported,
        11 => NodeFault::InternalError,
        12 => NodeFault::Lag(rng.u64(1..30)),
        13 => NodeFault::CutOff,
        14 => NodeFault::Syncing,
        15 => NodeFault::HeadAhead(*pick(rng, &[1, 3, 100, 1_000_000])),
        16 => NodeFault::HeadBehind(*pick(rng, &[3, 30, 200])),
        17 => NodeFault::HighBaseFees,
        18 => NodeFault::HighRewards,
        19 => NodeFault::NoRewards,
        20 => NodeFault::WrongChain,
        21 => NodeFault::FewBlocks(rng.u64(1..20)),
        _ => NodeFault::Branch(rng.u64(1..12)),
    }
}

impl What {
    fn is_instant(self) -> bool {
        matches!(
            self,
            Self::Chain(_, ChainFault::Reorganisation(_) | ChainFault::Reset)
                | Self::Redis(
                    RedisFault::Forgets
                        | RedisFault::FailsOver(_)
                        | RedisFault::Disconnects
                        | RedisFault::Steps(_)
                )
        )
    }

    /// Name of the kind, for counts.
    pub fn kind(self) -> String {
        let text = match self {
            Self::Node(_, _, fault) => format!("node {fault:?}"),
            Self::Chain(_, fault) => format!("chain {fault:?}"),
            Self::Redis(fault) => format!("Redis {fault:?}"),
            Self::Kill(_) => "kill".into(),
            Self::Stop(_) => "stop".into(),
            Self::Freeze => "freeze".into(),
            Self::Sleep => "sleep".into(),
            Self::Pause(_) => "pause".into(),
            Self::Clock(_) => "clock".into(),
        };
        text.split('(').next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(out, "{at:8.2} s  ")?;
        match self.what {
            What::Node(chain, node, fault) => {
                write!(out, "node {node} of chain {chain}: {fault:?}")
            }
            What::Chain(chain, fault) => write!(out, "chain {chain}: {fault:?}"),
            What::Redis(fault) => write!(out, "Redis: {fault:?}"),
            What::Kill(replica) => write!(out, "replica {replica} is killed"),
            What::Stop(replica) => write!(out, "replica {replica} stops in order"),
            What::Freeze => write!(out, "the machine stands still"),
            What::Sleep => write!(out, "the machine sleeps"),
            What::Pause(seconds) => {
                write!(out, "the virtual machine is paused, its clock set {seconds} s later")
            }
            What::Clock(seconds) => write!(out, "the machine's clock is wrong by {seconds} s"),
        }?;
        if self.lasts > Duration::ZERO {
            write!(out, ", for {:.2} s", self.lasts.as_secs_f64())?;
        }
        Ok(())
    }
}
