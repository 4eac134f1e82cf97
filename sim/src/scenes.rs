//! Worlds in which the simulator has found a broken promise, with the faults that it takes. They run before the seeds.

use std::time::Duration;

use crate::plan::{
    ChainFault, ChainPlan, Fault, Garbled, NodeFault, Plan, RateLimit, RedisFault, What,
};

/// Returns the scenes with their names, each with some seeds.
#[expect(clippy::too_many_lines, reason = "it is a list")]
pub fn all() -> Vec<(&'static str, Plan)> {
    let chain = |milliseconds, nodes, agreement| ChainPlan {
        block_time: Duration::from_millis(milliseconds),
        nodes,
        agreement,
        reads_per_minute: 60,
        has_two_percentiles: false,
    };
    let fault = |at: u64, lasts: u64, what| Fault {
        at: Duration::from_secs(at),
        lasts: Duration::from_secs(lasts),
        what,
    };
    let node = |at, lasts, node, kind| fault(at, lasts, What::Node(0, node, kind));
    let step = |milliseconds| vec![fault(100, 0, What::Redis(RedisFault::Steps(milliseconds)))];
    let garbled = |garbled| vec![fault(100, 60, What::Redis(RedisFault::Garbles(garbled)))];
    let scenes: [(&str, usize, ChainPlan, Vec<Fault>); 39] = [
        (
            "a node asks for a pause that is longer than max_age",
            1,
            chain(2000, 1, 1),
            vec![node(100, 20, 0, NodeFault::RateLimited(RateLimit::RetryAfter(90)))],
        ),
        (
            "the machine stands still during a call",
            1,
            chain(2000, 1, 1),
            vec![
                node(100, 90, 0, NodeFault::Slow(500)),
                fault(120, 40, What::Freeze),
                fault(121, 40, What::Freeze),
                fault(122, 40, What::Freeze),
            ],
        ),
        (
            "the machine stands still while a poll waits for the third node",
            1,
            chain(500, 3, 3),
            vec![node(100, 80, 1, NodeFault::Silent), fault(130, 40, What::Freeze)],
        ),
        (
            "a replica gets a block from a node whose header was read long ago",
            3,
            chain(3000, 3, 1),
            vec![fault(300, 0, What::Chain(0, ChainFault::Reorganisation(2)))],
        ),
        (
            "the first of three nodes lies and the last is slower than half a block time",
            1,
            chain(250, 3, 1),
            vec![
                node(90, 90, 2, NodeFault::Slow(200)),
                node(100, 60, 0, NodeFault::HeadAhead(100)),
            ],
        ),
        (
            "the only node loses its blocks",
            1,
            chain(2000, 1, 1),
            vec![node(100, 60, 0, NodeFault::Syncing)],
        ),
        (
            "the only node loses its blocks after it has answered null",
            1,
            chain(500, 1, 1),
            vec![node(100, 90, 0, NodeFault::Syncing), node(109, 60, 0, NodeFault::NullResult)],
        ),
        (
            "the only node gets all its blocks between a reply and its header",
            2,
            chain(2000, 1, 1),
            vec![
                fault(136, 33, What::Kill(1)),
                node(138, 72, 0, NodeFault::Syncing),
                node(190, 12, 0, NodeFault::Dropped),
            ],
        ),
        (
            "the only node syncs and returns no header",
            1,
            chain(2000, 1, 1),
            vec![node(100, 300, 0, NodeFault::Syncing), node(150, 200, 0, NodeFault::NoHeader)],
        ),
        (
            "the only node syncs and answers slowly as a replica starts",
            1,
            chain(12_000, 1, 1),
            vec![
                node(36, 52, 0, NodeFault::Syncing),
                node(55, 82, 0, NodeFault::Slow(1102)),
                fault(61, 3, What::Kill(0)),
            ],
        ),
        (
            "the only node syncs soon after it has returned no header to a new replica",
            1,
            chain(2000, 1, 1),
            vec![
                node(55, 15, 0, NodeFault::NoHeader),
                fault(61, 3, What::Kill(0)),
                node(75, 80, 0, NodeFault::Syncing),
            ],
        ),
        (
            "the only node has no headers and syncs as a replica starts",
            1,
            chain(2000, 1, 1),
            vec![
                node(50, 200, 0, NodeFault::Headless),
                node(60, 80, 0, NodeFault::Syncing),
                fault(61, 3, What::Kill(0)),
            ],
        ),
        (
            "one of four nodes lags after replicas have compared them",
            3,
            chain(1000, 4, 3),
            vec![
                node(366, 60, 2, NodeFault::HighBaseFees),
                node(373, 55, 0, NodeFault::HeadBehind(3)),
            ],
        ),
        (
            "a replica polls a node that lags, after long",
            2,
            chain(12_000, 1, 1),
            vec![node(480, 118, 0, NodeFault::Lag(17))],
        ),
        (
            "a chain that has halted is reorganised",
            2,
            chain(2000, 3, 3),
            vec![
                fault(245, 111, What::Chain(0, ChainFault::Halt)),
                fault(340, 0, What::Chain(0, ChainFault::Reorganisation(11))),
            ],
        ),
        (
            "the only node becomes another chain's",
            1,
            chain(2000, 1, 1),
            vec![node(100, 60, 0, NodeFault::WrongChain)],
        ),
        (
            "a spare lies after one hiccup of the first node",
            1,
            chain(1000, 2, 1),
            vec![
                node(100, 100, 1, NodeFault::HeadAhead(1_000_000)),
                node(120, 2, 0, NodeFault::Silent),
            ],
        ),
        (
            "the first of three nodes has base fees that are ten times too high",
            1,
            chain(2000, 3, 1),
            vec![node(100, 60, 0, NodeFault::HighBaseFees)],
        ),
        (
            "the first of three nodes has base fees that leap",
            1,
            chain(2000, 3, 1),
            vec![node(100, 60, 0, NodeFault::BaseFeeLeap)],
        ),
        (
            "the second node lies for longer than the first is silent",
            1,
            chain(2000, 2, 1),
            vec![
                node(90, 400, 1, NodeFault::HeadAhead(1_000_000)),
                node(100, 60, 0, NodeFault::Silent),
            ],
        ),
        (
            "the first node is back after a start with one that lags",
            1,
            chain(1000, 2, 1),
            vec![
                node(90, 400, 1, NodeFault::Lag(29)),
                node(90, 60, 0, NodeFault::Silent),
                fault(95, 3, What::Kill(0)),
            ],
        ),
        (
            "the only node of a slow chain has other numbers for a while",
            1,
            chain(12_000, 1, 1),
            vec![node(250, 75, 0, NodeFault::HeadBehind(200))],
        ),
        ("the machine sleeps", 1, chain(12_000, 1, 1), vec![fault(180, 600, What::Sleep)]),
        (
            "the machine sleeps for less than a block time",
            1,
            chain(12_000, 1, 1),
            vec![fault(180, 10, What::Sleep)],
        ),
        (
            "the machine sleeps while the only node refuses calls",
            1,
            chain(1000, 1, 1),
            vec![node(100, 660, 0, NodeFault::Refused), fault(102, 600, What::Sleep)],
        ),
        (
            "the machine of replicas sleeps",
            2,
            chain(12_000, 2, 1),
            vec![fault(180, 8, What::Sleep)],
        ),
        (
            "a virtual machine is paused",
            1,
            chain(12_000, 1, 1),
            vec![fault(180, 600, What::Pause(0))],
        ),
        (
            "a virtual machine is paused while the only node refuses calls",
            1,
            chain(12_000, 1, 1),
            vec![node(100, 640, 0, NodeFault::Refused), fault(101, 600, What::Pause(4))],
        ),
        (
            "the virtual machine of replicas is paused",
            3,
            chain(2000, 3, 3),
            vec![fault(180, 600, What::Pause(3))],
        ),
        ("the clock of Redis steps an hour back", 3, chain(1000, 1, 1), step(-3_600_000)),
        ("the clock of Redis steps an hour on", 3, chain(1000, 1, 1), step(3_600_000)),
        ("the clock of Redis steps back a little", 3, chain(1000, 1, 1), step(-2500)),
        ("the clock of Redis steps on a little", 3, chain(1000, 1, 1), step(2500)),
        ("Redis has empty records", 3, chain(1000, 1, 1), garbled(Garbled::Empty)),
        ("Redis has records that are no text", 3, chain(1000, 1, 1), garbled(Garbled::NoText)),
        ("Redis has halves of records", 3, chain(1000, 1, 1), garbled(Garbled::Half)),
        (
            "Redis has blocks that are far ahead",
            3,
            chain(1000, 1, 1),
            garbled(Garbled::Shifted(1_000_000)),
        ),
        (
            "Redis has blocks that are far behind",
            3,
            chain(1000, 2, 1),
            garbled(Garbled::Shifted(-5_000)),
        ),
        ("Redis has absurd blocks", 3, chain(1000, 1, 1), garbled(Garbled::Shifted(i64::MAX))),
    ];
    let worlds = scenes.into_iter().flat_map(|(name, replicas, chain, faults)| {
        (1..=4).map(move |seed| {
            let plan = Plan {
                seed,
                chains: vec![chain.clone()],
                replicas,
                has_redis: replicas > 1,
                keeps_history: false,
                faults: Vec::new(),
                fresh_from: Duration::ZERO,
                end: Duration::ZERO,
            };
            (name, plan.with(faults.clone()))
        })
    });
    worlds.collect()
}
