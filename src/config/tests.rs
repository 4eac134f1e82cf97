use super::*;

/// Returns a chain with the keys that have no default, and `more` in its table.
fn chain_toml(key: &str, chain_id: u64, more: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {chain_id}\nrpc_urls = [\"http://localhost:8545\"]\n{more}\n"
    )
}

/// Returns the error of `text`, with a chain if it has none.
fn error_text(text: &str) -> String {
    let chain = if text.contains("[chains") { String::new() } else { chain_toml("any", 9, "") };
    let text = &format!("{text}\n{chain}");
    Config::from_toml(text, &[]).map(|_| ()).expect_err("the configuration is wrong").to_string()
}

#[test]
fn max_age_is_five_block_times_within_bounds_above_stale_after() {
    let max_age = |more| {
        let config = Config::from_toml(&chain_toml("a", 7, more), &[]).unwrap();
        (config.chains[0].max_age.as_secs(), config.chains[0].poll_timeout().as_millis())
    };
    assert_eq!(max_age(""), (30, 10_000));
    assert_eq!(max_age("block_time = \"15s\""), (75, 25_000));
    assert_eq!(max_age("block_time = \"90s\""), (300, 100_000));
    assert_eq!(max_age("block_time = \"1h\""), (9000, 3_000_000));
    assert_eq!(max_age("block_time = \"15s\"\nmax_age = \"31s\""), (31, 10_333));
}

#[test]
fn chains_are_sorted_by_id() {
    let text = [chain_toml("b", 9, ""), chain_toml("a", 10, ""), chain_toml("c", 1, "")].concat();
    let config = Config::from_toml(&text, &[]).unwrap();
    let keys: Vec<_> = config.chains.iter().map(|chain| chain.key.as_str()).collect();
    assert_eq!(keys, ["c", "b", "a"]);
}

#[test]
fn stall_after_defaults_to_ten_block_times() {
    let stall_after = |more| {
        let config = Config::from_toml(&chain_toml("a", 7, more), &[]).unwrap();
        config.chains[0].stall_after(config.chains[0].block_time).map(|after| after.as_secs())
    };
    assert_eq!(stall_after("block_time = \"3s\""), Some(30));
    assert_eq!(stall_after("stall_after = \"7s\""), Some(7));
    assert_eq!(stall_after("stall_after = \"0s\""), None);
}

#[test]
fn the_memory_limit_is_auto_or_a_size_of_at_least_64_mib() {
    let memory =
        |value: &str| format!("[limits]\nmemory = \"{value}\"\n{}", chain_toml("a", 1, ""));
    let parse = |value| Config::from_toml(&memory(value), &[]).unwrap().limits.memory;
    assert_eq!(parse("auto"), MemoryLimit::Auto);
    assert_eq!(parse("64 MiB"), MemoryLimit::Bytes(64 * 1024 * 1024));
    assert_eq!(parse("2 GiB"), MemoryLimit::Bytes(2 * 1024 * 1024 * 1024));
    for wrong in ["63 MiB", "all", "512"] {
        let expected = format!(
            "limits.memory: found \"{wrong}\", expected \"auto\" or a size of at least \"64 MiB\", such as \"512 MiB\""
        );
        assert_eq!(error_text(&memory(wrong)), expected);
    }
}

#[test]
fn an_invalid_value_is_rejected_with_key_and_allowed_values() {
    let cases = [
        (
            "[log]\nfilter = \"inof\"\n",
            "log.filter: error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5",
        ),
        (
            "[log]\nfilter = \"info,[span{field=(x|y)*}]=debug\"\n",
            "log.filter: spans and fields in brackets are not supported",
        ),
        ("[tracing]\nsample_ratio = nan\n", "tracing.sample_ratio: must be from 0 to 1"),
        (
            "[tracing]\notlp_endpoint = \"http://127.0.0.1:4318/?a=b\"\n",
            "tracing.otlp_endpoint: must not have a query or a fragment",
        ),
        ("[server]\ndrain_delay = \"61m\"\n", "server.drain_delay: must be at most 1h"),
    ];
    for (text, expected) in cases {
        assert_eq!(error_text(text), expected, "{text}");
    }
}

#[test]
fn a_base_path_is_no_probe_and_admin_hosts_are_names() {
    let text = |line: &str| format!("{}[server]\n{line}\n", chain_toml("a", 1, ""));
    for path in ["/livez", "/readyz"] {
        assert_eq!(
            error_text(&text(&format!("base_path = \"{path}\""))),
            "server.base_path: must not be /livez or /readyz, which stay at the root"
        );
        assert!(Config::from_toml(&text(&format!("base_path = \"{path}/a\"")), &[]).is_ok());
    }
    for host in ["", "b:9090", "http://a", "*", "a b"] {
        assert_eq!(
            error_text(&text(&format!("admin_hosts = [\"a\", \"{host}\"]"))),
            "server.admin_hosts: must be host names such as \"gas-suggestion\", no ports",
            "{host}"
        );
    }
    assert!(Config::from_toml(&text("admin_hosts = [\"a.b-c_d\"]"), &[]).is_ok());
}

#[test]
fn an_invalid_chain_value_is_rejected_with_key_and_allowed_values() {
    let cases = [
        ("block_time = \"100ms\"\nmax_age = \"2s\"", "max_age: must be longer than 2s"),
        (
            "max_transaction_gas = 16777216",
            "max_transaction_gas: no chain tells this limit reliably, so the service has none; remove the key",
        ),
        ("history_blocks = 0", "history_blocks: found 0, expected a whole number, 1 or more"),
        ("history_blocks = 65537", "history_blocks: must be from 1 to 65536"),
        ("name = \" \"", "name: must not be empty or contain control characters"),
        ("name = \"a\\nb\"", "name: must not be empty or contain control characters"),
        ("name = \"a\\uffff\"", "name: must not be empty or contain control characters"),
        ("pricing.window_blocks = 1025", "pricing.window_blocks: must be from 1 to 1024"),
        (
            "pricing.reward_percentiles = []",
            "pricing.reward_percentiles: expected one or two percentiles above 0, at most 100 and in ascending order",
        ),
        (
            "pricing.reward_percentiles = [1, 2, 3]",
            "pricing.reward_percentiles: expected one or two percentiles above 0, at most 100 and in ascending order",
        ),
        ("poll_timeout = \"0s\"", "poll_timeout: must be above 0s and at most 30s (max_age)"),
        ("poll_timeout = \"31s\"", "poll_timeout: must be above 0s and at most 30s (max_age)"),
        ("reads_per_minute = 1000001", "reads_per_minute: must be from 0 to 1000000"),
        ("max_polls_per_block = 11", "max_polls_per_block: must be from 1 to 10"),
        (
            "pricing.base_fee_change_denominator = 0",
            "pricing.base_fee_change_denominator: found 0, expected a whole number, 1 or more",
        ),
    ];
    for (more, expected) in cases {
        assert_eq!(error_text(&chain_toml("a", 7, more)), format!("chains.a.{expected}"), "{more}");
    }
}

#[test]
fn a_chain_id_has_53_bits() {
    for id in [1 << 53, i64::MAX.unsigned_abs()] {
        let expected = "chains.a.chain_id: must be from 1 to 9007199254740991";
        assert_eq!(error_text(&chain_toml("a", id, "")), expected);
    }
    assert!(Config::from_toml(&chain_toml("a", (1 << 53) - 1, ""), &[]).is_ok());
}

#[test]
fn no_configuration_error_shows_a_url() {
    let with_urls = |urls: &str| format!("[chains.a]\nchain_id = 1\nrpc_urls = {urls}\n");
    for urls in [
        "\"https://node.example/canary\"",
        "[\"ftp://node.example/canary\"]",
        "[\"https://node.example/canary]",
        "[[\"https://node.example/canary\"]]",
        "{ \"https://node.example/canary\" = 1 }",
        "[\"canary\"]",
        "[{ url = \"https://node.example\", headers = \"canary\" }]",
        "[{ url = \"https://node.example\", headers = { A = [\"canary\"] } }]",
        "[{ url = \"https://node.example/canary\", heders = { A = \"canary\" } }]",
        "[{ url = \"https://node.example\", headers = { \"https://canary\" = \"A B\", A = \"\" } }]",
    ] {
        let refused = error_text(&with_urls(urls));
        assert!(!refused.contains("canary"), "{refused}");
    }
    // Under a wrong key, and as a key.
    let url = "\"https://node.example/canary\"";
    for line in [
        format!("read_urls = {url}"),
        format!("max_age = {url}"),
        format!("pricing.zero_base_fee = {url}"),
        format!("pricing.base_fee_floor = {url}"),
        format!("pricing.high_multiplier = {url}"),
        format!("name = {{ {url} = 1 }}"),
        format!("{url} = 1"),
        "block_time = \"0123456789abcdef-canary-key\"".into(),
    ] {
        let refused = error_text(&chain_toml("a", 1, &line));
        assert!(!refused.contains("canary"), "{refused}");
    }
    let refused = error_text(&chain_toml(url, 1, ""));
    assert!(refused.contains("may contain a-z") && !refused.contains("canary"), "{refused}");
    // With dots, which also separate keys.
    for url in ["\"https://node.canary.example/\"", "\"node.canary.example/v2\""] {
        for text in [
            chain_toml(url, 1, ""),
            chain_toml(url, 1, "max_age = 1"),
            chain_toml("a", 1, &format!("{url} = 1")),
            format!("{url} = 1"),
        ] {
            let refused = error_text(&text);
            assert!(refused.contains('…') && !refused.contains("canary"), "{refused}");
        }
    }
}

#[test]
fn a_duplicate_key_is_shown_unless_it_may_be_a_secret() {
    let refused = |key: &str, twice: &str| {
        let refused = error_text(&format!("[chains.{key}]\nchain_id = 1\n{twice} = 1\n"));
        let message = refused.strip_prefix("the configuration is not valid TOML: ").unwrap();
        message.split_once(" at line ").unwrap().0.to_owned()
    };
    assert_eq!(refused("a", "chain_id"), "duplicate key `chain_id` in table `chains.a`");
    let extended = "dotted key `chain_id` attempted to extend non-table type (integer)";
    assert_eq!(refused("a", "chain_id.b"), extended);
    for url in ["\"https://node.canary.example/\"", "\"https://canary`canary`canary@a\""] {
        assert_eq!(refused(url, "chain_id"), "duplicate key");
        assert_eq!(refused("a", &format!("{url} = 1\n{url}")), "duplicate key");
    }
}

#[test]
fn keys_without_effect_and_assumptions_are_noted() {
    let sockets = "ws_urls = [\"ws://localhost:8546\"]";
    let alone = chain_toml("a", 1, sockets);
    assert_eq!(Config::from_toml(&alone, &[]).unwrap().notes, Vec::<String>::new());
    let unknown = chain_toml("a", 4711, "block_time = \"3s\"");
    assert_eq!(
        Config::from_toml(&unknown, &[]).unwrap().notes,
        ["chains.a: there is no preset for chain id 4711; assumed: there is no minimum tip \
          (pricing.priority_fee_floor), there is no minimum base fee (pricing.base_fee_floor)"]
    );
    let all_set = "block_time = \"3s\"\npricing.priority_fee_floor = \"0 wei\"\n\
                   pricing.base_fee_floor = \"0 wei\"\nchain_parameters = \"off\"";
    let notes = Config::from_toml(&chain_toml("a", 4711, all_set), &[]).unwrap().notes;
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn number_of_threads_is_auto_or_from_1_to_256() {
    let chain = chain_toml("a", 7, "");
    let threads =
        |value: &str| Config::from_toml(&format!("[server]\nthreads = {value}\n{chain}"), &[]);
    assert_eq!(threads("\"auto\"").unwrap().server.threads, Threads::Auto);
    assert_eq!(threads("256").unwrap().server.threads.count().get(), 256);
    for wrong in ["0", "257", "-1", "\"all\""] {
        let expected = "expected \"auto\" or a number from 1 to 256";
        let expected = format!("server.threads: found {wrong}, {expected}");
        let error = threads(wrong).unwrap_err().to_string();
        assert!(error.starts_with(&expected), "{error}");
    }
}
