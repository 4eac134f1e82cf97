//! Removes secrets from texts and JSON of upstreams.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::memory_budget::{MemoryBudget, MemoryExhausted};

const REDACTED: &str = "***";

/// Returns the path of a request without the API key that clients of an API send after `/v3/`. A segment after
/// one that spells `v3` in any way is taken for a key, also if the request matches no route.
pub(crate) fn without_path_key(path: &str) -> Cow<'_, str> {
    let is_version = |segment: &str| {
        percent_decode_str(segment).decode_utf8_lossy().trim().eq_ignore_ascii_case("v3")
    };
    if !path.split('/').any(is_version) {
        return path.into();
    }
    let mut is_key = false;
    let shown = path.split('/').map(|segment| match segment {
        "" => segment,
        _ if std::mem::replace(&mut is_key, is_version(segment)) => REDACTED,
        _ => segment,
    });
    shown.collect::<Vec<_>>().join("/").into()
}

/// Secrets to remove. One pass finds every occurrence of all of them.
#[derive(Clone)]
pub(crate) struct Redactor {
    pub(crate) matcher: Option<AhoCorasick>,
}

/// Never printed.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(REDACTED)
    }
}

/// Reason why a text cannot be redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RedactError {
    #[error("the text is too large to redact")]
    TooLarge,
    #[error("the text cannot be redacted")]
    Unparsable,
    #[error(transparent)]
    NoMemory(#[from] MemoryExhausted),
}

impl Redactor {
    /// Larger texts are rejected. Errors have a few KiB, and a search would be slow.
    const MAX_BYTES: usize = 1024 * 1024;

    /// Creates a redactor of these secrets.
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        // A whole URL takes precedence over a part of it.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(secrets.into_iter().filter(|secret| !secret.is_empty()));
        // Fails only for more text than any configuration has. Without a matcher, everything counts as secret.
        Self { matcher: finder.ok() }
    }

    /// Returns `text` with secrets replaced.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        let Some(finder) = &self.matcher else { return REDACTED.into() };
        let mut text = text.to_owned();
        redact_string(finder, &mut text);
        text
    }

    /// Returns `json` unchanged if it contains no secret, else with secrets replaced. Replaced JSON is charged to
    /// `memory`.
    pub(crate) fn redact_json(
        &self,
        json: &Bytes,
        memory: &MemoryBudget,
    ) -> Result<Bytes, RedactError> {
        let Some(finder) = &self.matcher else { return Err(RedactError::Unparsable) };
        if json.len() > Self::MAX_BYTES {
            return Err(RedactError::TooLarge);
        }
        // A character can be escaped in several ways, so values are searched rather than bytes. JSON that is nested too
        // deeply is not shown.
        let mut value: Value = serde_json::from_slice(json).map_err(|_| RedactError::Unparsable)?;
        if !redact_value(finder, &mut value) {
            return Ok(json.clone());
        }
        let redacted = serde_json::to_vec(&value).map_err(|_| RedactError::Unparsable)?;
        Ok(memory.try_hold(redacted)?)
    }
}

/// Replaces secrets; returns true if there were any.
pub(crate) fn redact_value(matcher: &AhoCorasick, value: &mut Value) -> bool {
    match value {
        Value::String(text) => redact_string(matcher, text),
        Value::Array(items) => {
            let mut found = false;
            for item in items {
                found |= redact_value(matcher, item);
            }
            found
        }
        Value::Object(members) => {
            let mut found = false;
            for (mut name, mut value) in std::mem::take(members) {
                found |= redact_string(matcher, &mut name) | redact_value(matcher, &mut value);
                members.insert(name, value);
            }
            found
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn redact_string(matcher: &AhoCorasick, text: &mut String) -> bool {
    let found = matcher.is_match(text.as_str());
    if found {
        let replacements = vec![REDACTED; matcher.patterns_len()];
        *text = matcher.replace_all(text, &replacements);
    }
    // Finds percent-encoded and escaped secrets too. Their position in `text` is unknown, so all of it is replaced.
    let plain = percent_decode_str(text).decode_utf8_lossy().replace('\\', "");
    let is_encoded = matcher.is_match(plain.as_str());
    if is_encoded {
        REDACTED.clone_into(text);
    }
    found || is_encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UpstreamUrl;

    #[test]
    fn a_key_in_a_path_is_removed() {
        for (path, expected) in [
            ("/v3/secret/networks/1/suggestedGasFees", "/v3/***/networks/1/suggestedGasFees"),
            ("/base/v3/secret/networks/1", "/base/v3/***/networks/1"),
            ("/v3/secret", "/v3/***"),
            ("/v3/", "/v3/"),
            ("/v3", "/v3"),
            ("/V3/secret/x", "/V3/***/x"),
            ("/%763/secret/x", "/%763/***/x"),
            ("/v3//secret/x", "/v3//***/x"),
            ("/v3/x/v3/secret/y", "/v3/***/v3/***/y"),
            ("/api/v3/gas/v3/secret/networks/1", "/api/v3/***/v3/***/networks/1"),
            ("/v3/v3/secret", "/v3/***/***"),
            ("/v1/ronin/gas-suggestion", "/v1/ronin/gas-suggestion"),
        ] {
            assert_eq!(without_path_key(path), expected);
        }
    }

    fn redact(url: &str, error: &str) -> String {
        let url: UpstreamUrl = url.parse().unwrap();
        let error = Bytes::copy_from_slice(error.as_bytes());
        let shown = Redactor::new(url.secrets()).redact_json(&error, &MemoryBudget::new(0));
        String::from_utf8(shown.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn errors_stay_but_for_secrets_and_whole_urls() {
        let (mainnet, keyed) =
            ("https://node.example/rpc/mainnet", "https://user:canary@node.example/v2/canarykey");
        for (url, error, expected) in [
            (
                keyed,
                r#"{ "code":3, "message":"execution reverted: https:\/\/other.example/rpc",
                    "data":"0x08c379a0", "number":123456789012345678901234567890 }"#,
                None,
            ),
            // Plain words of a path are no secrets.
            (mainnet, r#"{"code":-32000,"message":"the rpc of mainnet is at node.example"}"#, None),
            (
                mainnet,
                r#"{"code":-32000,"message":"POST https://node.example/rpc/mainnet failed"}"#,
                Some(r#"{"code":-32000,"message":"POST *** failed"}"#),
            ),
            ("http://***:**@node.example/", r#"{"code":1,"message":"***"}"#, None),
            // `CanaryKey1:` in base64: a user without a password.
            (
                "http://CanaryKey1@node.example/",
                r#"{"code":1,"message":"Basic Q2FuYXJ5S2V5MTo="}"#,
                Some(r#"{"code":1,"message":"Basic ***="}"#),
            ),
        ] {
            assert_eq!(redact(url, error), expected.unwrap_or(error), "{url}");
        }
    }

    #[test]
    fn encoded_variants_of_url_secrets_are_redacted() {
        let url = "https://user-7:canary%2B2@node.example/v2/Canary9?key=hidden%20one#frag-ment";
        for leak in [
            url,
            "https:\\/\\/user-7:canary%2B2@node.example\\/v2\\/Canary9?key=hidden%20one",
            "user-7",
            "canary%2B2",
            "canary+2",
            "c\\u0061nary+2",
            "Canary9",
            "hidden%20one",
            "hidden one",
            "hidden+one",
            "frag-ment",
            // base64 of `user-7:canary+2`
            "Basic dXNlci03OmNhbmFyeSsy",
            // base64 of `Canary9`
            "Q2FuYXJ5OQ==",
            "CANARY9",
            "canary%2b2",
            "%43anary9",
        ] {
            for error in [
                format!("{{\"code\":-32000,\"message\":\"no: {leak}, sorry\"}}"),
                format!("{{\"code\":3,\"message\":\"\",\"data\":[{{\"{leak}\":1}},\"{leak}\"]}}"),
            ] {
                let shown = redact(url, &error);
                assert!(shown.contains(REDACTED), "{shown}");
                for secret in ["user-7", "anary", "hidden", "frag", "dxnlci", "q2fuyxj5"] {
                    assert!(!shown.to_lowercase().contains(secret), "{leak}: {shown}");
                }
            }
        }
    }

    #[test]
    fn an_unparsable_or_large_error_is_rejected() {
        let redactor = Redactor::new([]);
        let apply =
            |error: String| redactor.redact_json(&Bytes::from(error), &MemoryBudget::new(0));
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(apply(deep), Err(RedactError::Unparsable));
        let large = format!("\"{}\"", "x".repeat(Redactor::MAX_BYTES));
        assert_eq!(apply(large), Err(RedactError::TooLarge));
    }

    #[test]
    fn redacted_text_is_charged() {
        let url = "https://node.example/v2/canarykey";
        let redactor = Redactor::new(url.parse::<UpstreamUrl>().unwrap().secrets());
        let error = Bytes::from(format!("\"{}\"", format!("{url} ").repeat(30_000)));
        let expected = format!("\"{}\"", "*** ".repeat(30_000));
        let memory = MemoryBudget::new(expected.len());
        let redacted = redactor.redact_json(&error, &memory).unwrap();
        assert_eq!(redacted, expected);
        let refused = redactor.redact_json(&error, &memory);
        assert_eq!(refused, Err(RedactError::NoMemory(MemoryExhausted)));
        drop(redacted);
        assert!(redactor.redact_json(&error, &memory).is_ok());
    }
}
