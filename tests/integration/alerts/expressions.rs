//! What expressions of Prometheus are about.

/// The names of the metrics in `expression`: what is neither text, nor a label, nor a duration, nor a word of
/// the language.
pub(super) fn metrics_of(expression: &str) -> Vec<String> {
    const WORDS: [&str; 8] = ["and", "bool", "by", "group_left", "ignoring", "on", "or", "unless"];
    let mut names = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + rest[1..].find('"').expect("the text ends"),
            '{' => 1 + end_of_matchers(rest),
            '[' => 1 + rest.find(']').expect("the range ends"),
            _ if first.is_alphabetic() || first == '_' => {
                let word = name(rest);
                let behind = rest[word.len()..].trim_start();
                let takes_labels = ["by", "on", "ignoring", "group_left"].contains(&word);
                if takes_labels && behind.starts_with('(') {
                    rest.len() - behind.len() + behind.find(')').expect("the labels end") + 1
                } else {
                    let is_called = behind.starts_with('(') || name(behind) == "by";
                    if !is_called && !WORDS.contains(&word) {
                        names.push(word.to_owned());
                    }
                    word.len()
                }
            }
            // With its unit.
            _ if first.is_ascii_digit() => 1 + name(&rest[1..]).len(),
            _ => first.len_utf8(),
        };
        rest = &rest[length..];
    }
    names
}

fn name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    &text[..end.unwrap_or(text.len())]
}

/// Where the matchers end that `text` begins with; a brace in a text ends nothing.
fn end_of_matchers(text: &str) -> usize {
    let mut is_text = false;
    let end = text.find(|letter| {
        is_text ^= letter == '"';
        letter == '}' && !is_text
    });
    end.expect("the matchers end")
}

#[test]
fn metrics_are_told_from_labels_functions_and_words() {
    let expression = "sum by (job, chain) (rate(a_total{b=\"c}d\",e=~\"f\"}[5m])) / on (job) g:h:rate1h \
                      > 14.4 * 0.001 and time() - i unless label_replace(j, \"k\", \"$1\", \"l\", \"m\") or n";
    assert_eq!(metrics_of(expression), ["a_total", "g:h:rate1h", "i", "j", "n"]);
}
