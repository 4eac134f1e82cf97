//! The `[server]`, `[limits]`, `[cors]` and `[log]` sections.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::mistakes::SectionMistakes;
use super::origin::OriginPattern;
use super::units::{self, parse_digits, parse_size};
use crate::fees::amount::ParsedVisitor;

/// Listeners and shutdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address of the public routes. Port 0: a free port.
    pub listen: SocketAddr,
    /// Address of metrics and health checks.
    pub admin_listen: SocketAddr,
    /// Names in the `Host` header of requests to the admin listener, besides its addresses and `localhost`.
    pub admin_hosts: Vec<String>,
    /// Path prefix of all public routes: empty, or `/a/b` without a trailing slash.
    pub base_path: String,
    /// Networks whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Number of threads that serve connections.
    pub threads: Threads,
    /// Time after the stop signal in which connections are still accepted while `/readyz` fails, so that a load
    /// balancer can react.
    #[serde(with = "humantime_serde")]
    pub drain_delay: Duration,
    /// Time after the drain in which requests in flight may finish.
    #[serde(with = "humantime_serde")]
    pub shutdown_grace: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::UNSPECIFIED, 8080).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 9090).into(),
            admin_hosts: Vec::new(),
            base_path: String::new(),
            trusted_proxies: Vec::new(),
            threads: Threads::Auto,
            drain_delay: Duration::from_secs(1),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl Server {
    /// Probes are served below the base path and at the root.
    pub(crate) const PROBE_PATHS: [&str; 2] = ["/livez", "/readyz"];
    const MAX_DRAIN_DELAY: Duration = Duration::from_hours(1);

    /// Reports all values that are not allowed.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        let allowed = "must be empty or like /a/b, without a trailing slash";
        mistakes.require("base_path", self.has_usable_base_path(), allowed);
        let is_probe = Self::PROBE_PATHS.contains(&self.base_path.as_str());
        let allowed = "must not be /livez or /readyz, which stay at the root";
        mistakes.require("base_path", !is_probe, allowed);
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            // The one that is set is the mistake.
            let [key, other] = if mistakes.is_configured("admin_listen") {
                ["admin_listen", "listen"]
            } else {
                ["listen", "admin_listen"]
            };
            let allowed = format!("must not be the address of server.{other}");
            mistakes.reject_with(key, &[other], allowed);
        }
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_name = |name: &String| !name.is_empty() && name.bytes().all(is_name_byte);
        let allowed = "must be host names such as \"gas-suggestion\", no ports";
        mistakes.require("admin_hosts", self.admin_hosts.iter().all(is_name), allowed);
        let is_short = self.drain_delay <= Self::MAX_DRAIN_DELAY;
        mistakes.require("drain_delay", is_short, "must be at most 1h");
    }

    /// Returns true if [`base_path`](Self::base_path) can be the prefix of every route unchanged.
    fn has_usable_base_path(&self) -> bool {
        let is_segment = |segment: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !matches!(segment, "" | "." | "..") && segment.bytes().all(plain)
        };
        match self.base_path.strip_prefix('/') {
            Some(path) => path.split('/').all(is_segment),
            None => self.base_path.is_empty(),
        }
    }
}

/// Number of serving threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Threads {
    /// One per core that the process may use: its affinity and its cgroup's limit count.
    Auto,
    /// This many.
    #[serde(untagged)]
    Fixed(NonZeroUsize),
}

impl Threads {
    const MAX: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not 0");

    /// Returns the number of threads.
    pub(crate) fn count(self) -> NonZeroUsize {
        match self {
            Self::Auto => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            Self::Fixed(count) => count,
        }
    }
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(ParsedVisitor {
            expected: "\"auto\" or a number from 1 to 256",
            parse: |text| match text {
                "auto" => Some(Self::Auto),
                number => parse_digits(number).filter(|count| *count <= Self::MAX).map(Self::Fixed),
            },
        })
    }
}

/// Limits per client and for all clients together. 0 switches a limit off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections to the public listener, at most as many as memory and open files have room for; 0: as many. A
    /// further one takes the place of one of the client that has the most, or gets 503.
    pub max_connections: usize,
    /// Open connections of one client. Further ones get 429 and are closed.
    pub max_connections_per_client: usize,
    /// Sustained requests per second per client; more get 429. Used with
    /// [`request_burst_per_client`](Self::request_burst_per_client); 0 in either means no limit.
    pub requests_per_second_per_client: u32,
    /// Burst of requests per client.
    pub request_burst_per_client: u32,
    /// Open streams. Further ones get 503.
    pub max_streams: usize,
    /// Memory of the process, from which the bytes and the connections that clients may hold are derived.
    pub memory: MemoryLimit,
    /// Time from the start of the connection, or from the last response, to the end of a request's headers.
    #[serde(with = "humantime_serde")]
    pub header_timeout: Duration,
    /// Time between two parts of a request body.
    #[serde(with = "humantime_serde")]
    pub body_timeout: Duration,
    /// Time from a request's headers to the start of the response, on routes without their own deadline.
    #[serde(with = "humantime_serde")]
    pub request_timeout: Duration,
    /// Time for which a client may read nothing of a response.
    #[serde(with = "humantime_serde")]
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 16_384,
            max_connections_per_client: 1024,
            requests_per_second_per_client: 500,
            request_burst_per_client: 1000,
            max_streams: 10_000,
            memory: MemoryLimit::Auto,
            // Longer than load balancers keep an idle connection (60 s is common), because the side that sends requests
            // must be the one that closes.
            header_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
        }
    }
}

impl Limits {
    pub(crate) const MAX_ADMIN_CONNECTIONS: usize = 64;

    /// Limits of the admin listener: the same timeouts, but no limits per client.
    pub(crate) fn for_admin(&self) -> Self {
        Self {
            max_connections: Self::MAX_ADMIN_CONNECTIONS,
            max_connections_per_client: 0,
            requests_per_second_per_client: 0,
            ..self.clone()
        }
    }
}

/// Memory limit of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryLimit {
    /// The smallest limit of the process's cgroup and its ancestors; 1 GiB if there is none.
    Auto,
    /// This many bytes.
    #[serde(untagged)]
    Bytes(#[serde(serialize_with = "units::size::serialize")] usize),
}

impl MemoryLimit {
    /// With less, nothing would be left for clients.
    pub(crate) const MIN_BYTES: usize = 64 * 1024 * 1024;
}

impl<'de> Deserialize<'de> for MemoryLimit {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "\"auto\" or a size of at least \"64 MiB\", such as \"512 MiB\"",
            parse: |text| match text {
                "auto" => Some(Self::Auto),
                size => parse_size(size).filter(|bytes| *bytes >= Self::MIN_BYTES).map(Self::Bytes),
            },
        })
    }
}

/// Web pages that may read responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cors {
    /// Origins such as `https://app.example`, or `*` alone for any.
    pub allowed_origins: Vec<String>,
}

impl Default for Cors {
    fn default() -> Self {
        Self { allowed_origins: vec!["*".into()] }
    }
}

impl Cors {
    /// Returns true if every origin is allowed.
    #[must_use]
    pub fn allows_any(&self) -> bool {
        self.allowed_origins == ["*"]
    }

    /// Reports origins that are none.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        let allowed = "must be [\"*\"] or origins such as \"https://app.example\" or \"https://*.example.com\", no path";
        for (index, origin) in self.allowed_origins.iter().enumerate() {
            if !self.allows_any() && OriginPattern::parse(origin).is_none() {
                mistakes.table("allowed_origins").reject(&index.to_string(), allowed);
            }
        }
    }

    /// Returns the allowed origins; `None` if one can never match a browser's `Origin`.
    pub(crate) fn origins(&self) -> Option<Vec<OriginPattern>> {
        self.allowed_origins.iter().map(|text| OriginPattern::parse(text)).collect()
    }
}

/// Log on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Format of a line.
    pub format: LogFormat,
    /// A level and levels of targets, such as `info` or `info,gas_suggestion=debug`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".into() }
    }
}

impl Log {
    /// Reports an invalid filter.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        if let Err(problem) = self.directives() {
            mistakes.reject("filter", problem);
        }
    }

    /// Returns the parsed [`filter`](Self::filter), or an error message.
    pub(crate) fn directives(&self) -> Result<Targets, String> {
        if self.filter.contains('[') {
            return Err("spans and fields in brackets are not supported".into());
        }
        let directives = self.filter.split(',').map(str::trim);
        let directives: Vec<_> = directives.filter(|directive| !directive.is_empty()).collect();
        // `Targets` takes a misspelt level for a target.
        for level in directives.iter().filter(|directive| !directive.contains('=')) {
            level.parse::<LevelFilter>().map_err(|error| error.to_string())?;
        }
        directives.join(",").parse::<Targets>().map_err(|error| error.to_string())
    }
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}
