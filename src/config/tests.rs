use std::path::PathBuf;

use super::*;

/// Returns a chain with the keys that have no default, and `more` in its table.
pub(crate) fn chain_toml(key: &str, chain_id: u64, more: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {chain_id}\nrpc_urls = [\"http://localhost:8545\"]\n{more}\n"
    )
}

/// Returns chain 7, which has no preset, with `more` in its table.
pub(crate) fn chain(more: &str) -> Chain {
    Config::from_toml(&chain_toml("a", 7, more), &[]).unwrap().chains.remove(0)
}

/// A new directory. Removed when dropped.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("gas-suggestion-unit-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Writes a file, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
        let chain = chain(more);
        (chain.max_age.as_secs(), chain.poll_timeout().as_millis())
    };
    assert_eq!(max_age(""), (30, 10_000));
    assert_eq!(max_age("block_time = \"15s\""), (75, 25_000));
    assert_eq!(max_age("block_time = \"90s\""), (300, 100_000));
    assert_eq!(max_age("block_time = \"1h\""), (9000, 3_000_000));
    assert_eq!(max_age("block_time = \"15s\"\nmax_age = \"31s\""), (31, 10_333));
}

#[test]
fn stall_after_defaults_to_ten_block_times() {
    let stall_after = |more| {
        let chain = chain(more);
        chain.stall_after(chain.block_time).map(|after| after.as_secs())
    };
    assert_eq!(stall_after("block_time = \"3s\""), Some(30));
    assert_eq!(stall_after("stall_after = \"7s\""), Some(7));
    assert_eq!(stall_after("stall_after = \"0s\""), None);
}

#[test]
fn values_at_their_bounds_are_read() {
    let text = "[limits]\nmemory = \"64 MiB\"\n[server]\nthreads = 256\nbase_path = \"/livez/a\"\n";
    let config = Config::from_toml(&(text.to_owned() + &chain_toml("a", (1 << 53) - 1, "")), &[]);
    let config = config.unwrap();
    assert_eq!(config.limits.memory, MemoryLimit::Bytes(64 * 1024 * 1024));
    assert_eq!(config.server.threads.count().get(), 256);
}

#[test]
fn an_invalid_value_is_rejected_with_key_and_allowed_values() {
    let cases = [
        (
            "[limits]\nmemory = \"63 MiB\"\n",
            "limits.memory: found \"63 MiB\", expected \"auto\" or a size of at least \"64 MiB\", such as \"512 MiB\"",
        ),
        (
            "[server]\nthreads = 257\n",
            "server.threads: found 257, expected \"auto\" or a number from 1 to 256",
        ),
        (
            "[server]\nbase_path = \"/livez\"\n",
            "server.base_path: must not be /livez or /readyz, which stay at the root",
        ),
        (
            "[server]\nbase_path = \"/readyz\"\n",
            "server.base_path: must not be /livez or /readyz, which stay at the root",
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
fn admin_hosts_are_names() {
    for host in ["", "b:9090", "http://a", "*", "a b"] {
        assert_eq!(
            error_text(&format!("[server]\nadmin_hosts = [\"a\", \"{host}\"]\n")),
            "server.admin_hosts: must be host names such as \"gas-suggestion\", no ports",
            "{host}"
        );
    }
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
}

#[test]
fn keys_without_effect_and_assumptions_are_noted() {
    let notes = |id, more| Config::from_toml(&chain_toml("a", id, more), &[]).unwrap().notes;
    assert_eq!(notes(1, "ws_urls = [\"ws://localhost:8546\"]"), [""; 0]);
    assert_eq!(
        notes(4711, "block_time = \"3s\""),
        ["chains.a: there is no preset for chain id 4711; assumed: there is no minimum tip \
          (pricing.priority_fee_floor), there is no minimum base fee (pricing.base_fee_floor)"]
    );
    let all_set = "block_time = \"3s\"\npricing.priority_fee_floor = \"0 wei\"\n\
                   pricing.base_fee_floor = \"0 wei\"\nchain_parameters = \"off\"";
    assert_eq!(notes(4711, all_set), [""; 0]);
}
