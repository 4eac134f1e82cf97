//! Takes the configured URLs, and the secret parts of them, out of what nodes say of errors.

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::config::RpcUrl;

const BLANK: &str = "***";

/// What must not be shown, longest first: a whole URL before a part of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Blanks(Vec<Secret>);

/// Never printed.
#[derive(Clone, PartialEq, Eq)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(BLANK)
    }
}

impl Blanks {
    /// Those of all these URLs.
    pub(super) fn of<'a>(urls: impl IntoIterator<Item = &'a RpcUrl>) -> Self {
        let texts = urls.into_iter().flat_map(RpcUrl::secrets);
        // What is blank already would be blanked for ever.
        let mut texts: Vec<String> = texts.filter(|text| !BLANK.contains(text.as_str())).collect();
        texts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        texts.dedup();
        Self(texts.into_iter().map(Secret).collect())
    }

    /// The JSON value `error` as it came where nothing secret is in it, else with blanks; `None` when it is
    /// nested too deeply to be looked at.
    pub(super) fn apply(&self, error: &Bytes) -> Option<Bytes> {
        // Not the bytes are searched: a character can be written in more than one way.
        let mut value: Value = serde_json::from_slice(error).ok()?;
        if !self.blank(&mut value) {
            return Some(error.clone());
        }
        serde_json::to_vec(&value).ok().map(Bytes::from)
    }

    /// Whether anything had to be blanked.
    fn blank(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.blank_text(text),
            Value::Array(items) => {
                let mut found = false;
                for item in items {
                    found |= self.blank(item);
                }
                found
            }
            Value::Object(members) => {
                let mut found = false;
                for (mut name, mut value) in std::mem::take(members) {
                    found |= self.blank_text(&mut name) | self.blank(&mut value);
                    members.insert(name, value);
                }
                found
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn blank_text(&self, text: &mut String) -> bool {
        let mut found = false;
        for Secret(secret) in &self.0 {
            while let Some(start) = find(text, secret) {
                text.replace_range(start..start.saturating_add(secret.len()), BLANK);
                found = true;
            }
        }
        // Written in another way, which need not be known letter by letter.
        let plain = percent_decode_str(text).decode_utf8_lossy().replace('\\', "");
        if self.0.iter().any(|Secret(secret)| find(&plain, secret).is_some()) {
            BLANK.clone_into(text);
            found = true;
        }
        found
    }
}

/// Where `secret` begins in `text`, in whatever case.
fn find(text: &str, secret: &str) -> Option<usize> {
    let is_there = |window: &[u8]| window.eq_ignore_ascii_case(secret.as_bytes());
    let start = text.as_bytes().windows(secret.len().max(1)).position(is_there)?;
    // Bytes of one character of UTF-8 never look like those of another, so both ends are between two.
    text.is_char_boundary(start).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str, error: &str) -> String {
        let url: RpcUrl = url.parse().unwrap();
        let shown = Blanks::of([&url]).apply(&Bytes::copy_from_slice(error.as_bytes()));
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
    fn what_is_nested_too_deeply_is_not_shown() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert!(Blanks::default().apply(&Bytes::from(deep)).is_none());
    }
}
