//! Decides which replica polls a chain, and adopts what others have polled.
//!
//! The replica that claims a slot polls, publishes, and tries first in the next slot. The others wait a moment longer;
//! by then they usually have the value. The module [`replicas`](super) describes slots and epochs.

mod action;

use std::sync::Arc;
use std::time::{Duration, Instant};

use enum_map::{Enum, EnumMap};
use tokio::sync::watch;

use action::ClaimPriority;
pub use action::{Action, PollGrant, PollOutcome, PublishedPoll};

use super::chain_state::{PublishRequest, SharedChainState};
use super::connection::ConnectionStatus;
use super::messages::{Inbox, ValueMessage};
use super::redis_clock::RedisClock;
use super::shared_fee_history::{AdoptOutcome, InvalidRecord, RecordOrigin, SharedFeeHistory};
use crate::config;
use crate::fees::FeeHistory;
use crate::jitter;
use crate::metrics::{ChainOutcomeLabels, Counter, Metrics, counters};
use crate::store::Timestamps;
use crate::upstream::ChainUpstreams;

/// Coordinator of one chain in one replica.
#[derive(Debug)]
pub struct PollCoordinator {
    chain_state: SharedChainState,
    max_age: Duration,
    inbox: watch::Receiver<Inbox>,
    slot_counters: EnumMap<SlotOutcome, Counter>,
    merge_counters: EnumMap<AdoptOutcome, Counter>,
    invalid_counter: Counter,
    clock: Option<RedisClock>,
    epoch: u64,
    /// When to try the next claim.
    claim_at: Instant,
    /// Slot of the next claim, if known.
    next_slot: Option<u64>,
    /// When to read Redis even if all messages arrive.
    refresh_at: Instant,
    priority: ClaimPriority,
    /// Consecutive slots that other replicas claimed without publishing a usable result.
    silent_slots: u32,
    /// Steps to do before the next claim.
    pending: PendingWork,
    /// Earliest standalone poll: a slot's length after the last poll of any replica, or sooner after a failed one.
    standalone_from: Instant,
    /// Start of the last poll.
    polling_since: Instant,
    /// True if the chain has data.
    has_snapshot: bool,
    /// Consecutive polls with an unconfirmed head.
    unconfirmed_polls: u32,
    /// Receipt of the last handled value, and the last handled failure.
    handled: (Option<Instant>, Option<u64>),
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

#[derive(Debug, Default)]
struct PendingWork {
    received: Option<SharedFeeHistory>,
    grant: Option<PollGrant>,
    /// A slot that this replica may poll again, and when.
    retry: Option<(Instant, u64)>,
}

impl PollCoordinator {
    /// Slots without a usable result from other replicas after which this replica polls standalone.
    const MIN_SILENT_SLOTS: u32 = 3;
    /// Interval at which Redis is read even if all messages arrive, because messages may be lost. A random delay of up
    /// to a quarter is added.
    const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
    /// Delay of the first claim in a slot, because the estimated start of the slot may be slightly early.
    const CLOCK_MARGIN: Duration = Duration::from_millis(2);
    /// Upper bound of the base delay, an eighth of a slot. Replicas that did not hold the last slot wait for one to two
    /// base delays, or for two to three after a failed poll.
    const MAX_CLAIM_DELAY: Duration = Duration::from_millis(250);
    /// Consecutive polls for which a replica keeps priority although their heads were unconfirmed.
    const MAX_UNCONFIRMED_POLLS: u32 = 3;

    pub(super) fn new(
        chain: &config::Chain,
        chain_state: SharedChainState,
        inbox: watch::Receiver<Inbox>,
        metrics: &Metrics,
    ) -> Self {
        let now = Instant::now();
        let labels = |outcome| ChainOutcomeLabels { chain: chain.key.clone(), outcome };
        Self {
            chain_state,
            max_age: chain.max_age,
            inbox,
            slot_counters: counters(&metrics.poll_slots_total, labels),
            merge_counters: counters(&metrics.replica_messages_total, labels),
            invalid_counter: metrics.replica_messages_total.get_or_create_owned(&labels("invalid")),
            clock: None,
            epoch: 0,
            claim_at: now,
            next_slot: None,
            refresh_at: now,
            priority: ClaimPriority::Normal,
            silent_slots: 0,
            pending: PendingWork::default(),
            standalone_from: now,
            polling_since: now,
            has_snapshot: false,
            unconfirmed_polls: 0,
            handled: (None, None),
        }
    }

    /// Number of confirmed head regressions or jumps. Within one epoch a lower head is older.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Waits for the next action. Dropping the future may lose a claimed slot or another replica's message.
    pub async fn next(&mut self) -> Action {
        loop {
            if let Some(received) = self.pending.received.take() {
                return Action::Adopt(received);
            }
            if let Some(grant) = self.pending.grant.take() {
                return Action::Poll(grant);
            }
            if let Some((at, slot)) = self.pending.retry
                && at <= Instant::now()
            {
                self.pending.retry = None;
                return Action::Poll(PollGrant::Claimed(slot));
            }
            let upstreams = Arc::clone(&self.chain_state.upstreams);
            // The first connection attempt ends soon, and then the status is known.
            let is_connecting =
                matches!(*self.chain_state.redis.status(), ConnectionStatus::Connecting);
            let retry_at = self.pending.retry.map_or(self.claim_at, |(at, _)| at);
            let wake_at = self.claim_at.min(self.refresh_at).min(retry_at);
            // Unbiased: a flood of messages must not delay polls.
            tokio::select! {
                Ok(()) = self.inbox.changed() => {
                    if let Some(action) = self.handle_inbox() {
                        return action;
                    }
                }
                () = self.chain_state.redis.status_changed() => self.connection_changed(),
                () = upstreams.wait_for_rate_limit() => self.chain_state.announce_cool_downs().await,
                () = tokio::time::sleep_until(wake_at.into()), if !is_connecting => {
                    if let Some(action) = self.refresh().await {
                        return action;
                    }
                }
            }
        }
    }

    /// Records the outcome of merging a shared fee history. If it was unusable the slot stays open, and if that
    /// continues this replica polls standalone.
    pub fn record_merge(&mut self, received: &SharedFeeHistory, outcome: AdoptOutcome) {
        self.merge_counters[outcome].increment();
        match outcome {
            AdoptOutcome::Adopted | AdoptOutcome::Duplicate => {
                self.epoch = self.epoch.max(received.epoch);
                self.has_snapshot = true;
            }
            // A poll would return the same.
            AdoptOutcome::Rejected => {}
            AdoptOutcome::Older | AdoptOutcome::Implausible => return,
        }
        self.silent_slots = 0;
        if self.is_open_slot(received.slot) {
            self.yield_slot(received.slot);
        }
    }

    /// Publishes the result of a poll, if any, and schedules the next claim. Announces that a claimed slot has no
    /// accepted reply.
    pub async fn finish_poll(
        &mut self,
        grant: PollGrant,
        outcome: PollOutcome,
        published: Option<(PublishedPoll, Timestamps)>,
    ) {
        if let Some((published, seen)) = published {
            self.has_snapshot = true;
            if published.was_confirmed {
                self.epoch = self.epoch.saturating_add(1);
            }
            self.publish(grant, &published.history, seen).await;
        }
        self.unconfirmed_polls = if outcome == PollOutcome::Unconfirmed {
            self.unconfirmed_polls.saturating_add(1)
        } else {
            0
        };
        self.priority = match outcome {
            PollOutcome::Accepted => ClaimPriority::Holder,
            // One replica needs several polls to confirm such a head.
            PollOutcome::Unconfirmed if self.unconfirmed_polls <= Self::MAX_UNCONFIRMED_POLLS => {
                ClaimPriority::Holder
            }
            PollOutcome::Unconfirmed | PollOutcome::Failed => ClaimPriority::Backoff,
        };
        let retry_at = Instant::now() + ChainUpstreams::MAX_RETRY_INTERVAL;
        match grant {
            PollGrant::Claimed(slot) => {
                self.schedule_claim(slot.saturating_add(1));
                if outcome == PollOutcome::Accepted {
                    return;
                }
                if retry_at < self.claim_at {
                    self.pending.retry = Some((retry_at, slot));
                }
                self.chain_state.announce_failure(slot).await;
            }
            PollGrant::Standalone if outcome != PollOutcome::Accepted => {
                self.standalone_from = self.standalone_from.min(retry_at);
                self.claim_at = self.claim_at.min(retry_at);
            }
            PollGrant::Standalone => {}
        }
    }

    /// Handles received messages.
    fn handle_inbox(&mut self) -> Option<Action> {
        let Inbox { value, failed_slot } = self.inbox.borrow_and_update().clone();
        let received = value.as_ref().map(|message| message.received_at);
        let previous = std::mem::replace(&mut self.handled, (received, failed_slot));
        let value = value.filter(|_| received != previous.0);
        let failed_slot =
            failed_slot.filter(|slot| previous.1 != Some(*slot) && self.is_open_slot(*slot));
        if let Some(slot) = failed_slot {
            self.silent_slots = 0;
            self.yield_slot(slot);
        }
        let clock = self.clock?;
        let received = value.and_then(|ValueMessage { sent_us, received_at, record }| {
            if clock.is_skewed(sent_us, received_at) {
                // The message was late, or Redis' clock was changed.
                self.refresh_at = received_at;
            }
            self.parse_record(&record, RecordOrigin::Received(sent_us, received_at), &clock)
                .ok()
                .flatten()
        });
        match received {
            Some(publication) => Some(Action::Adopt(publication)),
            None => failed_slot.map(|_| Action::Skip),
        }
    }

    /// Parses a record; `None` if this replica wrote it.
    fn parse_record(
        &self,
        record: &[u8],
        origin: RecordOrigin,
        clock: &RedisClock,
    ) -> Result<Option<SharedFeeHistory>, InvalidRecord> {
        let parsed = SharedFeeHistory::parse(record, origin, clock);
        if parsed.is_err() {
            self.invalid_counter.increment();
        }
        Ok(Some(parsed?).filter(|found| found.replica_id != self.chain_state.replica_id))
    }

    /// Returns true if the result of `slot` is not known yet, and the slot is at most one ahead of the current one.
    fn is_open_slot(&self, slot: u64) -> bool {
        let now = Instant::now();
        let has_begun = |clock: &RedisClock| {
            slot <= self.chain_state.slots.slot_at(clock, now).saturating_add(1)
        };
        self.clock.as_ref().is_some_and(has_begun) && self.next_slot.is_none_or(|next| slot >= next)
    }

    /// Yields `slot` to another replica, which has published for it or failed.
    fn yield_slot(&mut self, slot: u64) {
        self.slot_counters[SlotOutcome::Yielded].increment();
        self.demote();
        self.pending.retry = self.pending.retry.filter(|(_, own)| *own > slot);
        self.standalone_from =
            self.standalone_from.max(Instant::now() + self.chain_state.slots.length);
        self.schedule_claim(slot.saturating_add(1));
    }

    /// Another replica holds a slot, so this one loses its priority.
    fn demote(&mut self) {
        if self.priority == ClaimPriority::Holder {
            self.priority = ClaimPriority::Normal;
        }
    }

    /// Schedules the claim of `slot`.
    fn schedule_claim(&mut self, slot: u64) {
        let Some(clock) = &self.clock else { return };
        let base_delay = (self.chain_state.slots.length / 8).min(Self::MAX_CLAIM_DELAY);
        let delay = match self.priority {
            ClaimPriority::Holder => Self::CLOCK_MARGIN,
            ClaimPriority::Normal => base_delay + jitter::random_up_to(base_delay),
            ClaimPriority::Backoff => 2 * base_delay + jitter::random_up_to(base_delay),
        };
        self.next_slot = Some(slot);
        self.claim_at = self.chain_state.slots.slot_start(clock, slot) + delay;
    }

    fn connection_changed(&mut self) {
        /// Spreads replicas that reconnect at the same time.
        const MAX_SPREAD: Duration = Duration::from_millis(500);
        if let ConnectionStatus::Connected(_) = *self.chain_state.redis.status() {
            let now = Instant::now();
            let is_first = self.clock.is_none() && self.claim_at <= now;
            let spread = MAX_SPREAD.min(self.chain_state.slots.length / 4);
            // `claim_at` is kept: a connection that comes and goes must not cause extra polls.
            self.refresh_at = if is_first { now } else { now + jitter::random_up_to(spread) };
            // It may be another server with another clock.
            (self.clock, self.next_slot) = (None, None);
            self.silent_slots = 0;
        }
    }

    /// Reads the state from Redis, and claims a slot if one is due.
    async fn refresh(&mut self) -> Option<Action> {
        let now = Instant::now();
        let is_due = self.claim_at <= now;
        self.refresh_at =
            now + Self::REFRESH_INTERVAL + jitter::random_up_to(Self::REFRESH_INTERVAL / 4);
        let Ok(reply) = self.chain_state.claim_and_read(is_due).await else {
            if is_due {
                self.poll_standalone(now);
            }
            return None;
        };
        let clock = reply.clock;
        self.clock = Some(clock);
        if reply.is_claimed {
            self.slot_counters[SlotOutcome::Claimed].increment();
            self.grant_poll(PollGrant::Claimed(reply.slot), now);
            self.schedule_claim(reply.slot.saturating_add(1));
        } else {
            let following = reply.slot.saturating_add(1);
            // A slot further ahead was computed before Redis' clock was set back.
            let next = self.next_slot.filter(|next| *next <= following);
            match next {
                Some(next) if !is_due || next == following => self.schedule_claim(next),
                None if !is_due => self.schedule_claim(following),
                _ => self.skip_slot(reply.slot, now),
            }
        }
        if reply.record.is_empty() {
            return None;
        }
        let parsed = self.parse_record(&reply.record, RecordOrigin::Stored(Instant::now()), &clock);
        if parsed.is_err() {
            self.chain_state.discard(&reply.record).await;
        }
        parsed.ok().flatten().map(Action::Adopt)
    }

    /// Skips a slot that another replica has claimed. Polls it standalone after too many slots without a usable result.
    fn skip_slot(&mut self, slot: u64, now: Instant) {
        self.demote();
        self.schedule_claim(slot.saturating_add(1));
        // A poll takes up to two attempts, however short the slots are, and its result arrives after that.
        let poll_deadline = self.chain_state.upstreams.attempt_deadline().saturating_mul(3);
        let slots =
            poll_deadline.as_nanos().div_ceil(self.chain_state.slots.length.as_nanos().max(1));
        let max_silent_slots = u32::try_from(slots).unwrap_or(u32::MAX).max(Self::MIN_SILENT_SLOTS);
        if self.silent_slots >= max_silent_slots {
            self.slot_counters[SlotOutcome::Standalone].increment();
            self.grant_poll(PollGrant::Standalone, now);
            return;
        }
        self.slot_counters[SlotOutcome::Yielded].increment();
        self.silent_slots = self.silent_slots.saturating_add(1);
        let retry_at = now + ChainUpstreams::MAX_RETRY_INTERVAL;
        if !self.has_snapshot && retry_at < self.claim_at {
            // With slots this long the holder should have published by then.
            (self.silent_slots, self.claim_at) = (max_silent_slots, retry_at);
        }
    }

    fn poll_standalone(&mut self, now: Instant) {
        self.next_slot = None;
        if now >= self.standalone_from {
            self.slot_counters[SlotOutcome::Standalone].increment();
            self.grant_poll(PollGrant::Standalone, now);
        }
        self.claim_at = self.standalone_from;
    }

    /// Records the start of a poll.
    fn grant_poll(&mut self, permit: PollGrant, now: Instant) {
        self.pending.grant = Some(permit);
        self.polling_since = now;
        self.standalone_from = now + self.chain_state.slots.length;
    }

    /// Publishes the result of a poll for its slot.
    async fn publish(&mut self, grant: PollGrant, history: &FeeHistory, timestamps: Timestamps) {
        let Some(clock) = self.clock else { return };
        let slot = match grant {
            PollGrant::Claimed(slot) => slot,
            // The slot in which the poll began, as with all replicas. A later slot would block newer results of others.
            PollGrant::Standalone => self.chain_state.slots.slot_at(&clock, self.polling_since),
        };
        let request = PublishRequest {
            slot,
            epoch: self.epoch,
            history,
            timestamps,
            max_age: self.max_age,
            clock,
        };
        let Ok(Some(stored)) = self.chain_state.publish(request).await else { return };
        match self.parse_record(&stored, RecordOrigin::Stored(Instant::now()), &clock) {
            Ok(received) => self.pending.received = received,
            Err(InvalidRecord) => self.chain_state.discard(&stored).await,
        }
    }
}
