//! "Did you mean": the known name that is nearest to an unknown one.

/// Returns the candidate that looks most like `name`, if any looks like it. Case, dashes and underscores do not count.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    /// Below this similarity the names share letters, not a meaning.
    const MIN_SIMILARITY: f64 = 0.6;
    let name = plain(name);
    let similarity =
        |candidate: &str| strsim::normalized_damerau_levenshtein(&name, &plain(candidate));
    let scored = candidates.into_iter().map(|candidate| (similarity(candidate), candidate));
    let near = scored.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    near.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, candidate)| candidate)
}

fn plain(name: &str) -> String {
    /// Longer names cost time and are near to none.
    const MAX_CHARACTERS: usize = 64;
    name.chars()
        .filter(|character| !matches!(character, '_' | '-'))
        .map(|character| character.to_ascii_lowercase())
        .take(MAX_CHARACTERS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_else() {
        let keys = ["listen", "admin_listen", "block_time", "rpc_urls", "max_age"];
        let found = |name: &str| nearest(name, keys);
        assert_eq!(found("lisen"), Some("listen"));
        assert_eq!(found("rpc_url"), Some("rpc_urls"));
        assert_eq!(found("BLOCK-TIME"), Some("block_time"));
        assert_eq!(found("blocktimes"), Some("block_time"));
        assert_eq!(found("adminlisten"), Some("admin_listen"));
        for foreign in ["port", "", "\u{e4}\u{f6}", &"l".repeat(100_000)] {
            assert_eq!(found(foreign), None, "{foreign}");
        }
    }
}
