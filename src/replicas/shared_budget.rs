//! The places for requests to an API, which replicas take together.

use std::time::Duration;

use redis::Script;

use super::connection::{CommandFailed, RESERVE_SCRIPT, RedisHandle};
use crate::config::UpstreamUrl;

/// Places that are taken by all replicas that ask the same API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedBudget {
    redis: RedisHandle,
    keys: [String; 5],
    replica_id: String,
    script: Script,
}

/// State of this replica and the rules.
#[derive(Debug)]
pub struct ReserveRequest {
    /// For how long each of its places is held, and whether its request is under way.
    pub permits: Vec<(Duration, bool)>,
    /// Cool-down of the API.
    pub cool_down: Duration,
    /// Typical latency of the API.
    pub typical_latency: Duration,
    /// Deadline of a request.
    pub timeout: Duration,
    /// For how long a place is held after the answer.
    pub window: Duration,
    /// How many there are for all.
    pub max_requests: usize,
}

/// A place that was taken.
#[derive(Debug, Clone, Copy)]
pub struct Granted {
    /// After that it may be used.
    pub wait: Duration,
    /// How many share.
    pub replicas: usize,
}

/// Why no place was taken.
#[derive(Debug, Clone, Copy)]
pub enum Denied {
    /// After that long one is free, as far as the requests under way are answered.
    Exhausted(Duration),
    /// Redis cannot be asked.
    RedisUnavailable,
}

impl SharedBudget {
    /// The places of the API at this URL, which Redis does not learn.
    pub(super) fn new(redis: RedisHandle, replica_id: String, api: &UpstreamUrl) -> Self {
        let api = api.fingerprint();
        let key = |last| format!("gas:v1:{{delegation:{api}}}:{last}");
        let keys = ["places", "sent", "closed", "replicas", "since"].map(key);
        Self { redis, keys, replica_id, script: Script::new(RESERVE_SCRIPT) }
    }

    /// Takes a place, which this replica numbers `place`, if one is free or gets free within its `patience`.
    /// Dropping the future leaves that to the next call.
    ///
    /// # Errors
    ///
    /// Why there is none.
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

    /// Tells what this replica holds. How many share.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn heartbeat(&self, reservations: &ReserveRequest) -> Result<usize, Denied> {
        let reply = self.run(reservations, None, Duration::ZERO).await;
        reply.map(|(_, _, replicas)| replicas).map_err(|CommandFailed| Denied::RedisUnavailable)
    }

    /// Resolves when the connection to Redis is lost or there again.
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

/// In milliseconds, rounded up: nothing is held for less than it has to be.
fn millis_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
