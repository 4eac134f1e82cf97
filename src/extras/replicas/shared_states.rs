//! States that replicas share through Redis (`replace.lua`).

use async_trait::async_trait;
use redis::Script;

use super::connection::RedisHandle;
use super::redis_clock::whole_micros;
use crate::assembly::{SharedState, SharedStates};

/// States of all replicas.
#[derive(Debug)]
pub(crate) struct States {
    redis: RedisHandle,
    script: Script,
}

impl States {
    pub(crate) fn new(redis: RedisHandle) -> Self {
        Self { redis, script: Script::new(include_str!("replace.lua")) }
    }
}

#[async_trait]
impl SharedStates for States {
    async fn replace(&self, name: &str, known: &str, new: &str) -> Option<SharedState> {
        let connection = self.redis.active()?;
        let mut script = self.script.key(format!("gas:v2:{{state:{name}}}"));
        script.arg(known).arg(new).arg(whole_micros(SharedState::KEPT_FOR) / 1000);
        let (entry, is_own, now): (String, u8, u64) = connection.run(&script).await.ok()?;
        Some(SharedState::new(entry, is_own == 1, now))
    }
}
