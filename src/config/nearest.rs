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
    let rated = candidates.into_iter().map(|candidate| (similarity(candidate), candidate));
    let near = rated.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    near.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, candidate)| candidate)
}

/// Returns true if `name` is `known` but for case, dashes, underscores and a typing error: one edit, or two in a name of six
/// letters or more.
pub(crate) fn is_close(name: &str, known: &str) -> bool {
    let (name, known) = (plain(name), plain(known));
    let edits = if known.len() < 6 { 1 } else { 2 };
    name.len().abs_diff(known.len()) <= edits && strsim::damerau_levenshtein(&name, &known) <= edits
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
    fn close_names_are_a_typing_error_away() {
        for (name, known) in [
            ("block", "blocks"),
            ("Blocks", "blocks"),
            ("bolcks", "blocks"),
            ("blcks", "blocks"),
            ("clock", "blocks"),
            ("chain_id", "chainId"),
            ("CHAIN-ID", "chainId"),
            ("lable", "label"),
            ("max-fee-pergas", "max_fee_per_gas"),
        ] {
            assert!(is_close(name, known), "{name}");
        }
        for (name, known) in [
            ("lock", "label"),
            ("lab", "label"),
            ("_", "blocks"),
            ("utm_source", "blocks"),
            ("apikey", "blocks"),
            ("", "to"),
            ("gas", "max_fee_per_gas"),
            (&"b".repeat(100_000), "blocks"),
        ] {
            assert!(!is_close(name, known), "{name}");
        }
    }
}
