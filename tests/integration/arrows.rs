//! Which room of `src` may use which: docs/architecture.md has the table. A room is a module of the crate, or one of
//! `extras`.

use std::collections::BTreeMap;
use std::path::Path;

/// Rooms that a room may use, all of them above it. Extras may use every room of the heart, and those in [`EXTRAS`].
const HEART: &[(&str, &[&str])] = &[
    ("fees", &[]),
    ("config", &["fees"]),
    ("observe", &["config"]),
    ("nodes", &["config", "fees", "observe"]),
    ("store", &["fees", "config", "observe"]),
    ("poll", &["nodes", "store", "fees", "config", "observe"]),
    ("http", &["config", "observe"]),
    ("api", &["store", "fees", "http", "config", "observe"]),
    ("assembly", &["api", "config", "fees", "http", "nodes", "observe", "poll", "store"]),
];

/// Other extras, and parts that several share, that an extra may use.
const EXTRAS: &[(&str, &[&str])] = &[
    ("extras/compat", &["extras/quotes"]),
    ("extras/cost", &["extras/reads"]),
    ("extras/delegation", &["extras/proxy", "extras/reads"]),
    ("extras/horizon", &["extras/quotes"]),
    ("extras/pages", &["extras/static_files"]),
    ("extras/rpc", &["extras/reads"]),
    ("extras/trend", &["extras/reads"]),
    ("extras/verification", &["extras/proxy", "extras/static_files"]),
];

/// Rooms that may use all others: they put the service together.
const COMPOSITION: &[&str] = &["main", "lib", "server", "cli", "extras"];

/// Words of extras, which the heart does not use, in comments neither.
const WORDS: [&str; 11] = [
    "badge", "delegat", "horizon", "metamask", "pimlico", "redis", "replica", "score", "usd",
    "webhook", "zerodev",
];

/// Lines of the heart that have such a word nevertheless, at most: an error code of the contract.
const LINES_WITH_WORDS: &[(&str, &str, usize)] = &[("http", "delegat", 2)];

/// The room of a file, another one that it uses, and the line that says so.
type Arrow = (String, String, String);

/// Returns the room of a path below `src` without its ending.
fn room(path: &str) -> String {
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    match (first, parts.next()) {
        ("extras", Some(extra)) => format!("extras/{extra}"),
        _ => first.to_owned(),
    }
}

/// Returns the rooms that a line of code names by `crate::…`.
fn rooms_named(line: &str) -> Vec<String> {
    // Not a `//` in a URL.
    let code = line.split(" //").next().unwrap_or_default();
    let paths = code.match_indices("crate::").filter(|(at, _)| {
        let before = code.get(..*at).and_then(|before| before.chars().next_back());
        before.is_none_or(|character| !character.is_alphanumeric() && character != '_')
    });
    let is_name =
        |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    paths
        .map(|(at, prefix)| {
            let rest = &code[at + prefix.len()..];
            let path: String = rest.chars().take_while(|character| is_name(*character)).collect();
            room(&path.replace("::", "/"))
        })
        .filter(|room| !room.is_empty())
        .collect()
}

/// Returns the arrows between rooms in a file, and the lines that hide where they lead.
fn arrows(path: &str, text: &str) -> (Vec<Arrow>, Vec<String>) {
    let from = room(path.trim_end_matches(".rs"));
    let (mut arrows, mut hidden) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let place = format!("src/{path}:{}", index + 1);
        if line.trim_start().starts_with("//") {
            continue;
        }
        // `super` of a room's first file is the crate, or `extras`.
        let is_first = path.split('/').count() <= usize::from(path.starts_with("extras/")) + 1;
        let leaves_room = is_first && !line.starts_with(' ') && line.contains("super::");
        let hides = ["crate::{", "crate::*", "crate as", "super::super"];
        if leaves_room || hides.iter().any(|hidden| line.contains(hidden)) {
            hidden.push(format!("{place}: name the room in full instead of `{}`", line.trim()));
        }
        let named = rooms_named(line).into_iter().filter(|to| *to != from);
        arrows.extend(named.map(|to| (from.clone(), to, place.clone())));
    }
    (arrows, hidden)
}

/// Returns why an arrow is against the rules; `None`: it is not.
fn violation(from: &str, to: &str) -> Option<&'static str> {
    let listed = |table: &[(&str, &[&str])]| {
        table.iter().find(|(room, _)| *room == from).is_some_and(|(_, uses)| uses.contains(&to))
    };
    let is_heart = |room: &str| HEART.iter().any(|(known, _)| *known == room);
    if COMPOSITION.contains(&from) {
        return ((from, to) == ("server", "cli")).then_some("the command line uses the server");
    }
    match (from.starts_with("extras/"), to.starts_with("extras/") || to == "extras") {
        (true, false) if is_heart(to) => None,
        (true, true) if listed(EXTRAS) => None,
        (true, _) => Some("an extra uses the heart, and no other extra but those in the table"),
        (false, true) => Some("the heart does not know the extras"),
        (false, false) if listed(HEART) => None,
        (false, false) => Some("the table of arrows does not have it"),
    }
}

/// Returns the paths below `src`, and the texts, of all files in Rust.
fn rust_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let relative = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.push((relative, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn rooms_use_only_the_rooms_that_the_table_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut all, mut hidden) = (Vec::new(), Vec::new());
    for (path, text) in rust_files() {
        let (found, unclear) = arrows(&path, &text);
        all.extend(found);
        hidden.extend(unclear);
    }
    assert!(all.len() > 500, "{} arrows: the files are not read", all.len());
    for (room, _) in HEART.iter().chain(EXTRAS) {
        assert!(root.join(format!("{room}.rs")).exists(), "there is no room {room}");
    }
    assert!(hidden.is_empty(), "{}", hidden.join("\n"));
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|(from, to, place)| {
            Some(format!("{place}: {from} → {to}: {}", violation(from, to)?))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No room uses itself by way of others, as each has in the table what it uses above it.
#[test]
fn the_table_has_no_circles() {
    for (index, (room, uses)) in HEART.iter().enumerate() {
        let is_above = |used: &&str| HEART[..index].iter().any(|(above, _)| above == used);
        assert!(uses.iter().all(is_above), "{room}");
    }
    for (index, (extra, uses)) in EXTRAS.iter().enumerate() {
        let is_below = |used: &&str| EXTRAS[index..].iter().any(|(user, _)| user == used);
        assert!(!uses.iter().any(is_below), "{extra}");
    }
}

#[test]
fn the_heart_has_no_word_of_an_extra() {
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (path, text) in rust_files() {
        let room = room(path.trim_end_matches(".rs"));
        let is_heart = HEART.iter().any(|(known, _)| *known == room);
        for line in text.lines().filter(|_| is_heart) {
            for word in WORDS.into_iter().filter(|word| has_word(line, word)) {
                *counts.entry((room.clone(), word)).or_default() += 1;
            }
        }
    }
    let allowed = |room: &str, word: &str| {
        let mut rows = LINES_WITH_WORDS.iter();
        rows.find(|row| (row.0, row.1) == (room, word)).map_or(0, |row| row.2)
    };
    counts.retain(|(room, word), count| *count > allowed(room, word));
    assert_eq!(counts, BTreeMap::new());
}

/// Returns true if `word` begins a word, or a part of a name, of `line`.
fn has_word(line: &str, word: &str) -> bool {
    line.to_ascii_lowercase().match_indices(word).any(|(at, _)| {
        let is_part = line[at..].starts_with(|c: char| c.is_uppercase());
        is_part || !line[..at].ends_with(|c: char| c.is_alphabetic())
    })
}

#[test]
fn arrows_against_the_table_are_found() {
    let found = |path: &str, line: &str| -> Vec<String> {
        let (arrows, hidden) = arrows(path, line);
        let wrong = arrows
            .iter()
            .filter_map(|(from, to, _)| Some(format!("{to}: {}", violation(from, to)?)));
        wrong.chain(hidden).collect()
    };
    for (path, line) in [
        ("store/publisher.rs", "use crate::extras::score::Scorer;"),
        ("fees/market.rs", "use crate::config::Chain;"),
        ("extras/score.rs", "use crate::extras::trend::FeeTrend;"),
        ("extras/score.rs", "use crate::server::Server;"),
        ("server.rs", "use crate::cli::run;"),
        ("store.rs", "use crate::{extras, fees};"),
        ("poll/reporter.rs", "use super::super::extras;"),
        ("fees.rs", "use super::config::Chain;"),
        ("store.rs", "use crate as root;"),
        ("store.rs", "use crate::*;"),
        ("store.rs", "let url = \"http://a\"; crate::extras::sections();"),
    ] {
        assert_eq!(found(path, line).len(), 1, "{path} {line}");
    }
    for (path, line) in [
        ("server.rs", "use crate::extras::score::Scorer;"),
        ("api.rs", "use crate::store::ChainStore; // not crate::extras::score"),
        ("api.rs", "//! crate::extras::score"),
        ("extras/delegation/routes.rs", "use crate::extras::reads::Reads;"),
        ("fees.rs", "use crate::fees::Market;"),
    ] {
        assert_eq!(found(path, line), [] as [String; 0], "{path} {line}");
    }
}

#[test]
fn fee_rules_and_registry_are_pure() {
    // Crates, modules and clocks. No other name contains one of these.
    const FORBIDDEN: &str = "config wire tokio axum moka tracing Instant::now SystemTime elapsed() \
                             std::fs std::net std::env";
    let is_pure = |path: &str| {
        let is_test = path.ends_with("tests.rs");
        let is_in_extra =
            ["extras/delegation/registry.rs", "extras/horizon/estimator.rs"].contains(&path);
        !is_test && (path.starts_with("fees") || is_in_extra)
    };
    let files: Vec<_> = rust_files().into_iter().filter(|(path, _)| is_pure(path)).collect();
    assert!(files.iter().any(|(path, _)| path == "fees/plausibility.rs"), "the files are not read");
    for (path, text) in files {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let found = FORBIDDEN.split(' ').find(|name| line.contains(name));
            assert_eq!(found, None, "{path}: {line}");
        }
    }
}

/// Returns true if the line at `index`, or an item or block around it, is for Linux alone.
fn is_for_linux(lines: &[&str], index: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut level = indent(lines[index]);
    // Attributes stand directly above the line, and above each line that encloses it.
    let mut is_above = true;
    for line in lines[..index].iter().rev().filter(|line| !line.is_empty()) {
        if indent(line) < level {
            (level, is_above) = (indent(line), true);
        } else if indent(line) == level && is_above {
            if line.trim() == "#[cfg(target_os = \"linux\")]" {
                return true;
            }
            is_above = line.trim().starts_with("#[") || line.trim().starts_with("//");
        }
    }
    false
}

/// Releases have a program for macOS, which these tests do not compile.
#[test]
fn calls_that_only_linux_has_are_conditional() {
    const LINUX_ALONE: [&str; 6] =
        ["procfs_core", "\"/proc/", "\"/sys/", "os::linux", "Boottime", "set_tcp_user_timeout"];
    let mut count = 0;
    for (path, text) in rust_files() {
        // On other systems the files that it reads are absent.
        if path == "http/memory_limit/cgroup.rs" {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if LINUX_ALONE.iter().any(|name| line.contains(name)) {
                assert!(is_for_linux(&lines, index), "src/{path}:{}: {line}", index + 1);
                count += 1;
            }
        }
    }
    assert!(count > 5, "{count} calls: the files are not read");
}
