//! Logs when a chain stops being fresh, when it stops being served, and when it is back. Announces the changes that come
//! with time, without a publication.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crate::observe::clock;
use crate::store::{ChainState, ServableSnapshot, StaleReason, StoredChain};

/// Shortest sleep, which also covers the rounding of timers.
const MIN_SLEEP: Duration = Duration::from_millis(10);

/// Watches `chain` for ever. Dropping the future ends it.
pub(crate) async fn watch(chain: StoredChain) -> Infallible {
    let started = clock::now();
    let (mut updates, mut leaps) = (chain.subscribe(), chain.leaps());
    let mut state = ChainState::NoData;
    // When the chain stopped being fresh.
    let mut since = started;
    let mut has_warned_of_no_data = false;
    loop {
        chain.announce_state();
        // Its own announcement is no reason to look again.
        updates.mark_unchanged();
        let snapshot = chain.servable_snapshot();
        let current = ChainState::new(&snapshot);
        let waited = clock::elapsed(started);
        let is_overdue = current == ChainState::NoData && waited >= chain.config().max_age;
        if is_overdue && !has_warned_of_no_data {
            has_warned_of_no_data = true;
            let (chain, waited) = (chain.config().key.as_str(), duration_text(waited));
            tracing::warn!(chain, waited, "chain is not served yet: no data was read");
        }
        if current != state {
            if state == ChainState::Fresh {
                since = clock::now();
            }
            let is_first = state == ChainState::NoData && !has_warned_of_no_data;
            if !is_first || current != ChainState::Fresh {
                log_change(&chain, state, current, since);
            }
            state = current;
        }
        let sleep = tokio::time::sleep(time_to_change(&chain, snapshot.as_ref().ok()));
        tokio::select! {
            () = sleep => {}
            _ = updates.changed() => {}
            // The timer has not counted a sleep.
            _ = leaps.changed() => {}
        }
    }
}

/// Returns the time after which the status may differ without an update.
fn time_to_change(chain: &StoredChain, snapshot: Option<&ServableSnapshot>) -> Duration {
    let config = chain.config();
    let remaining = match snapshot {
        Some(snapshot) => match snapshot.stale_reason {
            None => snapshot.fresh_for,
            Some(StaleReason::OldData) => config.max_age.saturating_sub(snapshot.age),
            Some(_) => {
                config.stale_after(snapshot.snapshot.block_time).saturating_sub(snapshot.age)
            }
        },
        None => config.block_time,
    };
    remaining.max(MIN_SLEEP)
}

fn log_change(chain: &StoredChain, before: ChainState, now: ChainState, since: Instant) {
    let (chain, after) = (chain.config().key.as_str(), duration_text(clock::elapsed(since)));
    match (before, now) {
        (ChainState::NoData, ChainState::Fresh) => tracing::info!(chain, after, "chain is served"),
        (_, ChainState::Fresh) => tracing::info!(chain, after, "chain is fresh again"),
        (ChainState::Expired, ChainState::Stale(_)) => {
            tracing::info!(chain, after, "chain is served again, but stale");
        }
        (_, ChainState::Stale(reason)) => {
            tracing::warn!(chain, reason = reason.name(), "chain is stale");
        }
        (_, ChainState::Expired) => {
            tracing::warn!(chain, after, "chain is not served any more: its data is too old");
        }
        (_, ChainState::NoData) => {}
    }
}

/// Returns whole seconds, or milliseconds below a second.
fn duration_text(duration: Duration) -> String {
    let shown = match duration.as_secs() {
        0 => Duration::from_millis(duration.subsec_millis().into()),
        seconds => Duration::from_secs(seconds),
    };
    humantime::format_duration(shown).to_string()
}
