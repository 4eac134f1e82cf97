//! Wrong configurations, variables and arguments, each with the whole output.

use crate::fixtures;
use crate::process::{File, output};

/// Runs the cases of a fixture, at least so many. Each has a title, an input for `run`, and all that is printed.
fn check_all(file: &str, at_least: usize, run: impl Fn(&str) -> (Option<i32>, String, String)) {
    let text = fixtures::read(&format!("tests/fixtures/mistakes/{file}"));
    let text = String::from_utf8(text).unwrap();
    let cases: Vec<_> = text.split("## ").skip(1).collect();
    assert!(cases.len() >= at_least);
    for case in cases {
        let (title, rest) = case.split_once('\n').unwrap();
        let (input, expected) = rest.split_once("=>\n").unwrap();
        let (code, stdout, stderr) = run(input);
        let shown = (code, stdout.as_str(), shorten(&stderr));
        assert_eq!(shown, (Some(2), "", shorten(expected)), "{title}");
    }
}

/// Shortens each list of allowed keys that a fixture has in full to its first key, as the other cases have it.
fn shorten(text: &str) -> String {
    let fixture = String::from_utf8(fixtures::read("tests/fixtures/mistakes/files.txt")).unwrap();
    let lists =
        fixture.lines().filter_map(|line| line.split_once("llowed: ")?.1.split(" (").next());
    lists.fold(text.to_owned(), |text, list| {
        text.replace(list, &format!("{}, …", list.split(", ").next().unwrap()))
    })
}

#[test]
fn every_mistake_of_a_file_is_reported_with_its_line() {
    check_all("files.txt", 40, |input| {
        let file = File::new("mistake", input);
        let (code, stdout, stderr) = output(&["check-config", "--config", file.path()], &[]);
        (code, stdout, stderr.replace(file.path(), "FILE"))
    });
}

#[test]
fn every_mistake_of_a_variable_is_reported_with_its_name() {
    check_all("variables.txt", 25, |input| {
        let variables: Vec<_> = input.lines().map(|line| line.split_once('=').unwrap()).collect();
        output(&["check-config"], &variables)
    });
}

/// `FILE` is a configuration with chains.
#[test]
fn every_mistake_of_an_argument_is_reported_without_a_url() {
    let chains = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
    let file = File::new("chains", chains);
    check_all("arguments.txt", 17, |input| {
        let words = input.split_whitespace().map(|it| if it == "FILE" { file.path() } else { it });
        let (variables, arguments): (Vec<_>, Vec<_>) = words.partition(|it| it.contains('='));
        let variables: Vec<_> = variables.iter().map(|it| it.split_once('=').unwrap()).collect();
        let (code, stdout, stderr) = output(&arguments, &variables);
        (code, stdout, stderr.replace(file.path(), "FILE"))
    });
}

#[test]
fn a_variable_with_one_underscore_too_few_is_noted_and_no_foreign_one() {
    let a_section = "a variable sets one key of a section, such as GAS_SERVER__LISTEN";
    let levels =
        "levels of a key are separated by two underscores, as in GAS_CHAINS__RONIN__RPC_URLS";
    for (name, note) in [
        ("GAS_SERVER_LISTEN", "; did you mean GAS_SERVER__LISTEN?"),
        ("GAS_LIMITS_MAX_STREAMS", "; did you mean GAS_LIMITS__MAX_STREAMS?"),
        ("GAS_CHAINS_RONIN_NAME", &format!(": {levels}")),
        ("GAS_ALERTS", &format!(": {a_section}")),
        ("GAS_HISTORY", &format!(": {a_section}")),
        ("GAS_RPC_URL", ""),
        // Variables of other programs.
        ("GAS_LIMIT", ""),
        ("GAS_SUGGESTION_SERVICE_HOST", ""),
        ("GAS_SUGGESTION_PORT", ""),
        ("GAS_PRICE", ""),
        ("GAS_SERVERLESS", ""),
        ("GAS_LOGO", ""),
        ("GAS_CHAIN", ""),
    ] {
        // An empty variable is as if absent.
        let variables =
            [(name, "1"), ("GAS_CHAINS__RONIN__RPC_URLS", ""), ("GAS_SEVER__LISTEN", "")];
        let (code, stdout, stderr) = output(&["check-config"], &variables);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{name}");
        let notes: Vec<_> = stdout.lines().filter_map(|line| line.strip_prefix("Note: ")).collect();
        let expected = format!("{name} has no effect{note}");
        let expected = if note.is_empty() { &[][..] } else { &[expected.as_str()] };
        assert_eq!(notes, expected, "{name}");
    }
}

#[test]
fn a_list_takes_one_bare_value_or_several_with_commas() {
    const URLS: &str = "GAS_CHAINS__RONIN__RPC_URLS";
    const PERCENTILES: &str = "GAS_CHAINS__RONIN__PRICING__REWARD_PERCENTILES";
    for (name, value, line) in [
        (URLS, "http://a", "rpc_urls = [\"http://a\"]"),
        (URLS, "http://a, http://b/", "rpc_urls = [\"http://a\", \"http://b\"]"),
        (URLS, "[\"http://a\"]", "rpc_urls = [\"http://a\"]"),
        (PERCENTILES, "10", "reward_percentiles = [10]"),
        (PERCENTILES, "10,50", "reward_percentiles = [10, 50]"),
        (PERCENTILES, "[10, 50]", "reward_percentiles = [10, 50]"),
        (PERCENTILES, ".5,060", "reward_percentiles = [0.5, 60]"),
    ] {
        let variables = [(name, value), ("GAS_CHAINS__RONIN__NAME", "7")];
        let (code, stdout, stderr) = output(&["check-config", "--print"], &variables);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.contains("name = \"7\"") && stdout.contains(line), "{value}: {stdout}");
    }
}

#[test]
fn the_effective_configuration_has_origins_and_no_secrets() {
    let text = "[limits]\nmax_streams = 7\n[chains.base]\nchain_id = 8453\n\
                rpc_urls = [\"https://user:canary1@node.example:8443/v2/canary2?key=canary3\"]\n\
                ws_urls = [\"wss://node.example/canary4\"]\n[delegation]\napi_key = \"canary5\"\n\
                source = \"chain\"\n[redis]\nurl = \"redis://:canary6@redis.example/1\"\n\
                [[alerts]]\nchain = \"base\"\nbelow = \"p20\"\nsecret = \"canary7\"\n\
                url = \"https://hooks.example/canary8\"\n";
    let file = File::new("print", text);
    let variables = [("GAS_CHAINS__BASE__MAX_AGE", "45s")];
    let arguments = ["check-config", "--print", "--config", file.path()];
    let (code, printed, stderr) = output(&arguments, &variables);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(!printed.contains("canary"), "{printed}");
    let name = std::path::Path::new(file.path()).file_name().unwrap().to_str().unwrap();
    for (value, origin) in [
        ("max_streams = 7", format!("{name}, line 2")),
        ("listen = \"0.0.0.0:8080\"", "default".into()),
        ("url = \"redis://redis.example/…\"", format!("{name}, line 11")),
        ("api_key = \"…\"", format!("{name}, line 8")),
        ("chain_id = 8453", format!("{name}, line 4")),
        ("below = \"p20\"", format!("{name}, line 14")),
        ("secret = \"…\"", format!("{name}, line 15")),
        ("repeat = \"1h\"", "default".into()),
        ("currency = \"ETH\"", "preset Base".into()),
        ("rpc_urls = [\"https://node.example:8443/…\"]", format!("{name}, line 5")),
        ("ws_urls = [\"wss://node.example/…\"]", format!("{name}, line 6")),
        ("max_age = \"45s\"", "GAS_CHAINS__BASE__MAX_AGE".into()),
        ("poll_timeout = \"15s\"", "default: a third of max_age".into()),
        ("priority_fee_floor = \"1 wei\"", "default".into()),
    ] {
        let line = printed.lines().find(|line| line.starts_with(value));
        let line = line.unwrap_or_else(|| panic!("no {value} in {printed}"));
        assert!(line.ends_with(&format!(" # {origin}")), "{line}");
    }
}

#[test]
fn the_printed_configuration_is_a_configuration() {
    // The built-in URLs are shown in part, but they stay URLs.
    let (_, printed, _) = output(&["check-config", "--print"], &[]);
    let file = File::new("printed", &printed);
    let (code, again, stderr) = output(&["check-config", "--print", "--config", file.path()], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let values = |text: &str| {
        let lines = text.lines().map(|line| line.split(" # ").next().unwrap().trim().to_owned());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(values(&again), values(&printed));
}
