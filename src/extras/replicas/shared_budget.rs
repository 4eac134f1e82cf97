//! Rate limit of an API that replicas share through Redis, as a sliding window (`reserve.lua`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Script;

use super::connection::{CommandFailed, RESERVE_SCRIPT, RedisHandle};
use crate::assembly::{SharedRateLimit, SharedRateLimits};
use crate::config::UpstreamUrl;

/// Makes the shared rate limits.
#[derive(Debug)]
pub(crate) struct Budgets {
    redis: RedisHandle,
}

impl Budgets {
    pub(crate) fn new(redis: RedisHandle) -> Self {
        Self { redis }
    }
}

impl SharedRateLimits for Budgets {
    /// Redis gets only a fingerprint of the URL.
    fn for_api(&self, api: &UpstreamUrl) -> Arc<dyn SharedRateLimit> {
        Arc::new(SharedBudget::new(self.redis.clone(), api))
    }
}

/// Requests of all replicas that use the same API.
#[derive(Debug)]
struct SharedBudget {
    redis: RedisHandle,
    keys: [String; 2],
    script: Script,
}

#[async_trait]
impl SharedRateLimit for SharedBudget {
    async fn reserve(&self, id: &str, limit: usize, hold: Duration) -> Option<Duration> {
        self.run("reserve", id, limit, hold).await.ok().map(Duration::from_millis)
    }

    // A failure is only logged: the request then counts for as long as it was reserved.
    async fn set_hold(&self, id: &str, hold: Duration) {
        let _ = self.run("hold", id, 0, hold).await;
    }

    async fn start_cool_down(&self, duration: Duration) {
        let _ = self.run("pause", "", 0, duration).await;
    }
}

impl SharedBudget {
    fn new(redis: RedisHandle, api: &UpstreamUrl) -> Self {
        let api = api.fingerprint();
        let keys = ["requests", "pause"].map(|key| format!("gas:v1:{{delegation:{api}}}:{key}"));
        Self { redis, keys, script: Script::new(RESERVE_SCRIPT) }
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
