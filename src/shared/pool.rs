//! The places for requests to an API, which replicas take together.

use std::time::Duration;

use redis::Script;

use super::link::{Failed, Link, POOL};
use crate::config::UpstreamUrl;

/// Places that are taken by all replicas that ask the same API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pool {
    link: Link,
    keys: [String; 5],
    replica: String,
    script: Script,
}

/// What a replica holds, and by what rules.
#[derive(Debug)]
pub struct Holds {
    /// For how long each of its places is held, and whether its request is under way.
    pub places: Vec<(Duration, bool)>,
    /// For how long the API is to be let be.
    pub closed_for: Duration,
    /// What an answer takes, as far as is known.
    pub usual: Duration,
    /// What it takes at most.
    pub timeout: Duration,
    /// For how long a place is held after the answer.
    pub window: Duration,
    /// How many there are for all.
    pub requests: usize,
}

/// A place that was taken.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// After that it may be used.
    pub wait: Duration,
    /// How many share.
    pub replicas: usize,
}

/// Why no place was taken.
#[derive(Debug, Clone, Copy)]
pub enum NotTaken {
    /// After that long one is free, as far as the requests under way are answered.
    Spent(Duration),
    /// Redis cannot be asked.
    Away,
}

impl Pool {
    /// The places of the API at this URL, which Redis does not learn.
    pub(super) fn new(link: Link, replica: String, api: &UpstreamUrl) -> Self {
        let api = api.alias();
        let key = |last| format!("gas:v1:{{delegation:{api}}}:{last}");
        let keys = ["places", "sent", "closed", "replicas", "since"].map(key);
        Self { link, keys, replica, script: Script::new(POOL) }
    }

    /// Takes a place, which this replica numbers `place`, if one is free or gets free within its `patience`.
    /// Dropping the future leaves that to the next call.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn take(
        &self,
        holds: &Holds,
        place: usize,
        patience: Duration,
    ) -> Result<Taken, NotTaken> {
        let (is_taken, wait, replicas) =
            self.run(holds, Some(place), patience).await.map_err(|Failed| NotTaken::Away)?;
        if is_taken { Ok(Taken { wait, replicas }) } else { Err(NotTaken::Spent(wait)) }
    }

    /// Tells what this replica holds. How many share.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn tell(&self, holds: &Holds) -> Result<usize, NotTaken> {
        let told = self.run(holds, None, Duration::ZERO).await;
        told.map(|(_, _, replicas)| replicas).map_err(|Failed| NotTaken::Away)
    }

    /// Resolves when the connection to Redis is lost or there again.
    pub async fn changed(&mut self) {
        self.link.changed().await;
    }

    async fn run(
        &self,
        holds: &Holds,
        place: Option<usize>,
        patience: Duration,
    ) -> Result<(bool, Duration, usize), Failed> {
        let line = self.link.line().ok_or(Failed)?;
        let mut script = self.script.prepare_invoke();
        for key in &self.keys {
            script.key(key);
        }
        script.arg(&self.replica).arg(holds.requests);
        for duration in [holds.window, holds.timeout, holds.usual, patience, holds.closed_for] {
            script.arg(millis(duration));
        }
        script.arg(place.map(|place| place.to_string()).unwrap_or_default());
        for (held, is_under_way) in &holds.places {
            let sign = if *is_under_way { "~" } else { "" };
            script.arg(format!("{sign}{}", millis(*held)));
        }
        let (taken, wait, replicas): (u8, u64, usize) = line.run(&script).await?;
        Ok((taken == 1, Duration::from_millis(wait), replicas))
    }
}

/// In milliseconds, rounded up: nothing is held for less than it has to be.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
