//! Parts of JSON that are kept as text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Decodes a JSON string. `None`: not a string.
pub(crate) fn parse_string(json: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text>(json.get()).ok().map(|Text(text)| text)
}

/// Returns the depth of nested brackets. Does not recurse, so no depth exhausts the stack.
pub(crate) fn nesting_depth(json: &RawValue) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.get().bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn nesting_depth_counts_open_brackets_outside_strings() {
        for (json, levels) in
            [("1", 0), ("[]", 1), (r#"[{"a":[]},[]]"#, 3), (r#"["[[[[","\"[[[","\\"]"#, 1)]
        {
            assert_eq!(nesting_depth(raw(json)), levels, "{json}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(nesting_depth(raw(&deep)), 100_000);
    }
}
