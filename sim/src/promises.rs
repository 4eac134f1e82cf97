//! The promises, checked at every call to a node and at every response.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::chain::Chain;
use crate::clock;
use crate::node::{Call, Node, Price, Said};
use crate::plan::{ChainFault, Fault, NodeFault, Plan, RedisFault, What};

/// A broken promise.
#[derive(Debug, Clone)]
pub struct Violation {
    pub at: Duration,
    pub promise: String,
    pub text: String,
}

/// The promises of a world, and the memory that checks need.
#[derive(Debug)]
pub struct Promises {
    plan: Plan,
    pub violations: Vec<Violation>,
    /// How often each was checked.
    pub checked: BTreeMap<String, u64>,
    /// Replies of the nodes of each chain to polls.
    said: Vec<VecDeque<Said>>,
    /// The last response of each replica for each chain.
    served: Vec<Vec<Option<Served>>>,
    /// Closed buckets that each replica has shown of each chain, by start.
    buckets: Vec<Vec<BTreeMap<String, String>>>,
    /// Bodies by replica, chain and entity tag.
    tagged: BTreeMap<(usize, usize, String), String>,
    started_at: Vec<Duration>,
    /// Time from which all must be fresh; `None`: faults are to come.
    pub fresh_from: Option<Duration>,
    /// When the machine last stood still.
    pub frozen_until: Duration,
    /// Pauses of the virtual machine: when they ended, and how long they were.
    pauses: Vec<(Duration, Duration)>,
    /// The last leap of a clock.
    leap: Option<Leap>,
}

/// A leap of a clock, by more than 2 s.
#[derive(Debug, Clone, Copy)]
struct Leap {
    at: Duration,
    /// The time that the clock has leapt over.
    stood_from: Duration,
    resumed_at: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Served {
    at: Duration,
    head: u64,
    is_stale: bool,
    is_honest: bool,
}

/// A price in a response.
#[derive(Debug)]
struct Quote {
    head: u64,
    price: Price,
    is_stale: bool,
}

/// Time after a fault in which its effects may be seen.
const RECENTLY: Duration = Duration::from_secs(75);

impl Promises {
    pub fn new(plan: &Plan) -> Self {
        let (replicas, chains) = (plan.replicas, plan.chains.len());
        Self {
            plan: plan.clone(),
            violations: Vec::new(),
            checked: BTreeMap::new(),
            said: vec![VecDeque::new(); chains],
            served: vec![vec![None; chains]; replicas],
            buckets: vec![vec![BTreeMap::new(); chains]; replicas],
            tagged: BTreeMap::new(),
            started_at: vec![Duration::ZERO; replicas],
            fresh_from: None,
            frozen_until: Duration::ZERO,
            pauses: Vec::new(),
            leap: None,
        }
    }

    /// Sets the true time of the start or the end of a fault. What is planned for a standstill happens after it.
    pub fn set_time(&mut self, index: usize, is_start: bool) {
        let (now, fault) = (clock::now(), &mut self.plan.faults[index]);
        if is_start {
            fault.lasts = (fault.at + fault.lasts).saturating_sub(now);
            fault.at = now;
        } else {
            fault.lasts = now.saturating_sub(fault.at);
        }
    }

    /// Records that the machine has slept until now.
    pub fn record_sleep(&mut self, time: Duration) {
        self.frozen_until = clock::now();
        self.record_leap(self.frozen_until, time);
    }

    /// Records that the virtual machine was paused until now.
    pub fn record_pause(&mut self, time: Duration) {
        self.frozen_until = clock::now();
        self.pauses.push((self.frozen_until, time));
    }

    /// Records that a clock has leapt over this time, which ended at `resumed_at`.
    pub fn record_leap(&mut self, resumed_at: Duration, time: Duration) {
        if time > Duration::from_millis(2300) {
            let stood_from = resumed_at.saturating_sub(time);
            self.leap = Some(Leap { at: clock::now(), stood_from, resumed_at });
        }
    }

    /// Returns the time that the machine's clocks have counted since then: no pauses.
    fn counted_since(&self, at: Duration) -> Duration {
        let pauses = self.pauses.iter().filter(|(until, _)| *until > at);
        let paused: Duration = pauses.map(|(_, time)| *time).sum();
        clock::now().saturating_sub(at + paused)
    }

    /// Records that `promise` was checked, and is broken if there is a text.
    pub fn check(&mut self, promise: &'static str, broken: Option<String>) {
        match self.checked.get_mut(promise) {
            Some(count) => *count += 1,
            None => _ = self.checked.insert(promise.to_owned(), 1),
        }
        if let Some(text) = broken {
            let promise = promise.to_owned();
            self.violations.push(Violation { at: clock::now(), promise, text });
        }
    }

    /// Records that a replica has started. Without a file it knows nothing any more.
    pub fn restarted(&mut self, replica: usize) {
        self.started_at[replica] = clock::now();
        self.served[replica].fill(None);
        self.tagged.retain(|(of, _, _), _| *of != replica);
        if !self.plan.keeps_history {
            self.buckets[replica].fill(BTreeMap::new());
        }
    }

    fn max_age(&self, chain: usize) -> Duration {
        (5 * self.plan.chains[chain].block_time).max(Duration::from_secs(30))
    }

    /// Two block times as the service measures them: blocks are irregular, and slower or missing for a while.
    fn stale_after(&self, chain: usize) -> Duration {
        let is_slow = |fault: &Fault| matches!(fault.what, What::Chain(it, ChainFault::Slow | ChainFault::Halt) if it == chain);
        let tenths = if self.plan.faults.iter().any(is_slow) { 45 } else { 30 };
        (self.plan.chains[chain].block_time * tenths / 10).max(Duration::from_secs(2))
    }

    fn max_block_age(&self, chain: usize) -> Duration {
        (10 * self.plan.chains[chain].block_time).max(Duration::from_secs(60))
    }

    /// Returns true if such a fault was active within `before` until now.
    fn was(&self, before: Duration, wanted: impl Fn(&Fault) -> bool) -> bool {
        let now = clock::now();
        let mut recent = self
            .plan
            .faults
            .iter()
            .filter(|fault| fault.at <= now && fault.at + fault.lasts + before >= now);
        recent.any(wanted)
    }

    /// Checks a call that arrives at a node.
    pub fn called(
        &mut self,
        replica: usize,
        chain: usize,
        index: usize,
        node: &mut Node,
        call: &Call,
    ) {
        let now = clock::now();
        let plan = &self.plan.chains[chain];
        if call.is_poll() {
            let window = 10 * plan.block_time;
            let polls = &mut node.polls[replica];
            polls.push_back(now);
            while polls.front().is_some_and(|at| *at + window <= now) {
                polls.pop_front();
            }
            // Three a block, and one after each failure.
            let count = polls.len();
            self.check("polls of a node are bounded", (count > 45).then(|| {
                format!("{count} polls of node {index} of chain {chain} by replica {replica} in ten block times")
            }));
        } else if call.method == "eth_getBalance" {
            // The budget is one of a process: it begins anew with it.
            let started_at = self.started_at[replica];
            let is_over = |at: Duration| at + Duration::from_mins(1) <= now || at < started_at;
            let reads = &mut node.reads[replica];
            reads.push_back(now);
            while reads.front().is_some_and(|at| is_over(*at)) {
                reads.pop_front();
            }
            let (count, limit) = (reads.len(), plan.reads_per_minute as usize);
            self.check("reads keep to the budget", (count > limit).then(|| {
                format!("{count} reads at node {index} of chain {chain} by replica {replica} in a minute, not {limit}")
            }));
        }
    }

    /// Records a reply of a node.
    pub fn said(&mut self, chain: usize, said: Said) {
        let keep = 10 * self.max_age(chain);
        while self.said[chain].front().is_some_and(|first| self.counted_since(first.at) > keep) {
            self.said[chain].pop_front();
        }
        self.said[chain].push_back(said);
    }

    /// Checks that all replicas together poll each block once.
    pub fn check_shared_polls(&mut self, chain: usize, nodes: &[Node]) {
        let now = clock::now();
        let window = 10 * self.plan.chains[chain].block_time;
        let calm = RECENTLY + window;
        if !self.plan.has_redis || now < calm || self.was(calm, |_| true) {
            return;
        }
        // A late head makes one replica ask all nodes. Every 32nd record is checked by each replica, and slots begin within a
        // block.
        let polls_of =
            |node: &Node| node.polls.iter().flatten().filter(|at| **at + window > now).count();
        let count = nodes.iter().map(polls_of).max().unwrap_or_default();
        let limit = 13 + self.plan.replicas;
        self.check(
            "replicas poll each block once",
            (count > limit).then(|| {
                format!(
                    "{count} polls of a node of chain {chain} in ten block times by {} replicas",
                    self.plan.replicas
                )
            }),
        );
    }

    /// Checks a response with a price.
    pub fn priced(
        &mut self,
        (replica, chain): (usize, usize),
        status: StatusCode,
        headers: &HeaderMap,
        body: &Value,
        truth: &Chain,
    ) {
        let now = clock::now();
        let is_calm = self.fresh_from.is_some_and(|from| now >= from);
        let is_present = self.must_be_present(replica);
        let is_first_well = self.has_well_first_node(replica, chain);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            self.check(
                "the present price is served 5 s after a leap",
                is_present
                    .then(|| format!("replica {replica} answers 503 for chain {chain}: {body}")),
            );
            let is_well = self.has_well_node(replica, chain);
            self.check(
                "a price is served while a node is well",
                is_well.then(|| format!("replica {replica} answers 503 for chain {chain}: {body}")),
            );
            self.check(
                "all is fresh after the faults",
                is_calm.then(|| format!("replica {replica} answers 503 for chain {chain}: {body}")),
            );
            return;
        }
        let Some(quote) = Quote::parse(headers, body).filter(|_| status == StatusCode::OK) else {
            let text = format!("replica {replica} answers {status} for chain {chain}: {body}");
            self.check("every request has a known answer", Some(text));
            return;
        };
        self.check("every request has a known answer", None);
        let who = format!("replica {replica}, chain {chain}, block {}", quote.head);
        self.check_source(&who, chain, replica, &quote);
        self.check_order(&who, replica, chain, &quote);
        for (promise, is_due) in [
            ("all is fresh after the faults", is_calm),
            ("the present price is served 5 s after a leap", is_present),
            ("later nodes change nothing while the first is well", is_first_well),
        ] {
            if !is_due {
                continue;
            }
            let block_ms = truth.plan.block_time.as_millis() as u64;
            let allowed = 3 + (2000 + node_delay_ms(block_ms)) / block_ms;
            let behind = truth.newest().number.saturating_sub(quote.head);
            let broken = quote.is_stale || behind > allowed || quote.head > truth.newest().number;
            self.check(
                promise,
                broken.then(|| {
                    format!(
                        "{who}: stale {}, {behind} blocks behind, newest {}",
                        quote.is_stale,
                        truth.newest().number
                    )
                }),
            );
        }
    }

    /// Returns true if a replica must have a price: for long enough one of the nodes has had no fault, and nothing else has
    /// gone wrong.
    fn has_well_node(&self, replica: usize, chain: usize) -> bool {
        let (now, plan) = (clock::now(), &self.plan.chains[chain]);
        let pause = self.max_age(chain) / 3 + Duration::from_secs(5);
        let quiet = pause.max(Duration::from_secs(45));
        let grace = |fault: NodeFault| match fault {
            // Polls go on at least each third of `max_age`. After a lie, three confirm the truth.
            NodeFault::RateLimited(_) => pause + 3 * plan.block_time,
            NodeFault::Unsupported => Duration::from_mins(11),
            NodeFault::WrongChain => Duration::from_secs(75),
            _ => quiet,
        };
        let is_other = |fault: &Fault| {
            let is_odd_redis =
                matches!(fault.what, What::Redis(RedisFault::Garbles(_) | RedisFault::Steps(_)));
            !is_odd_redis && !matches!(fault.what, What::Node(..) | What::Clock(_))
        };
        let is_calm = plan.agreement == 1
            && now > self.started_at[replica] + quiet
            && now > self.frozen_until + quiet
            && !self.was(quiet, is_other);
        let is_ill = |node: usize| {
            self.plan.faults.iter().any(|fault| {
                let What::Node(of, index, kind) = fault.what else { return false };
                let may_be_seen = fault.at <= now && fault.at + fault.lasts + grace(kind) >= now;
                of == chain && index == node && may_be_seen
            })
        };
        is_calm && (0..plan.nodes).any(|node| !is_ill(node))
    }

    /// Returns true if for long enough only later nodes than the first one have had faults, and at most one of them lies.
    fn has_well_first_node(&self, replica: usize, chain: usize) -> bool {
        let (now, plan) = (clock::now(), &self.plan.chains[chain]);
        let shows = |fault: &&Fault| {
            fault.at <= now
                && fault.at + fault.lasts + fault.recovery() + 5 * plan.block_time >= now
        };
        let mut liars = BTreeSet::new();
        for fault in self.plan.faults.iter().filter(shows) {
            match fault.what {
                What::Node(of, index, kind) if of == chain && index > 0 => {
                    liars.extend(kind.is_lie().then_some(index));
                }
                What::Node(of, ..) | What::Chain(of, _) if of != chain => {}
                _ => return false,
            }
        }
        let quiet_from = self.started_at[replica].max(self.frozen_until) + RECENTLY;
        plan.agreement == 1 && liars.len() < 2 && now > quiet_from + 5 * plan.block_time
    }

    /// Returns true if a clock has leapt 5 s ago or a little more, and nothing else has gone wrong.
    fn must_be_present(&self, replica: usize) -> bool {
        let now = clock::now();
        let is_alone = |leap: &Leap| {
            leap.at > self.started_at[replica] + RECENTLY && leap.at >= self.frozen_until
        };
        let Some(leap) = self.leap.filter(is_alone) else { return false };
        let since = now.saturating_sub(leap.at);
        let is_due = since > Duration::from_secs(5) && since < Duration::from_secs(40);
        let is_leap = |fault: &Fault| match fault.what {
            What::Sleep => true,
            What::Pause(seconds) => {
                fault.at + fault.lasts + Duration::from_secs(seconds) <= leap.at
            }
            _ => false,
        };
        let is_over = |fault: &Fault| {
            fault.at > now || fault.at + fault.lasts + fault.recovery() <= leap.stood_from
        };
        is_due && self.plan.faults.iter().all(|fault| is_leap(fault) || is_over(fault))
    }

    /// Checks that the price follows from a reply, and is labelled by its age.
    fn check_source(&mut self, who: &str, chain: usize, replica: usize, quote: &Quote) {
        let now = clock::now();
        let is_match = |said: &&Said| said.head == quote.head && said.price == quote.price;
        let matching: Vec<Said> = self.said[chain].iter().filter(is_match).cloned().collect();
        let Some(newest) = matching.last() else {
            let text = format!("{who}: no node has said what makes {:?}", quote.price);
            self.check("numbers are exact for their block", Some(text));
            return;
        };
        self.check("numbers are exact for their block", None);
        let (age, max_age) = (self.counted_since(newest.at), self.max_age(chain));
        // A reply that is on its way when the machine is paused arrives a little after that.
        let is_on_its_way = |(until, time): &(Duration, Duration)| {
            newest.at < *until && *until <= newest.at + *time + Duration::from_millis(300)
        };
        let was_paused = self.pauses.iter().any(is_on_its_way);
        let on_its_way = Duration::from_millis(if was_paused { 300 } else { 0 });
        self.check(
            "nothing older than max_age is served",
            (age > max_age + on_its_way).then(|| {
                format!("{who}: said {:.2} s ago, max_age {max_age:?}", age.as_secs_f64())
            }),
        );
        let is_late = age > self.stale_after(chain) + on_its_way + Duration::from_millis(50);
        self.check(
            "old data is labelled",
            (is_late && !quote.is_stale)
                .then(|| format!("{who}: said {:.2} s ago without X-Stale", age.as_secs_f64())),
        );
        // A replica that has started since may have the record of another one.
        let is_noticed = |leap: &Leap| {
            self.counted_since(leap.at) > Duration::from_millis(300)
                && self.started_at[replica] < leap.resumed_at
        };
        let is_before =
            self.leap.filter(is_noticed).is_some_and(|leap| newest.at < leap.resumed_at);
        self.check(
            "what is from before a leap is labelled",
            (is_before && !quote.is_stale).then(|| {
                format!("{who}: said {:.2} s ago", now.saturating_sub(newest.at).as_secs_f64())
            }),
        );
        // Headers are read every 30 s, or a sixth of the limit later, and the clock must be right.
        let is_honest = matching.iter().any(|said| said.is_honest);
        let has_clock = !self.was(2 * RECENTLY, has_wrong_clock);
        if is_honest && has_clock {
            let block_age =
                matching.iter().map(|said| said.block_age + now.saturating_sub(said.at)).min();
            let block_age = block_age.unwrap_or_default();
            let limit = self.max_block_age(chain);
            let is_old = block_age > limit + limit / 6 + Duration::from_secs(32);
            self.check(
                "an old block is labelled",
                (is_old && !quote.is_stale).then(|| {
                    format!(
                        "{who}: the block is {:.1} s old, without X-Stale",
                        block_age.as_secs_f64()
                    )
                }),
            );
        }
        let is_other = matching.iter().all(|said| said.is_other_chain);
        self.check("another chain is never served", is_other.then(|| who.to_owned()));
        self.check_agreement(who, chain, quote);
        self.check_lone_liar(who, chain, replica, &matching);
        self.check_spare(who, chain, replica, &matching);
    }

    /// With `agreement` more than half of the asked nodes must have said nearly the same.
    fn check_agreement(&mut self, who: &str, chain: usize, quote: &Quote) {
        let agreement = self.plan.chains[chain].agreement;
        if agreement == 1 {
            return;
        }
        // A poll that waits for slow nodes, then for others, lasts up to two thirds of `max_age`.
        let longest = self.max_age(chain) * 5 / 3 + Duration::from_secs(2);
        let is_near = |one: u128, other: u128| one.abs_diff(other) * 4 <= one.max(other);
        let agrees = |said: &&Said| {
            self.counted_since(said.at) <= longest
                && said.head.abs_diff(quote.head) <= 5
                && is_near(said.price.base_fee, quote.price.base_fee)
                && is_near(said.price.medium, quote.price.medium)
        };
        let mut nodes: Vec<_> =
            self.said[chain].iter().filter(agrees).map(|said| said.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let count = nodes.len();
        self.check(
            "with agreement most nodes have said it",
            (count <= agreement / 2)
                .then(|| format!("{who}: only {count} of {agreement} nodes have said it")),
        );
    }

    /// One node of three that lies grossly is not believed while the others are well.
    fn check_lone_liar(&mut self, who: &str, chain: usize, replica: usize, matching: &[Said]) {
        let now = clock::now();
        let is_well_placed = self.plan.chains[chain].nodes >= 3
            && now > self.started_at[replica] + RECENTLY
            && now > self.frozen_until + RECENTLY;
        let mut liars: Vec<usize> = Vec::new();
        let before = RECENTLY + self.max_age(chain);
        let others_are_well = !self.was(before, |fault| match fault.what {
            What::Node(of, ..) | What::Chain(of, _) if of != chain => false,
            What::Node(_, _, fault) if is_gross(fault) => false,
            // It replies within the deadline, however late.
            What::Node(_, _, NodeFault::Slow(milliseconds)) => milliseconds > 200,
            What::Redis(_) => false,
            _ => true,
        });
        for fault in &self.plan.faults {
            if let What::Node(of, node, lie) = fault.what
                && of == chain
                && is_gross(lie)
                && fault.at <= now
                && fault.at + fault.lasts + before >= now
            {
                liars.push(node);
            }
        }
        liars.sort_unstable();
        liars.dedup();
        if !is_well_placed || !others_are_well || liars.len() != 1 {
            return;
        }
        let is_honest = matching.iter().any(|said| said.is_honest);
        self.check(
            "one gross liar of three is not believed",
            (!is_honest).then(|| format!("{who}: only the lying node {} has said it", liars[0])),
        );
    }

    /// A later node whose head leaps is not believed while an earlier one was well within ten block times, at least 5 s.
    fn check_spare(&mut self, who: &str, chain: usize, replica: usize, matching: &[Said]) {
        let now = clock::now();
        let is_honest = matching.iter().any(|said| said.is_honest);
        let last = self.served[replica][chain].filter(|last| last.is_honest && !is_honest);
        let Some((last, liar)) = last.zip(matching.first().map(|said| said.node)) else { return };
        let is_leap = |fault: &Fault| {
            let What::Node(of, node, NodeFault::HeadAhead(blocks)) = fault.what else {
                return false;
            };
            of == chain && node == liar && blocks >= 100
        };
        // At the start any node may be the first to reply. With a wrong clock every block may seem old.
        // Two liars may be most of the nodes.
        let is_other_liar = |fault: &Fault| {
            let What::Node(of, node, what) = fault.what else { return false };
            of == chain && node != liar && is_gross(what)
        };
        if !self.was(Duration::ZERO, is_leap)
            || self.was(Duration::ZERO, is_other_liar)
            || self.was(2 * RECENTLY, has_wrong_clock)
            || last.at < self.started_at[replica] + RECENTLY
        {
            return;
        }
        let silence = (10 * self.plan.chains[chain].block_time).max(Duration::from_secs(5));
        let silence = silence.min(self.max_age(chain) / 2).saturating_sub(Duration::from_secs(1));
        // What was said before the last response came before the leap was believed. Against a later node that is ahead of
        // the earlier ones three polls are enough.
        let is_well = |said: &&Said| said.is_honest && said.head >= last.head;
        // A node that was in use before it lied is no spare.
        let last_truth = self.said[chain].iter().filter(is_well).rfind(|said| said.node == liar);
        let was_well = self.said[chain].iter().filter(is_well).any(|said| {
            let was_before = last_truth.is_none_or(|own| own.at <= said.at);
            // One that lies too is not plausible. Of two nodes that are left the liar may be the first.
            let fails = self.was(Duration::ZERO, |fault| match fault.what {
                What::Node(of, node, what) => {
                    let is_last = liar + 1 == self.plan.chains[chain].nodes;
                    of == chain && node == said.node && (is_gross(what) || !is_last)
                }
                _ => false,
            });
            let is_recent = said.at <= last.at && said.at + silence > now;
            was_before && said.node < liar && is_recent && !fails
        });
        // A head that stands for as long is as good as silence.
        let heads = self.said[chain].iter().filter(|said| said.is_honest && said.head >= last.head);
        let is_standing =
            heads.map(|said| said.at).min().is_none_or(|first| first + silence <= now);
        self.check(
            "a lying spare waits until earlier nodes are silent",
            (was_well && !is_standing).then(|| format!("{who}: node {liar} was believed")),
        );
    }

    /// A head goes back only if one node has said so three times, or two nodes have.
    fn check_order(&mut self, who: &str, replica: usize, chain: usize, quote: &Quote) {
        let now = clock::now();
        let is_honest = self.said[chain]
            .iter()
            .any(|said| said.is_honest && said.head == quote.head && said.price == quote.price);
        let served = Served { at: now, head: quote.head, is_stale: quote.is_stale, is_honest };
        let last = self.served[replica][chain].replace(served);
        let Some(last) = last.filter(|last| quote.head < last.head && !last.is_stale) else {
            return;
        };
        // What is too old to be served gives way to an old block, which is labelled, and an old block to any that is not.
        let of_last = self.said[chain].iter().filter(|said| said.head == last.head);
        let last_said = of_last.map(|said| said.at).max();
        let is_over = |age| last_said.is_none_or(|at| at + age <= now);
        let limit = if quote.is_stale { self.max_age(chain) } else { self.max_block_age(chain) };
        if is_over(limit) {
            return;
        }
        let window = self.max_age(chain).max(20 * self.plan.chains[chain].block_time);
        // Replies before a standstill count too.
        let stood_still =
            if now < self.frozen_until + window { Duration::from_mins(1) } else { Duration::ZERO };
        let since = now.saturating_sub(window + stood_still);
        // A reply counts if a higher head was known before, and if its node can have got to the served head since.
        let block_ms = self.plan.chains[chain].block_time.as_millis();
        let mut highest = 0;
        let mut rounds: BTreeMap<usize, usize> = BTreeMap::new();
        let mut nodes = BTreeSet::new();
        for said in &self.said[chain] {
            let passed = now.saturating_sub(said.at).as_millis();
            let reach = u128::from(said.head) + 5 + 200 * passed / block_ms;
            let can_be = said.head <= quote.head + 5 && reach >= u128::from(quote.head);
            if said.at >= since && said.head < highest && can_be {
                *rounds.entry(said.node).or_default() += 1;
                if said.head.abs_diff(quote.head) <= 5 {
                    nodes.insert(said.node);
                }
            }
            highest = highest.max(said.head);
        }
        let is_confirmed = nodes.len() >= 2 || rounds.values().any(|count| *count >= 3);
        self.check(
            "a head goes back only if it is confirmed",
            (!is_confirmed)
                .then(|| format!("{who}: after block {}, said by {rounds:?}", last.head)),
        );
    }

    /// Checks the entity tag of a response.
    pub fn tagged(&mut self, replica: usize, chain: usize, headers: &HeaderMap, body: &Value) {
        let Some(tag) = headers.get("etag").and_then(|tag| tag.to_str().ok()) else { return };
        let body = body.to_string();
        let known = self.tagged.insert((replica, chain, tag.to_owned()), body.clone());
        let differs = known.filter(|known| *known != body);
        self.check(
            "another body has another ETag",
            differs.map(|known| {
                format!("replica {replica}, chain {chain}, {tag}: {known} and {body}")
            }),
        );
    }

    /// Checks that buckets of hours that have ended stay as they are.
    pub fn trend(&mut self, replica: usize, chain: usize, trend: &Value) {
        if self.plan.faults.iter().any(has_wrong_clock) {
            return;
        }
        let now = clock::now();
        // A block of the hour that has not ended may be replaced. The poll of a block may come late, and the file has what
        // was closed at the last full minute.
        // A node without the method is asked again after ten minutes at the latest.
        let is_unsupported = |fault: &Fault| matches!(fault.what, What::Node(of, _, NodeFault::Unsupported) if of == chain);
        let has_pause = self.plan.faults.iter().any(is_unsupported);
        let lateness = Duration::from_secs(if has_pause { 810 } else { 150 });
        let closed = clock::WALL_START + now.saturating_sub(lateness);
        let closed = rfc3339(Duration::from_secs(closed.as_secs() / 3600 * 3600));
        let known = &mut self.buckets[replica][chain];
        let mut broken = None;
        for bucket in trend["buckets"].as_array().into_iter().flatten() {
            let start = bucket["start"].as_str().unwrap_or_default().to_owned();
            if start < closed {
                let shown = bucket.to_string();
                if let Some(before) = known.insert(start.clone(), shown.clone())
                    && before != shown
                {
                    broken = Some(format!(
                        "replica {replica}, chain {chain}, bucket {start}: {before} became {shown}"
                    ));
                }
            }
        }
        self.check("a closed bucket never changes", broken);
    }
}

/// Longest time until a node knows a block.
pub fn node_delay_ms(block_ms: u64) -> u64 {
    (block_ms / 4).clamp(20, 500)
}

/// Returns the time as in responses, such as `2026-06-19T12:00:00Z`. Worlds end on the day on which they start.
fn rfc3339(time: Duration) -> String {
    let seconds = time.as_secs() % 86_400;
    let days = time.as_secs() / 86_400 - clock::WALL_START.as_secs() / 86_400;
    format!(
        "2026-06-{:02}T{:02}:{:02}:{:02}Z",
        19 + days,
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

impl Quote {
    fn parse(headers: &HeaderMap, body: &Value) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let suggestion = body.get("suggestion").unwrap_or(body);
        let amount = |value: &Value| value.as_str()?.parse::<u128>().ok();
        let tier = |name: &str| -> Option<(u128, u128)> {
            let tier = &suggestion[name];
            Some((amount(&tier["max_priority_fee_per_gas"])?, amount(&tier["max_fee_per_gas"])?))
        };
        let base_fee = amount(&suggestion["base_fee_per_gas"])?;
        let (medium, high) = (tier("medium")?, tier("high")?);
        // A tier's cap is its tip plus the base fee.
        if medium.1 != medium.0 + base_fee || high.1 != high.0 + base_fee {
            return None;
        }
        let head = match body.get("newest_block") {
            Some(block) => block.as_u64()?,
            None => text("x-newest-block")?.parse().ok()?,
        };
        let price = Price { base_fee, medium: medium.0, high: high.0 };
        Some(Self { head, price, is_stale: text("x-stale") == Some("true") })
    }
}

/// Returns true if the wall clock of the machine is wrong during this fault.
fn has_wrong_clock(fault: &Fault) -> bool {
    matches!(fault.what, What::Clock(_) | What::Pause(_))
}

/// Returns true for a lie that the other nodes of three outvote.
fn is_gross(fault: NodeFault) -> bool {
    match fault {
        NodeFault::HeadAhead(blocks) => blocks >= 100,
        NodeFault::HeadBehind(blocks) => blocks >= 30,
        NodeFault::HighBaseFees | NodeFault::BaseFeeLeap | NodeFault::WrongChain => true,
        _ => false,
    }
}
