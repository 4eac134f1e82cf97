//! Compares the tables in docs/configuration.md and docs/metrics.md, and the Redis ACL in docs/replicas.md, with the
//! code. Tests `healthcheck` and the other commands.

use std::collections::BTreeSet;
use std::net::TcpListener;

use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;

use crate::alerts::services::start_calibrated_node;
use crate::deployment::text;
use crate::mock_delegate_api::MockDelegateApi;
use crate::mock_node::{MockNode, Reply};
use crate::process::{FREE_PORTS, File, Process, command};
use crate::raw_client::free_port;
use crate::registry::VAULT;
use crate::replicas::redis::Redis;
use crate::test_server::{Response, TestServer, wait_until};

/// Returns the rows of the tables in `section`: the names in the first column, and the second column.
fn documented_rows(section: &str) -> Vec<(String, String)> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.flat_map(|row| {
        let mut cells = row.split(" | ");
        let names = format!("`{}", cells.next().unwrap());
        let second = cells.next().unwrap().to_owned();
        let row = |name: &str| (name.trim_matches('`').to_owned(), second.clone());
        names.split(", ").map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

/// Returns the names of these rows, of which each occurs once.
fn unique(rows: Vec<(String, String)>) -> BTreeSet<String> {
    let mut unique = BTreeSet::new();
    for (name, _) in rows {
        assert!(unique.insert(name.clone()), "{name} is listed twice");
    }
    unique
}

/// Returns the keys in docs/configuration.md, with their sections, and the column of the built-in values.
fn documented_keys() -> Vec<(String, String)> {
    let guide = text("docs/configuration.md");
    let sections = guide.split("\n## `[").skip(1).flat_map(|text| {
        let (section, text) = text.split_once("]`\n").unwrap();
        // A list of tables has two brackets.
        let section = section.trim_matches(['[', ']']);
        let rows = documented_rows(text.split("\n## ").next().unwrap());
        rows.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value))
    });
    sections.collect()
}

#[test]
fn configuration_guide_lists_exactly_the_configuration_keys() {
    // The error for an unknown name lists the allowed ones.
    let allowed = |toml: &str| -> Vec<String> {
        let errors = Config::from_toml(toml, &sections()).unwrap_err();
        let mut errors = errors.0.iter().map(ToString::to_string);
        let listed = errors.find_map(|error| Some(error.split_once("llowed: ")?.1.to_owned()));
        listed.expect(toml).split(", ").map(str::to_owned).collect()
    };
    let tables = allowed("[no_such_section]").into_iter().filter(|section| section != "chains");
    let tables = tables.map(|section| match &*section {
        "alerts" => (section, "[[alerts]]".to_owned()),
        _ => (section.clone(), format!("[{section}]")),
    });
    let of_chains = [
        ("chains.NAME".to_owned(), "[chains.a]".to_owned()),
        ("chains.NAME.pricing".to_owned(), "[chains.a.pricing]".to_owned()),
    ];
    let keys = tables.chain(of_chains).flat_map(|(section, table)| {
        let keys = allowed(&format!("{table}\nno_such_key = 1")).into_iter();
        keys.map(move |key| format!("{section}.{key}"))
    });
    // This is a table, not a key.
    let known = keys.filter(|key| key != "chains.NAME.pricing").collect();
    assert_eq!(unique(documented_keys()), known);
}

#[test]
fn configuration_guide_has_the_built_in_values() {
    let defaults: toml_edit::DocumentMut = text("config/default.toml").parse().unwrap();
    let mut count = 0;
    for (key, documented) in documented_keys() {
        let (section, name) = key.split_once('.').unwrap();
        let value = defaults.get(section).and_then(|keys| keys.get(name));
        let value = value.filter(|_| section != "chains");
        // Some cells describe an empty value in words, or add a condition.
        let (Some(value), Some(documented)) = (value, documented.split('`').nth(1)) else {
            continue;
        };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // The item includes the comment that follows it.
        let value = value.split(" #").next().unwrap().trim();
        assert_eq!(documented, value, "{key}");
        count += 1;
    }
    assert!(count > 30, "{count} values");
}

/// Returns the names of all exported metrics, and the text of `/metrics`.
async fn exported_metrics(service: &TestServer) -> (BTreeSet<String>, String) {
    let exposed = service.admin("/metrics").await.body;
    let types = exposed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    (types.map(|line| line.split(' ').next().unwrap().to_owned()).collect(), exposed)
}

#[tokio::test]
async fn operate_guide_lists_exactly_the_exported_metrics() {
    let node = MockNode::for_reads(Reply::RawResult("\"0x7\"".into())).await;
    let chain = node.chain("a", "json_rpc = true");
    // Redis is unreachable, so the failure metrics are exported too.
    let redis = format!(
        "[redis]\nurl = \"redis://127.0.0.1:{}\"\n[verification]\nurl = \"http://127.0.0.1:9\"\n\
         [delegation]\nsource = \"api\"\n",
        free_port()
    );
    let service = TestServer::start(&(redis + &chain)).await;
    service.wait_for_ok("/readyz").await;
    let read = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getCode","params":["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed","latest"]}"#;
    assert_eq!(service.post("/rpc/a", read).await.status, 200);
    let (mut names, mut exposed) = exported_metrics(&service).await;
    // The WebSocket metrics exist only without Redis, those of targets only with a strategy that has them, those of webhooks
    // and dollars only with an alert and a price feed.
    let calibrated = start_calibrated_node(7).await;
    let announced = format!(
        "{chain}ws_urls = [\"ws://127.0.0.1:1\"]\n[chains.b]\nchain_id = 7\nrpc_urls = [\"{}\"]\n\
         pricing.reward_percentiles = [10, 60]\n\
         usd_feed = {{ address = \"{VAULT}\", pair = \"A / USD\", heartbeat = \"1h\" }}\n\
         [[alerts]]\nchain = \"b\"\nbelow = \"p1\"\nurl = \"http://127.0.0.1:1\"\n",
        calibrated.url()
    );
    let announced = TestServer::start(&announced).await;
    announced.wait_for_ok("/v1/b/score").await;
    let (more, also_exposed) = exported_metrics(&announced).await;
    // Replicas without Redis do not have its metrics.
    for name in ["redis_failures_total", "redis_up", "replica_messages_total", "poll_slots_total"] {
        let name = format!("gas_suggestion_{name}");
        assert!(names.contains(&name) && !more.contains(&name), "{name}");
    }
    names.extend(more);
    exposed += &also_exposed;
    assert_eq!(unique(documented_rows(&text("docs/metrics.md"))), names);
    for name in names {
        assert!(exposed.contains(&format!("# HELP {name} ")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_redis_acl_is_sufficient_and_minimal() {
    let guide = text("docs/replicas.md");
    let (_, rest) = guide.split_once("\nuser gas on >PASSWORD ").unwrap();
    let acl_rules: Vec<_> = rest.split("```").next().unwrap().split_whitespace().collect();
    let redis = Redis::start();
    let password = "p@ss:w/ord#1?%&=";
    let set = format!(">{password}");
    redis.command(&[&["ACL", "SETUSER", "gas", "on", &set][..], &acl_rules].concat());
    redis.command(&["CONFIG", "RESETSTAT"]);

    let healthy = || Reply::history(1000, 3, 40);
    let (node, api) = (MockNode::start(7, healthy()).await, MockDelegateApi::start().await);
    let encoded =
        percent_encoding::utf8_percent_encode(password, percent_encoding::NON_ALPHANUMERIC);
    let config = format!(
        "[redis]\nurl = {:?}\n[delegation]\nsource = \"api\"\napi_url = {:?}\n\
         [[alerts]]\nchain = \"a\"\nabove = \"0 wei\"\nurl = \"http://127.0.0.1:9\"\n\
         [chains.a]\nchain_id = 7\nblock_time = \"500ms\"\nrpc_urls = [{:?}]\n",
        redis.url_with_credentials(&format!("gas:{encoded}")),
        api.url(),
        node.url(),
    );
    let file = File::new("acl", &config);
    let check = ["check-config", "--online", "--config", file.path()];
    let checked = String::from_utf8(command(&check, &[]).output().unwrap().stdout).unwrap();
    assert!(checked.contains("redis.url: a replica can connect\n"), "{checked}");
    let service = TestServer::start(&config).await;
    let invalid = "gas_suggestion_replica_messages_total{chain=\"a\",outcome=\"invalid\"} ";
    let is_sharing = |text: &str| text.contains("{chain=\"a\",outcome=\"claimed\"} 3");
    service.wait_for_admin("/metrics", |response| is_sharing(&response.body)).await;
    for delegator in [1, 2] {
        let path = format!("/registry/v2/check/all?from=0x{delegator:040}&to=0x{:040}", 0);
        service.wait_for(&path, |response| response.status != 429).await;
    }
    wait_until("an alert", async || !redis.keys("gas:v2:{state:").is_empty()).await;
    let keys = redis.keys("gas:v8:{7:").into_iter().map(|key| String::from_utf8(key).unwrap());
    let record = keys.into_iter().find(|key| key.ends_with(":record")).unwrap();
    let is_foreign = || redis.read::<Vec<u8>>(&["GET", &record]) == b"foreign";
    let is_counted = |text: &str| text.contains(invalid) && !text.contains(&format!("{invalid}0"));
    let is_noticed = |response: &Response| {
        // A value that is set between a claim and its publication is replaced unread.
        redis.command(&["SET", &record, "foreign"]);
        is_counted(&response.body)
    };
    let metrics = service.wait_for_admin("/metrics", is_noticed).await.body;
    service.wait_for_admin("/metrics", |_| !is_foreign()).await;

    assert!(!metrics.contains("gas_suggestion_redis_failures_total{"), "{metrics}");
    assert_eq!(redis.read::<Vec<redis::Value>>(&["ACL", "LOG"]), []);
    let used: String = redis.read(&["INFO", "commandstats"]);
    for command in acl_rules.iter().filter_map(|rule| rule.strip_prefix('+')) {
        assert!(used.contains(&format!("cmdstat_{command}:")), "{command} is not used: {used}");
    }
}

/// Runs `healthcheck` for the service with the admin listener `admin`; returns the exit code and standard error.
fn healthcheck(admin: &str) -> (Option<i32>, String) {
    let mut command = command(&["healthcheck"], &[]);
    let output = command.env("GAS_SERVER__ADMIN_LISTEN", admin).output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthcheck_exit_code_reflects_readiness() {
    let ready = Process::start(&["demo"], &[]);
    ready.wait_for_ok("/readyz").await;
    assert_eq!(healthcheck(&ready.admin.to_string()), (Some(0), String::new()));
    // If `admin_listen` is a wildcard address, `healthcheck` connects to the loopback address.
    let port = ready.admin.port();
    for wildcard in [format!("0.0.0.0:{port}"), format!("[::ffff:127.0.0.1]:{port}")] {
        assert_eq!(healthcheck(&wildcard), (Some(0), String::new()), "{wildcard}");
    }
    let admin = ready.admin;
    assert_eq!(ready.stop_with("-TERM").0, Some(0));
    let (code, stderr) = healthcheck(&admin.to_string());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.starts_with(&format!("error: no response from {admin}")), "{stderr}");

    let unread = Process::start(
        &["serve"],
        &[
            ("GAS_CHAINS__RONIN__RPC_URLS", "[\"http://127.0.0.1:9\"]"),
            ("GAS_CHAINS__RONIN_TESTNET__RPC_URLS", "[\"http://127.0.0.1:9\"]"),
        ],
    );
    let (code, stderr) = healthcheck(&unread.admin.to_string());
    assert_eq!(code, Some(1));
    let expected = format!("error: the service at {} is not ready: status 503", unread.admin);
    assert!(stderr.starts_with(&expected), "{stderr}");
}

#[test]
fn healthcheck_times_out_and_has_its_own_exit_code_for_bad_configuration() {
    // The kernel accepts connections, but no response is sent.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let since = std::time::Instant::now();
    let (code, stderr) = healthcheck(&silent.local_addr().unwrap().to_string());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(since.elapsed() < std::time::Duration::from_secs(10), "{:?}", since.elapsed());
    let mut wrong = command(&["healthcheck"], &FREE_PORTS);
    assert_eq!(wrong.env("GAS_SERVER__LISTEN", "nowhere").output().unwrap().status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gas_config_variable_applies_to_service_and_healthcheck() {
    let node = MockNode::for_reads(Reply::RawResult("\"0x7\"".into())).await;
    let admin = format!("127.0.0.1:{}", free_port());
    let file = File::new(
        "named-by-variable",
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"{admin}\"\ndrain_delay = \"0s\"\n\
             [log]\nformat = \"json\"\n[chains.a]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"{}\"]\n",
            node.url()
        ),
    );
    let variables = [("GAS_CONFIG", file.path()), ("GAS_CHAINS__A__MAX_AGE", "20s")];
    let service = Process::spawn(command(&[], &variables));
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let output = command(&["healthcheck"], &variables).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // An empty variable counts as unset.
    let unset = [("GAS_CONFIG", "")];
    assert!(command(&["check-config"], &unset).output().unwrap().status.success());
    // A command-line argument takes precedence.
    let absent = ["check-config", "--config", "/nowhere.toml"];
    let output = command(&absent, &variables).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(service.stop_with("-TERM").0, Some(0));
}

#[test]
fn printing_commands_handle_closed_pipes_and_full_devices() {
    for subcommand in ["check-config", "openapi"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(&[subcommand], &[]).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("error: cannot write to standard output: "), "{stderr}");
        // Standard output and standard error both go to a pipe without a reader.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(&[subcommand], &[]);
        let status = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{subcommand}");
    }
}
