//! The `[[alerts]]` section.

use std::time::Duration;

use alloy_primitives::hex;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::secret_file::FromFile;
use crate::assembly::PriceLimit;
use crate::config::mistakes::SectionMistakes;
use crate::config::secret::Secret;
use crate::config::section::{Needs, Section};
use crate::config::{Chain, SectionKind, TableKeys, UpstreamUrl};
use crate::fees::amount::parse_amount;
use crate::store::etag;

/// All alerts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Alerts(pub(super) Vec<Alert>);

/// An alert: a webhook that is called when the price of a chain crosses a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alert {
    /// Key of the chain.
    pub(super) chain: String,
    /// The price is at most this: an amount, or a percentile of the day.
    below: Option<String>,
    /// The price is at least this.
    above: Option<String>,
    /// The webhook.
    url: Option<UpstreamUrl>,
    /// In place of `url`.
    url_file: Option<FromFile<UpstreamUrl>>,
    /// Key of the signature.
    secret: Option<Secret>,
    /// In place of `secret`.
    secret_file: Option<FromFile<Secret>>,
    /// Time after which the webhook is called again while the price stays beyond the limit.
    #[serde(default = "default_repeat", with = "humantime_serde")]
    pub(super) repeat: Duration,
    /// Shortest time between two webhooks. It grows up to `repeat` while they follow each other.
    #[serde(default = "default_pause", with = "humantime_serde")]
    pub(super) pause: Duration,
    /// Form of the request's body.
    #[serde(default)]
    pub(super) format: Format,
}

/// Form of a request's body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// All members.
    #[default]
    Json,
    /// A text for Slack's incoming webhooks.
    Slack,
    /// A text for Discord's webhooks.
    Discord,
    /// A text for Telegram's `sendMessage`; the URL's query has the `chat_id`.
    Telegram,
}

/// Side of the limit on which the price is noteworthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Side {
    Below,
    Above,
}

const LIMIT_EXPECTED: &str =
    "expected an amount such as \"20 gwei\", or a percentile of the day such as \"p20\"";

fn default_repeat() -> Duration {
    Duration::from_hours(1)
}

fn default_pause() -> Duration {
    Duration::from_mins(1)
}

impl Alerts {
    pub(super) const SECTION: SectionKind = SectionKind::new::<Self>(TableKeys::table("alerts"));
    const MAX: usize = 100;
}

impl Alert {
    const REPEATS: std::ops::RangeInclusive<Duration> =
        Duration::from_mins(1)..=Duration::from_hours(30 * 24);
    const LEAST_PAUSE: Duration = Duration::from_secs(1);

    /// Returns the text of the limit, and its side. `None`: not exactly one is configured.
    fn limit_text(&self) -> Option<(Side, &str)> {
        match (&self.below, &self.above) {
            (Some(limit), None) => Some((Side::Below, limit)),
            (None, Some(limit)) => Some((Side::Above, limit)),
            _ => None,
        }
    }

    /// Returns the limit, and its side. `None`: not exactly one is configured, or it is not one.
    pub(super) fn limit(&self) -> Option<(Side, PriceLimit)> {
        let (side, text) = self.limit_text()?;
        Some((side, PriceLimit::parse(text, parse_amount)?))
    }

    /// Returns the webhook. `None`: not exactly one is configured.
    pub(super) fn url(&self) -> Option<&UpstreamUrl> {
        match (&self.url, &self.url_file) {
            (Some(url), None) => Some(url),
            (None, Some(file)) => Some(&file.value),
            _ => None,
        }
    }

    /// Returns the key of the signature.
    pub(super) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref().or(self.secret_file.as_ref().map(|file| &file.value))
    }

    /// Returns the name in the log, such as `base below 20 gwei`.
    pub(super) fn name(&self) -> String {
        let limit = self.limit_text().map_or(("", ""), |(side, limit)| (side.into(), limit));
        format!("{} {} {}", self.chain, limit.0, limit.1)
    }

    /// Returns a name of the alert that calls `url`, which is the same in all replicas, and does not tell the URL.
    pub(super) fn fingerprint(&self, url: &UpstreamUrl) -> String {
        let url = etag::sha256(url.expose().as_str().as_bytes());
        let url = hex::encode(url.get(..12).unwrap_or_default());
        format!("{}:{url}", self.name())
    }
}

impl Section for Alerts {
    fn check(&self, mistakes: &mut SectionMistakes) {
        let Self(alerts) = self;
        if alerts.len() > Self::MAX {
            mistakes.reject("", format!("must be at most {} alerts", Self::MAX));
        }
        for (index, alert) in alerts.iter().enumerate() {
            let mut reject = |key: &str, allowed: &str| {
                mistakes.reject(&format!("{index}.{key}"), allowed);
            };
            match alert.limit_text() {
                None if alert.below.is_some() => reject("above", "must not be set beside below"),
                None => reject("below", "must be set, or above: one of them"),
                Some((side, _)) if alert.limit().is_none() => reject(side.into(), LIMIT_EXPECTED),
                Some(_) => {}
            }
            let url_key = if alert.url.is_some() { "url" } else { "url_file" };
            match alert.url() {
                None if alert.url.is_some() => reject("url_file", "must not be set beside url"),
                None => reject("url", "must be set, or url_file: one of them"),
                Some(url) if url.expose().scheme() != "https" && !url.is_private() => {
                    reject(url_key, "must be https, or http to a private address");
                }
                Some(_) => {}
            }
            let secret_key = if alert.secret.is_some() { "secret" } else { "secret_file" };
            if alert.secret.is_some() && alert.secret_file.is_some() {
                reject("secret_file", "must not be set beside secret");
            }
            if alert.secret().is_some_and(|secret| secret.expose().is_empty()) {
                reject(secret_key, "must not be empty");
            }
            if !Alert::REPEATS.contains(&alert.repeat) {
                reject("repeat", "must be from 1m to 30days");
            } else if !(Alert::LEAST_PAUSE..=alert.repeat).contains(&alert.pause) {
                reject("pause", "must be from 1s to repeat");
            }
        }
    }

    fn check_chains(&self, chains: &[Chain], mistakes: &mut SectionMistakes) {
        for (index, alert) in self.0.iter().enumerate() {
            if !chains.iter().any(|chain| chain.key == alert.chain) {
                let allowed = "must be the key of a configured chain";
                mistakes.reject(&format!("{index}.chain"), allowed);
            }
        }
    }

    fn needs(&self, _chains: &[Chain]) -> Needs {
        Needs { connections: self.0.len(), ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::{Directory, chain_toml};

    fn parse(text: &str) -> Result<Vec<Alert>, String> {
        let config = Config::from_toml(&(chain_toml("a", 9, "") + text), &[Alerts::SECTION]);
        let config = config.map_err(|errors| errors.to_string())?;
        let Alerts(alerts) = config.section();
        Ok(alerts)
    }

    #[test]
    fn alerts_are_read_and_their_secrets_are_not_shown() {
        assert_eq!(parse("").unwrap(), []);
        let text = "[[alerts]]\nchain = \"a\"\nbelow = \"20 gwei\"\n\
             url = \"https://hooks.example/c4n4ry-path\"\nsecret = \" c4n4ry-key \"\n\
             [[alerts]]\nchain = \"a\"\nabove = \"p90\"\nurl = \"http://127.0.0.1:9/\"\n\
             repeat = \"10m\"\nformat = \"slack\"\n";
        let alerts = parse(text).unwrap();
        let limits: Vec<_> = alerts.iter().map(|alert| alert.limit().unwrap()).collect();
        let expected = [
            (Side::Below, PriceLimit::Wei(20_000_000_000)),
            (Side::Above, PriceLimit::Percentile(90)),
        ];
        assert_eq!(limits, expected);
        assert_eq!(alerts[0].secret().unwrap().expose(), "c4n4ry-key");
        assert_eq!((alerts[0].repeat, alerts[0].pause), (default_repeat(), default_pause()));
        assert_eq!(alerts[0].format, Format::Json);
        assert_eq!(alerts[1].format, Format::Slack);
        let shown =
            format!("{alerts:?}{}", serde_json::to_string(&Alerts(alerts.clone())).unwrap());
        assert!(!shown.contains("c4n4ry"), "{shown}");
        let names = [&alerts[0], &alerts[1]].map(|alert| alert.fingerprint(alert.url().unwrap()));
        assert!(!names[0].contains("c4n4ry") && names[0] != names[1], "{names:?}");
        assert_eq!(alerts[0].name(), "a below 20 gwei");
    }

    #[test]
    fn a_url_and_a_secret_may_be_in_files_which_are_not_shown() {
        let directory = Directory::new("alerts");
        let [url, secret, wrong] =
            [("url", "https://x.example/c4n4ry\n"), ("key", "c4n4ry\n"), ("wrong", "c4n4ry")]
                .map(|(name, text)| directory.write(name, text));
        let text = |more: &str| format!("[[alerts]]\nchain = \"a\"\nbelow = \"p9\"\n{more}\n");
        let files = format!("url_file = \"{url}\"\nsecret_file = \"{secret}\"");
        let alerts = parse(&text(&files)).unwrap();
        assert_eq!(alerts[0].url().unwrap().expose().as_str(), "https://x.example/c4n4ry");
        assert_eq!(alerts[0].secret().unwrap().expose(), "c4n4ry");
        let json = serde_json::to_string(&Alerts(alerts.clone())).unwrap();
        assert!(json.contains(&url) && !format!("{alerts:?}{json}").contains("c4n4ry"), "{json}");
        for (lines, key) in [
            (format!("{files}\nurl = \"https://x.example\""), "url_file: must not"),
            (format!("{files}\nsecret = \"x\""), "secret_file: must not"),
            (format!("url_file = \"{wrong}\""), "url_file: expected an http"),
            ("url_file = \"/absent\"".to_owned(), "url_file: cannot read the file: No such"),
        ] {
            let error = parse(&text(&lines)).unwrap_err();
            let is_named = error.contains(&format!("alerts[0].{key}"));
            assert!(is_named && !error.contains("c4n4ry"), "{lines}: {error}");
        }
    }

    #[test]
    fn mistakes_name_the_alert_and_the_key() {
        let alert = |lines: &str| format!("[[alerts]]\n{lines}\n");
        let good = "chain = \"a\"\nbelow = \"1 gwei\"\nurl = \"https://x.example\"";
        for (lines, key) in [
            ("chain = \"a\"\nurl = \"https://x.example\"", "alerts[0].below"),
            (&format!("{good}\nabove = \"p9\"")[..], "alerts[0].above"),
            (&good.replace("1 gwei", "p0"), "alerts[0].below"),
            (&good.replace("1 gwei", "1"), "alerts[0].below"),
            (&format!("{good}\npause = \"999ms\""), "alerts[0].pause"),
            (&format!("{good}\nrepeat = \"2m\"\npause = \"3m\""), "alerts[0].pause"),
            (&format!("{good}\nsecret = \"\""), "alerts[0].secret"),
            (&format!("{good}\nformat = \"xml\""), "alerts[0].format"),
            (&format!("{good}\ntext = \"xml\""), "alerts[0].text"),
            ("chain = \"a\"\nbelow = \"p9\"", "alerts[0].url"),
        ] {
            let error = parse(&alert(lines)).unwrap_err();
            assert!(error.contains(&format!("{key}:")), "{lines}: {error}");
        }
        let second = format!("{}{}", alert(good), alert(&good.replace("1 gwei", "x")));
        assert!(parse(&second).unwrap_err().contains("alerts[1].below:"));
        let many = alert(good).repeat(101);
        assert!(parse(&many).unwrap_err().contains("at most 100"));
    }
}
