//! Rate limit of an API that replicas share through Redis.
//!
//! Redis holds one entry per permit (`reserve.lua`). A token bucket (GCRA) would allow a burst and its refill within
//! one window: 49 requests for a limit of 25.

use std::time::Duration;

use redis::Script;

use super::connection::{CommandFailed, RESERVE_SCRIPT, RedisHandle};
use crate::config::UpstreamUrl;

/// Permits of all replicas that use the same API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedBudget {
    redis: RedisHandle,
    keys: [String; 5],
    replica_id: String,
    script: Script,
}

/// Permits held by this replica, and the rules of the limit.
#[derive(Debug)]
pub struct ReserveRequest {
    /// For each permit, the time for which it is taken, and whether its request is in flight.
    pub permits: Vec<(Duration, bool)>,
    /// Cool-down of the API.
    pub cool_down: Duration,
    /// Typical latency of the API.
    pub typical_latency: Duration,
    /// Deadline of a request.
    pub timeout: Duration,
    /// Time for which a permit stays taken after the response.
    pub window: Duration,
    /// Number of permits for all replicas.
    pub max_requests: usize,
}

/// A granted permit.
#[derive(Debug, Clone, Copy)]
pub struct Granted {
    /// Time until it may be used.
    pub wait: Duration,
    /// Number of sharing replicas.
    pub replicas: usize,
}

/// Reason why no permit was granted.
#[derive(Debug, Clone, Copy)]
pub enum Denied {
    /// Time until one is free, if the requests in flight are answered as usual.
    Exhausted(Duration),
    /// Redis is unavailable.
    RedisUnavailable,
}

impl SharedBudget {
    /// Permits of the API at this URL. Redis gets only a fingerprint of the URL.
    pub(super) fn new(redis: RedisHandle, replica_id: String, api: &UpstreamUrl) -> Self {
        let api = api.fingerprint();
        let key = |last| format!("gas:v1:{{delegation:{api}}}:{last}");
        let keys = ["places", "sent", "closed", "replicas", "since"].map(key);
        Self { redis, keys, replica_id, script: Script::new(RESERVE_SCRIPT) }
    }

    /// Reserves a permit, which this replica numbers `permit`, if one is free or becomes free within `max_wait`.
    /// Cancel-safe: the next call releases a reservation left by a dropped one.
    ///
    /// # Errors
    ///
    /// Returns why no permit was granted.
    pub async fn reserve(
        &self,
        reservations: &ReserveRequest,
        permit: usize,
        max_wait: Duration,
    ) -> Result<Granted, Denied> {
        let (is_granted, wait, replicas) = self
            .run(reservations, Some(permit), max_wait)
            .await
            .map_err(|CommandFailed| Denied::RedisUnavailable)?;
        if is_granted { Ok(Granted { wait, replicas }) } else { Err(Denied::Exhausted(wait)) }
    }

    /// Sends the reservations of this replica. Returns the number of sharing replicas.
    ///
    /// # Errors
    ///
    /// Fails if Redis is unavailable.
    pub async fn heartbeat(&self, reservations: &ReserveRequest) -> Result<usize, Denied> {
        let reply = self.run(reservations, None, Duration::ZERO).await;
        reply.map(|(_, _, replicas)| replicas).map_err(|CommandFailed| Denied::RedisUnavailable)
    }

    /// Resolves when the connection to Redis is lost or restored.
    pub async fn connection_changed(&mut self) {
        self.redis.status_changed().await;
    }

    async fn run(
        &self,
        reservations: &ReserveRequest,
        permit: Option<usize>,
        max_wait: Duration,
    ) -> Result<(bool, Duration, usize), CommandFailed> {
        let connection = self.redis.active().ok_or(CommandFailed)?;
        let mut script = self.script.prepare_invoke();
        for key in &self.keys {
            script.key(key);
        }
        script.arg(&self.replica_id).arg(reservations.max_requests);
        for duration in [
            reservations.window,
            reservations.timeout,
            reservations.typical_latency,
            max_wait,
            reservations.cool_down,
        ] {
            script.arg(millis_rounded_up(duration));
        }
        script.arg(permit.map(|permit| permit.to_string()).unwrap_or_default());
        for (held_for, is_in_flight) in &reservations.permits {
            let prefix = if *is_in_flight { "~" } else { "" };
            script.arg(format!("{prefix}{}", millis_rounded_up(*held_for)));
        }
        let (taken, wait, replicas): (u8, u64, usize) = connection.run(&script).await?;
        Ok((taken == 1, Duration::from_millis(wait), replicas))
    }
}

/// Converts to milliseconds, rounded up, so that no permit is released early.
fn millis_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
