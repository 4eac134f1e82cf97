//! Decides which replica polls a chain, and adopts what others have polled. The module [`replicas`](super) describes the
//! rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use enum_map::{Enum, EnumMap};
use tokio::sync::watch;

use super::chain_state::SharedChainState;
use super::connection::Message;
use super::metrics::ReplicaMetrics;
use super::redis_clock::RedisClock;
use super::shared_fee_history as record;
use crate::nodes::ChainUpstreams;
use crate::nodes::jitter;
use crate::observe::clock;
use crate::observe::metrics::{ChainOutcomeLabels, Counter, Metrics, counters};
use crate::poll::{Action, AdoptOutcome, PollGrant, PollOutcome, SharedFeeHistory, SharedPolls};
use crate::store::StoredChain;

/// Coordinator of one chain in one replica.
#[derive(Debug)]
pub(crate) struct PollCoordinator {
    chain_state: SharedChainState,
    upstreams: Arc<ChainUpstreams>,
    inbox: watch::Receiver<Option<Message>>,
    /// When a clock of the machine last leapt.
    leaps: watch::Receiver<Option<Instant>>,
    slot_counters: EnumMap<SlotOutcome, Counter>,
    record_counters: EnumMap<AdoptOutcome, Counter>,
    /// Last reading of Redis' clock; `None`: not read with this connection.
    clock: Option<RedisClock>,
    /// Slot of the newest shared result that is known here.
    last_slot: u64,
    /// First slot of the next claim.
    next_slot: u64,
    /// When to try the next claim.
    claim_at: Instant,
    priority: ClaimPriority,
    /// Consecutive slots that other replicas claimed without publishing a usable result.
    silent_slots: u32,
}

/// How a poll slot was used.
#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum SlotOutcome {
    /// This replica polled.
    Claimed,
    /// Another replica polled.
    Yielded,
    /// This replica polled without a claim.
    Standalone,
}

/// Priority of a replica's next claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimPriority {
    /// At the start of the slot, because it polled last.
    Holder,
    /// A moment later.
    Normal,
    /// After the others, because its last poll failed.
    Backoff,
}

impl PollCoordinator {
    /// Slots without a usable result from other replicas after which this replica polls standalone.
    const MIN_SILENT_SLOTS: u32 = 3;
    /// Age at which the reading of Redis' clock is renewed, because clocks drift.
    const MAX_CLOCK_AGE: Duration = Duration::from_secs(10);

    pub(crate) fn new(
        chain: &StoredChain,
        chain_state: SharedChainState,
        upstreams: Arc<ChainUpstreams>,
        inbox: watch::Receiver<Option<Message>>,
        metrics: &Metrics,
    ) -> Self {
        let own = metrics.set::<ReplicaMetrics>();
        let labels = |outcome| ChainOutcomeLabels { chain: chain.config().key.clone(), outcome };
        Self {
            chain_state,
            upstreams,
            inbox,
            leaps: chain.leaps(),
            slot_counters: counters(&own.poll_slots_total, labels),
            record_counters: counters(&own.replica_messages_total, labels),
            clock: None,
            last_slot: 0,
            next_slot: 0,
            claim_at: clock::now(),
            priority: ClaimPriority::Normal,
            silent_slots: 0,
        }
    }

    /// Reads the newest message.
    fn read_message(&mut self) -> Option<Action> {
        let Message { received_at, record } = self.inbox.borrow_and_update().clone()?;
        self.parse(&record, received_at, &self.clock?)
    }

    /// Parses a record that is to be adopted; `None` if it is invalid, or the result of its slot is known.
    fn parse(&self, bytes: &[u8], received_at: Instant, clock: &RedisClock) -> Option<Action> {
        let current_slot = self.chain_state.slots.slot_at(clock, received_at);
        let received = record::parse(bytes, received_at, clock);
        let valid = received.filter(|received| received.slot <= current_slot);
        if valid.is_none() {
            self.record_counters[AdoptOutcome::Invalid].increment();
        }
        let new = valid.filter(|received| received.slot > self.last_slot)?;
        Some(Action::Adopt(Box::new(new)))
    }

    /// Claims a slot if that is due, and reads the record. Polls standalone if Redis is unavailable.
    async fn claim(&mut self) -> Option<Action> {
        let now = clock::now();
        let is_due = self.claim_at <= now;
        if is_due {
            self.claim_at = now + self.chain_state.slots.length;
        }
        // The first reading only tells the slot and whether its result is known.
        let first_slot = self.clock.filter(|_| is_due).map(|_| self.next_slot);
        let reply = self.chain_state.claim_and_read(first_slot, self.claim_lifetime()).await;
        let Ok(reply) = reply else {
            self.clock = None;
            return is_due.then(|| self.poll_standalone(now));
        };
        let is_first = self.clock.replace(reply.clock).is_none();
        let following = reply.slot.saturating_add(1);
        // Later slots are from before Redis' clock was set back.
        self.last_slot = self.last_slot.min(reply.slot);
        self.next_slot = self.next_slot.min(following);
        let received = match &*reply.record {
            [] => None,
            record => self.parse(record, clock::now(), &reply.clock),
        };
        if reply.is_claimed {
            self.slot_counters[SlotOutcome::Claimed].increment();
            return Some(Action::Poll(PollGrant::Claimed(reply.slot)));
        }
        if is_first {
            self.schedule_claim(following, Some(now));
        } else if first_slot.is_some_and(|first| first <= reply.slot) {
            if self.is_starving() {
                self.schedule_claim(following, None);
                return Some(self.poll_standalone(now));
            }
            self.yield_slot(reply.slot, Some(now + self.claim_lifetime()));
            self.silent_slots = self.silent_slots.saturating_add(1);
        } else if is_due {
            self.schedule_claim(self.next_slot, None);
        }
        received
    }

    /// Leaves `slot` to another replica; tries to claim it at `retry_at`, when its claim has ended.
    fn yield_slot(&mut self, slot: u64, retry_at: Option<Instant>) {
        self.slot_counters[SlotOutcome::Yielded].increment();
        if self.priority == ClaimPriority::Holder {
            self.priority = ClaimPriority::Normal;
        }
        self.schedule_claim(slot.saturating_add(1), retry_at);
    }

    fn poll_standalone(&self, now: Instant) -> Action {
        self.slot_counters[SlotOutcome::Standalone].increment();
        Action::Poll(PollGrant::Standalone(now))
    }

    /// Schedules the claim of `slot`, or of the one before at `retry_at` if `slot` has not begun by then.
    fn schedule_claim(&mut self, slot: u64, retry_at: Option<Instant>) {
        /// Delay of the first claim in a slot, because the estimated start of the slot may be slightly early.
        const CLOCK_MARGIN: Duration = Duration::from_millis(2);
        /// Upper bound of the base delay, an eighth of a slot.
        const MAX_BASE_DELAY: Duration = Duration::from_millis(250);
        let Some(clock) = &self.clock else { return };
        let base_delay = (self.chain_state.slots.length / 8).min(MAX_BASE_DELAY);
        let delay = match self.priority {
            ClaimPriority::Holder => CLOCK_MARGIN,
            ClaimPriority::Normal => base_delay + jitter::random_up_to(base_delay),
            ClaimPriority::Backoff => 2 * base_delay + jitter::random_up_to(base_delay),
        };
        let start = self.chain_state.slots.slot_start(clock, slot);
        (self.next_slot, self.claim_at) = match retry_at {
            Some(at) if at < start => (slot.saturating_sub(1), at),
            _ => (slot, start + delay),
        };
    }

    /// Lifetime of a claim: longer than a poll and the wait until it is repeated.
    fn claim_lifetime(&self) -> Duration {
        const MIN_CLAIM_LIFETIME: Duration = ChainUpstreams::MAX_RETRY_INTERVAL.saturating_mul(2);
        self.upstreams.attempt_deadline().saturating_mul(3).max(MIN_CLAIM_LIFETIME)
    }

    /// Returns true if other replicas have published nothing usable for too long.
    fn is_starving(&self) -> bool {
        let silent_for = self.chain_state.slots.length.saturating_mul(self.silent_slots);
        // A poll takes up to two attempts, however short the slots are, and its result arrives after that.
        self.silent_slots >= Self::MIN_SILENT_SLOTS
            && silent_for >= self.upstreams.attempt_deadline().saturating_mul(3)
    }
}

#[async_trait]
impl SharedPolls for PollCoordinator {
    async fn next(&mut self) -> Action {
        loop {
            let renew_at = self.clock.map(|clock| clock.requested_at + Self::MAX_CLOCK_AGE);
            let wake_at = renew_at.map_or(self.claim_at, |at| at.min(self.claim_at));
            let time_left = wake_at.saturating_duration_since(clock::now());
            // The first attempt to connect ends soon.
            let is_connecting = self.chain_state.redis.is_connecting();
            // Unbiased: a flood of messages must not delay polls.
            let action = tokio::select! {
                Ok(()) = self.inbox.changed() => self.read_message(),
                () = self.chain_state.redis.status_changed() => {
                    // It may be another server with another clock.
                    (self.clock, self.silent_slots) = (None, 0);
                    match self.chain_state.redis.active() {
                        Some(_) => self.claim().await,
                        None => None,
                    }
                }
                Ok(()) = self.leaps.changed() => {
                    // Redis' clock is read anew, and the claim of this slot may be from before the leap.
                    let now = clock::now();
                    (self.clock, self.silent_slots, self.claim_at) = (None, 0, now);
                    Some(self.poll_standalone(now))
                }
                () = tokio::time::sleep(time_left), if !is_connecting => {
                    self.claim().await
                }
            };
            if let Some(action) = action {
                return action;
            }
        }
    }

    fn record_merge(&mut self, received: &SharedFeeHistory, outcome: AdoptOutcome) {
        self.record_counters[outcome].increment();
        match outcome {
            AdoptOutcome::Adopted | AdoptOutcome::Duplicate => {
                self.last_slot = self.last_slot.max(received.slot);
            }
            // A poll would return the same, or has returned something better.
            AdoptOutcome::Rejected | AdoptOutcome::Contradicted => {}
            AdoptOutcome::Older | AdoptOutcome::Implausible | AdoptOutcome::Invalid => return,
        }
        self.silent_slots = 0;
        if received.slot >= self.next_slot {
            self.yield_slot(received.slot, None);
        }
    }

    async fn finish_poll(
        &mut self,
        grant: PollGrant,
        outcome: PollOutcome,
        published: Option<SharedFeeHistory>,
    ) {
        let slot = self.clock.map(|clock| match grant {
            PollGrant::Claimed(slot) => slot,
            PollGrant::Standalone(at) => self.chain_state.slots.slot_at(&clock, at),
        });
        if let Some((published, (slot, clock))) = published.zip(slot.zip(self.clock)) {
            self.last_slot = self.last_slot.max(slot);
            let record = SharedFeeHistory { slot, ..published };
            self.chain_state.publish(&record, &clock).await;
        }
        self.priority = match outcome {
            // One replica needs several polls to confirm a head.
            PollOutcome::Accepted | PollOutcome::Unconfirmed => ClaimPriority::Holder,
            PollOutcome::Failed => ClaimPriority::Backoff,
        };
        let retry_at = (outcome != PollOutcome::Accepted)
            .then(|| clock::now() + ChainUpstreams::MAX_RETRY_INTERVAL);
        match slot {
            Some(slot) => self.schedule_claim(slot.saturating_add(1), retry_at),
            None => self.claim_at = retry_at.map_or(self.claim_at, |at| at.min(self.claim_at)),
        }
        if outcome == PollOutcome::Accepted && matches!(grant, PollGrant::Claimed(_)) {
            self.silent_slots = 0;
        }
    }
}
