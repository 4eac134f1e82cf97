//! States that replicas share through Redis (`enter.lua`).

use std::time::Duration;

use async_trait::async_trait;
use redis::Script;

use super::connection::RedisHandle;
use crate::assembly::SharedStates;

/// States of all replicas.
#[derive(Debug)]
pub(crate) struct States {
    redis: RedisHandle,
    script: Script,
}

impl States {
    pub(crate) fn new(redis: RedisHandle) -> Self {
        Self { redis, script: Script::new(include_str!("enter.lua")) }
    }
}

#[async_trait]
impl SharedStates for States {
    async fn enter(&self, name: &str, state: &str, block: u64, repeat: Duration) -> Option<bool> {
        let connection = self.redis.active()?;
        let millis = u64::try_from(repeat.as_millis()).unwrap_or(u64::MAX);
        let mut script = self.script.key(format!("gas:v1:{{state:{name}}}"));
        script.arg(state).arg(block).arg(millis);
        let entered: u64 = connection.run(&script).await.ok()?;
        Some(entered == 1)
    }
}
