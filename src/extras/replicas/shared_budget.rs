//! Rate limit of an API that replicas share through Redis, as a sliding window (`reserve.lua`).

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use redis::Script;

use super::connection::{CommandFailed, RESERVE_SCRIPT, RedisHandle};
use crate::config::UpstreamUrl;

/// Requests of all replicas that use the same API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedBudget {
    redis: RedisHandle,
    keys: [String; 2],
    script: Script,
}

impl SharedBudget {
    /// Budget of the API at this URL. Redis gets only a fingerprint of the URL.
    pub(crate) fn new(redis: RedisHandle, api: &UpstreamUrl) -> Self {
        let api = api.fingerprint();
        let keys = ["requests", "pause"].map(|key| format!("gas:v1:{{delegation:{api}}}:{key}"));
        Self { redis, keys, script: Script::new(RESERVE_SCRIPT) }
    }

    /// Returns a random id of a request.
    #[must_use]
    pub fn new_id() -> String {
        format!("{:016x}", RandomState::new().hash_one(()))
    }

    /// Counts request `id` for `hold` if fewer than `limit` requests count. Returns the longest time until that is so;
    /// zero if the request counts now; `None` if Redis did not answer.
    pub async fn reserve(&self, id: &str, limit: usize, hold: Duration) -> Option<Duration> {
        self.run("reserve", id, limit, hold).await.ok().map(Duration::from_millis)
    }

    /// Counts request `id` for `hold` from now on, if it still counts. A failure is only logged: the request then
    /// counts for as long as it was reserved.
    pub async fn set_hold(&self, id: &str, hold: Duration) {
        let _ = self.run("hold", id, 0, hold).await;
    }

    /// Grants no permit for `duration`.
    pub async fn start_cool_down(&self, duration: Duration) {
        let _ = self.run("pause", "", 0, duration).await;
    }

    /// Runs the script. Returns the milliseconds until a permit is free.
    async fn run(
        &self,
        command: &str,
        id: &str,
        limit: usize,
        duration: Duration,
    ) -> Result<u64, CommandFailed> {
        let connection = self.redis.active().ok_or(CommandFailed)?;
        // Rounded up, so that no permit is released early.
        let millis = u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let [requests, pause] = &self.keys;
        let mut script = self.script.key(requests);
        script.key(pause).arg(command).arg(id).arg(limit).arg(millis);
        connection.run(&script).await
    }
}
