//! The `[server]`, `[cors]` and `[log]` sections.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::http::HeaderValue;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tracing_subscriber::EnvFilter;

use super::units;

/// Where the service listens and how it stops.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The public routes; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Liveness and readiness for the operator.
    pub admin_listen: SocketAddr,
    /// A path below which all public routes live: empty, or `/a/b` without a trailing slash.
    pub base_path: String,
    /// Accepted, not in force in this version.
    pub(super) trusted_proxies: Option<IgnoredAny>,
    /// How long a request under way may take after the signal to stop.
    #[serde(deserialize_with = "units::duration")]
    pub shutdown_grace: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::UNSPECIFIED, 8080).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 9090).into(),
            base_path: String::new(),
            trusted_proxies: None,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl Server {
    /// Whether [`base_path`](Self::base_path) can be the prefix of every route as it stands.
    pub(super) fn has_usable_base_path(&self) -> bool {
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

/// Which web pages may read the answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
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
    /// Whether every origin is allowed.
    #[must_use]
    pub fn allows_any(&self) -> bool {
        self.allowed_origins == ["*"]
    }

    /// The allowed origins as header values; `None` when one could never match a browser's
    /// `Origin`.
    pub(crate) fn origins(&self) -> Option<Vec<HeaderValue>> {
        let origin = |text: &String| {
            let url = reqwest::Url::parse(text).ok()?;
            let is_origin = url.origin().is_tuple() && url.origin().ascii_serialization() == *text;
            is_origin.then(|| HeaderValue::from_str(text).ok())?
        };
        self.allowed_origins.iter().map(origin).collect()
    }
}

/// What is logged, to standard error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// `tracing` directives, such as `info` or `info,gas_suggestion=debug`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".into() }
    }
}

impl Log {
    /// The parsed [`filter`](Self::filter), or what is wrong with it.
    pub(crate) fn directives(&self) -> Result<EnvFilter, String> {
        EnvFilter::try_new(&self.filter).map_err(|error| error.to_string())
    }
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
