//! Takes what must stay secret out of what upstreams say.

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::memory::{Exhausted, Memory};

const BLANK: &str = "***";

/// What must not be shown. One pass finds all of it, however often it is there.
#[derive(Clone)]
pub(crate) struct Blanks {
    finder: Option<AhoCorasick>,
}

/// Never printed.
impl std::fmt::Debug for Blanks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(BLANK)
    }
}

/// Why a text is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unshowable {
    #[error("it is too large to be looked through")]
    TooLarge,
    #[error("it cannot be looked through")]
    Opaque,
    #[error(transparent)]
    NoMemory(#[from] Exhausted),
}

impl Blanks {
    /// What is larger is not looked through: it would take long, and errors are of a few KiB.
    const MAX_BYTES: usize = 1024 * 1024;

    /// Each of these texts.
    pub(crate) fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        // A whole URL before a part of it.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(secrets.into_iter().filter(|secret| !secret.is_empty()));
        // Only more text than any configuration has is too much for it.
        Self { finder: finder.ok() }
    }

    /// Whether one of them stands in `json`: however it is written, unless the JSON is such as this reader
    /// does not take, with a number that is too large.
    pub(crate) fn are_in(&self, json: &[u8]) -> bool {
        let Some(finder) = &self.finder else { return true };
        // To read it takes many times its memory, which is seldom needed.
        let has_escapes = json.iter().any(|byte| b"\\%".contains(byte));
        finder.is_match(json)
            || has_escapes
                && serde_json::from_slice(json).is_ok_and(|mut value| blank(finder, &mut value))
    }

    /// A line of text with blanks where something secret was.
    pub(crate) fn in_text(&self, text: &str) -> String {
        let Some(finder) = &self.finder else { return BLANK.into() };
        let mut text = text.to_owned();
        blank_text(finder, &mut text);
        text
    }

    /// The JSON value `json` as it came where nothing secret is in it, else with blanks, which take
    /// their place in `memory`.
    pub(crate) fn apply(&self, json: &Bytes, memory: &Memory) -> Result<Bytes, Unshowable> {
        let Some(finder) = &self.finder else { return Err(Unshowable::Opaque) };
        if json.len() > Self::MAX_BYTES {
            return Err(Unshowable::TooLarge);
        }
        // Not the bytes are searched: a character can be written in more than one way. What is nested
        // too deeply to be looked at is not shown.
        let mut value: Value = serde_json::from_slice(json).map_err(|_| Unshowable::Opaque)?;
        if !blank(finder, &mut value) {
            return Ok(json.clone());
        }
        let blanked = serde_json::to_vec(&value).map_err(|_| Unshowable::Opaque)?;
        let mut hold = memory.hold();
        hold.add(blanked.len())?;
        Ok(hold.over(blanked))
    }
}

/// Whether anything had to be blanked.
fn blank(finder: &AhoCorasick, value: &mut Value) -> bool {
    match value {
        Value::String(text) => blank_text(finder, text),
        Value::Array(items) => {
            let mut found = false;
            for item in items {
                found |= blank(finder, item);
            }
            found
        }
        Value::Object(members) => {
            let mut found = false;
            for (mut name, mut value) in std::mem::take(members) {
                found |= blank_text(finder, &mut name) | blank(finder, &mut value);
                members.insert(name, value);
            }
            found
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn blank_text(finder: &AhoCorasick, text: &mut String) -> bool {
    let found = finder.is_match(text.as_str());
    if found {
        let blanks = vec![BLANK; finder.patterns_len()];
        *text = finder.replace_all(text, &blanks);
    }
    // Written in another way, which need not be known letter by letter.
    let plain = percent_decode_str(text).decode_utf8_lossy().replace('\\', "");
    let is_hidden = finder.is_match(plain.as_str());
    if is_hidden {
        BLANK.clone_into(text);
    }
    found || is_hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UpstreamUrl;

    fn shown(url: &str, error: &str) -> String {
        let url: UpstreamUrl = url.parse().unwrap();
        let error = Bytes::copy_from_slice(error.as_bytes());
        let shown = Blanks::of(url.secrets()).apply(&error, &Memory::new(0));
        String::from_utf8(shown.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn an_error_without_a_secret_is_the_same_bytes() {
        let revert = r#"{ "code":3, "message":"execution reverted: https:\/\/other.example/rpc",
            "data":"0x08c379a0", "number":123456789012345678901234567890 }"#;
        assert_eq!(
            shown("https://user:canary@node.example/v2/canarykey?key=hidden", revert),
            revert
        );
    }

    #[test]
    fn the_url_and_its_secret_parts_are_blanked_however_they_are_written() {
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
            // and of `Canary9`
            "Q2FuYXJ5OQ==",
            "CANARY9",
            "canary%2b2",
            "%43anary9",
        ] {
            for error in [
                format!("{{\"code\":-32000,\"message\":\"no: {leak}, sorry\"}}"),
                format!("{{\"code\":3,\"message\":\"\",\"data\":[{{\"{leak}\":1}},\"{leak}\"]}}"),
            ] {
                let shown = shown(url, &error);
                assert!(shown.contains(BLANK), "{shown}");
                for secret in ["user-7", "anary", "hidden", "frag", "dxnlci", "q2fuyxj5"] {
                    assert!(!shown.to_lowercase().contains(secret), "{leak}: {shown}");
                }
            }
        }
    }

    #[test]
    fn words_of_a_path_stay_readable() {
        let error = r#"{"code":-32000,"message":"the rpc of mainnet is at node.example"}"#;
        assert_eq!(shown("https://node.example/rpc/mainnet", error), error);
        let whole = r#"{"code":-32000,"message":"POST https://node.example/rpc/mainnet failed"}"#;
        assert_eq!(
            shown("https://node.example/rpc/mainnet", whole),
            r#"{"code":-32000,"message":"POST *** failed"}"#
        );
    }

    #[test]
    fn a_secret_that_looks_blank_is_let_be() {
        let error = r#"{"code":1,"message":"***"}"#;
        assert_eq!(shown("http://***:**@node.example/", error), error);
    }

    #[test]
    fn a_user_without_a_password_is_sent_in_base64_too() {
        // `CanaryKey1:`
        let error = r#"{"code":1,"message":"Basic Q2FuYXJ5S2V5MTo="}"#;
        assert!(!shown("http://CanaryKey1@node.example/", error).contains("Q2Fu"));
    }

    #[test]
    fn what_cannot_be_looked_through_is_not_shown() {
        let blanks = Blanks::of([]);
        let apply = |error: String| blanks.apply(&Bytes::from(error), &Memory::new(0));
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(apply(deep), Err(Unshowable::Opaque));
        let large = format!("\"{}\"", "x".repeat(Blanks::MAX_BYTES));
        assert_eq!(apply(large), Err(Unshowable::TooLarge));
    }

    #[test]
    fn a_secret_is_found_in_whatever_json() {
        let blanks = Blanks::of(["canary-key".to_owned()]);
        for json in [
            "[\"canary-key\"]",
            "{\"\\u0063anary-key\":1}",
            "[1e999,\"canary-key\"]",
            "\"CANARY%2Dkey\"",
        ] {
            assert!(blanks.are_in(json.as_bytes()), "{json}");
        }
        for json in ["[\"canary\"]", "[1e999]", "true", "\"\\ud800\""] {
            assert!(!blanks.are_in(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn as_many_secrets_as_an_error_can_hold_are_blanked_in_one_pass_and_charged() {
        let url = "https://node.example/v2/canarykey";
        let blanks = Blanks::of(url.parse::<UpstreamUrl>().unwrap().secrets());
        let error = Bytes::from(format!("\"{}\"", format!("{url} ").repeat(30_000)));
        let expected = format!("\"{}\"", "*** ".repeat(30_000));
        let since = std::time::Instant::now();
        let memory = Memory::new(expected.len());
        let blanked = blanks.apply(&error, &memory).unwrap();
        assert_eq!(blanked, expected);
        // One pass takes a fraction of a second even unoptimised; one for each took minutes.
        assert!(since.elapsed().as_secs() < 10, "{:?}", since.elapsed());
        assert_eq!(blanks.apply(&error, &memory), Err(Unshowable::NoMemory(Exhausted)));
        drop(blanked);
        assert!(blanks.apply(&error, &memory).is_ok());
    }
}
