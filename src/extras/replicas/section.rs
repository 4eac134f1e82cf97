//! The `[redis]` section.

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::connection;
use crate::config::layers::Layers;
use crate::config::secret_url::{SecretUrl, UrlScheme, optional};
use crate::config::section::{Finding, Section};
use crate::config::{Chain, SectionKind, TableKeys, Upstream};

/// Redis that replicas share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Redis {
    /// URL of a Redis or Valkey server; `None`, also written `""`: this process shares nothing.
    #[serde(with = "optional")]
    pub(crate) url: Option<RedisUrl>,
}

impl Redis {
    pub(super) const SECTION: SectionKind = SectionKind::new::<Self>(TableKeys::table("redis"));
}

impl Section for Redis {
    fn notes(&self, chains: &[Chain], _: &Layers) -> Vec<String> {
        let ignored = chains.iter().filter(|chain| self.url.is_some() && !chain.ws_urls.is_empty());
        let note = |chain: &Chain| {
            let key = &chain.key;
            format!(
                "chains.{key}.ws_urls has no effect: with redis.url, replicas share their polls"
            )
        };
        ignored.map(note).collect()
    }

    fn check_service<'a>(&'a self, _: &'a Upstream) -> Option<(&'static str, Finding<'a>)> {
        let url = self.url.as_ref()?;
        Some(("url", connection::check(url).boxed()))
    }
}

/// URL of a Redis or Valkey server.
pub(crate) type RedisUrl = SecretUrl<RedisScheme>;

/// `redis`, `valkey`, and both with TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedisScheme {}

impl UrlScheme for RedisScheme {
    const SCHEMES: &'static [&'static str] = &["redis", "rediss", "valkey", "valkeys"];
    const EXPECTED: &'static str = "expected redis[s]://[user:password@]host[:port][/database] (not shown: it may \
                                    carry a password)";

    fn accepts(url: &reqwest::Url) -> bool {
        // The client would also accept options such as `insecure`, which skips certificate checks.
        let has_more = url.query().is_some() || url.fragment().is_some();
        let is_supported = redis::IntoConnectionInfo::into_connection_info(url.clone()).is_ok();
        let database = url.path().trim_start_matches('/');
        let has_database = database.is_empty() || database.parse::<u32>().is_ok();
        !has_more && is_supported && has_database
    }
}

impl RedisUrl {
    /// Returns the number of the database. Default: 0.
    pub(crate) fn database(&self) -> u32 {
        self.expose().path().trim_start_matches('/').parse().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_invalid_redis_url_is_rejected_without_showing_it() {
        for good in ["redis://localhost", "valkey://[::1]:6379/", "redis://:canary@10.0.0.1:1/15"] {
            assert!(good.parse::<RedisUrl>().is_ok(), "{good}");
        }
        for wrong in [
            "canary",
            "redis://",
            "http://canary",
            "redis+unix:///canary",
            "redis://canary/one",
            "redis://canary/-1",
            "redis://canary/1/2",
            "redis://0.0.0.0/",
            "rediss://canary/#insecure",
            "redis://canary/?protocol=resp2",
            "redis://canary%ff@host",
        ] {
            let problem = wrong.parse::<RedisUrl>().expect_err(wrong);
            assert!(!problem.contains("canary"), "{wrong}");
        }
    }

    #[test]
    fn sockets_without_effect_are_noted() {
        let text = "[redis]\nurl = \"redis://localhost\"\n[chains.a]\nchain_id = 1\n\
                    rpc_urls = [\"http://localhost\"]\nws_urls = [\"ws://localhost:8546\"]";
        assert_eq!(
            Config::from_toml(text, &[Redis::SECTION]).unwrap().notes,
            ["chains.a.ws_urls has no effect: with redis.url, replicas share their polls"]
        );
    }
}
