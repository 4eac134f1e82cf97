//! The metrics that a `PromQL` expression refers to.

/// Returns the metric names in `expression`: every word that is not a string, label, duration, function or keyword.
pub(super) fn metric_names(expression: &str) -> Vec<String> {
    const KEYWORDS: [&str; 8] =
        ["and", "bool", "by", "group_left", "ignoring", "on", "or", "unless"];
    let mut names = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + rest[1..].find('"').expect("the text ends"),
            '{' => 1 + matchers_end(rest),
            '[' => 1 + rest.find(']').expect("the range ends"),
            _ if first.is_alphabetic() || first == '_' => {
                let word = leading_word(rest);
                let following = rest[word.len()..].trim_start();
                let takes_labels = ["by", "on", "ignoring", "group_left"].contains(&word);
                if takes_labels && following.starts_with('(') {
                    rest.len() - following.len() + following.find(')').expect("the labels end") + 1
                } else {
                    let is_called = following.starts_with('(') || leading_word(following) == "by";
                    if !is_called && !KEYWORDS.contains(&word) {
                        names.push(word.to_owned());
                    }
                    word.len()
                }
            }
            // A number with its unit.
            _ if first.is_ascii_digit() => 1 + leading_word(&rest[1..]).len(),
            _ => first.len_utf8(),
        };
        rest = &rest[length..];
    }
    names
}

fn leading_word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    &text[..end.unwrap_or(text.len())]
}

/// Returns the index of the brace that closes the label matchers at the start of `text`, ignoring braces in strings.
fn matchers_end(text: &str) -> usize {
    let mut is_in_string = false;
    let end = text.find(|letter| {
        is_in_string ^= letter == '"';
        letter == '}' && !is_in_string
    });
    end.expect("the matchers end")
}

#[test]
fn metric_names_exclude_labels_functions_and_keywords() {
    let expression = "sum by (job, chain) (rate(a_total{b=\"c}d\",e=~\"f\"}[5m])) / on (job) g:h:rate1h \
                      > 14.4 * 0.001 and time() - i unless label_replace(j, \"k\", \"$1\", \"l\", \"m\") or n";
    assert_eq!(metric_names(expression), ["a_total", "g:h:rate1h", "i", "j", "n"]);
}
