//! What docs/operations.md says of the configuration, the metrics and the rights in Redis is what there is; and
//! the command that asks a running service for its health.

use std::collections::BTreeSet;
use std::net::TcpListener;

use gas_suggestion::config::Config;

use crate::command::{FREE_PORTS, File, Process, command};
use crate::delegate_api::DelegateApi;
use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::fixtures;
use crate::raw::free_port;
use crate::read_node::{ReadNode, Say};
use crate::replicas::redis::Redis;
use crate::service::Service;

/// The names in the first column of the table below `heading`.
fn table(heading: &str) -> BTreeSet<String> {
    let guide = String::from_utf8(fixtures::read("docs/operations.md")).unwrap();
    let (_, section) = guide.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.flat_map(|row| {
        let cell = format!("`{}", row.split(" |").next().unwrap());
        cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>()
    });
    let names: Vec<_> = names.collect();
    let different: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(different.len(), names.len(), "a name is there twice: {names:?}");
    different
}

#[test]
fn the_guide_has_each_key_of_the_configuration_and_no_other() {
    // What a section may have is what it says when it has something else.
    let keys_of = |section: &str, toml: &str| {
        let error = Config::from_toml(&format!("{toml}\nno_such_key = 1")).unwrap_err().to_string();
        let (_, allowed) = error.split_once("allowed here: ").unwrap_or_else(|| panic!("{error}"));
        let keys = allowed.split(", ").map(|key| format!("{section}.{key}"));
        keys.collect::<Vec<_>>()
    };
    let error = Config::from_toml("[no_such_section]").unwrap_err().to_string();
    let (_, sections) = error.split_once("allowed here: ").unwrap();
    let sections: Vec<_> = sections.split(", ").filter(|section| *section != "chains").collect();
    let plain = sections.iter().flat_map(|section| keys_of(section, &format!("[{section}]")));
    let of_chains = keys_of("chains.{chain}", "[chains.a]");
    let of_pricing = keys_of("chains.{chain}.pricing", "[chains.a.pricing]");
    let known: BTreeSet<_> = plain
        .chain(of_chains)
        .chain(of_pricing)
        // It is a table of its own.
        .filter(|key| key != "chains.{chain}.pricing")
        .collect();
    assert_eq!(table("Configure"), known);
}

/// The names of what a service has to tell, and how it tells it.
async fn metrics_of(service: &Service) -> (BTreeSet<String>, String) {
    let exposed = service.admin("/metrics").await.body;
    let types = exposed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    (types.map(|line| line.split(' ').next().unwrap().to_owned()).collect(), exposed)
}

#[tokio::test]
async fn the_guide_has_each_metric_and_no_other() {
    let node = ReadNode::start(Say::Result("\"0x7\"".into())).await;
    let chain = format!("[chains.a]\nchain_id = 2020\nrpc_urls = [\"{}\"]\n", node.url());
    // Its failures are told, too.
    let redis = format!("[redis]\nurl = \"redis://127.0.0.1:{}\"\n", free_port());
    let service = Service::start(&(redis + &chain)).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    let read = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getCode","params":["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed","latest"]}"#;
    let client = reqwest::Client::new();
    let answer = client.post(service.url("/rpc/a")).body(read).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (mut names, mut exposed) = metrics_of(&service).await;
    // What announces blocks is there where replicas do not share.
    let announced = chain + "ws_urls = [\"ws://127.0.0.1:1\"]\n";
    let (more, also_exposed) = metrics_of(&Service::start(&announced).await).await;
    names.extend(more);
    exposed += &also_exposed;
    assert_eq!(table("Metrics"), names);
    // Each says what it is.
    for name in names {
        assert!(exposed.contains(&format!("# HELP {name} ")), "{name}");
    }
}

#[tokio::test]
async fn what_is_told_of_sharing_is_told_by_those_that_share_alone() {
    let node = ReadNode::start(Say::Result("\"0x7\"".into())).await;
    let chain = format!("[chains.a]\nchain_id = 2020\nrpc_urls = [\"{}\"]\n", node.url());
    let service = Service::start(&chain).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    let (names, _) = metrics_of(&service).await;
    let of_sharing = ["redis_failures_total", "redis_up", "shared_values_total", "turns_total"]
        .map(|name| format!("gas_suggestion_{name}"));
    assert!(of_sharing.iter().all(|name| table("Metrics").contains(name) && !names.contains(name)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_in_redis_that_the_guide_names_are_enough_and_none_is_too_many() {
    let guide = String::from_utf8(fixtures::read("docs/operations.md")).unwrap();
    let (_, rest) = guide.split_once("\nuser gas on >PASSWORD ").unwrap();
    let rights: Vec<_> = rest.split("```").next().unwrap().split_whitespace().collect();
    let redis = Redis::start();
    redis.say(&[&["ACL", "SETUSER", "gas", "on", ">PASSWORD"][..], &rights].concat());
    redis.say(&["CONFIG", "RESETSTAT"]);

    let well = || Answer::Result(fee_history(1000, 3, 40));
    let (node, api) = (FakeNode::start(7, well()).await, DelegateApi::start().await);
    let service = Service::start(&format!(
        "[redis]\nurl = {:?}\n[delegation]\napi_url = {:?}\n\
         [chains.a]\nchain_id = 7\nblock_time = \"500ms\"\nrpc_urls = [{:?}]\n",
        redis.url_as("gas:PASSWORD"),
        api.url(),
        node.url(),
    ))
    .await;
    let foreign = "gas_suggestion_shared_values_total{chain=\"a\",outcome=\"foreign\"} ";
    let is_sharing = |text: &str| text.contains("{chain=\"a\",outcome=\"claimed\"} 3");
    service.wait_admin("/metrics", |answer| is_sharing(&answer.body)).await;
    for from in [1, 2] {
        let path = format!("/registry/v2/check/all?from=0x{from:040}&to=0x{:040}", 0);
        service.wait_for(&path, |answer| answer.status != 429).await;
    }
    node.say(Answer::Raw(429, String::new()));
    let is_there = |what: &str| {
        let keys = redis.keys("gas:v1:{7:").into_iter().map(|key| String::from_utf8(key).unwrap());
        keys.into_iter().find(|key| key.contains(what))
    };
    service.wait_admin("/metrics", |_| is_there(":cooldown:").is_some()).await;
    redis.say(&["SET", &is_there(":value").unwrap(), "nothing of ours", "EX", "60"]);
    let is_seen = |text: &str| text.contains(foreign) && !text.contains(&format!("{foreign}0"));
    let told = service.wait_admin("/metrics", |answer| is_seen(&answer.body)).await;
    service.wait_admin("/metrics", |_| is_there(":value").is_none()).await;

    assert!(!told.body.contains("gas_suggestion_redis_failures_total{"), "{}", told.body);
    assert_eq!(redis.say(&["ACL", "LOG"]).into_list(), []);
    let used = String::from_utf8(redis.say(&["INFO", "commandstats"]).into_bytes()).unwrap();
    for command in rights.iter().filter_map(|right| right.strip_prefix('+')) {
        assert!(used.contains(&format!("cmdstat_{command}:")), "{command} is not used: {used}");
    }
}

/// The exit code and the complaint of `healthcheck` for a service whose admin listener is there.
fn healthcheck(admin: &str) -> (Option<i32>, String) {
    let mut command = command(&["healthcheck"], &[]);
    let output = command.env("GAS_SERVER__ADMIN_LISTEN", admin).output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthcheck_tells_by_its_exit_code_whether_the_service_is_ready() {
    let ready = Process::start(&["demo"], &[]);
    ready.wait_for("/readyz", |answer| answer.status == 200).await;
    assert_eq!(healthcheck(&ready.admin.to_string()), (Some(0), String::new()));
    // What listens everywhere is asked here.
    let port = ready.admin.port();
    for everywhere in [format!("0.0.0.0:{port}"), format!("[::ffff:127.0.0.1]:{port}")] {
        assert_eq!(healthcheck(&everywhere), (Some(0), String::new()), "{everywhere}");
    }
    let admin = ready.admin;
    assert_eq!(ready.end_by("-TERM").0, Some(0));
    let (code, complaint) = healthcheck(&admin.to_string());
    assert_eq!(code, Some(1), "{complaint}");
    assert!(complaint.starts_with(&format!("error: nobody answers at {admin}")), "{complaint}");

    let unread = Process::start(
        &["serve"],
        &[
            ("GAS_CHAINS__RONIN__RPC_URLS", "[\"http://127.0.0.1:9\"]"),
            ("GAS_CHAINS__RONIN_TESTNET__RPC_URLS", "[\"http://127.0.0.1:9\"]"),
        ],
    );
    let (code, complaint) = healthcheck(&unread.admin.to_string());
    assert_eq!(code, Some(1));
    let expected = format!("error: the service at {} is not ready: it answers 503", unread.admin);
    assert!(complaint.starts_with(&expected), "{complaint}");
}

#[test]
fn healthcheck_waits_for_nobody_for_long_and_tells_a_wrong_configuration_apart() {
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let since = std::time::Instant::now();
    let (code, complaint) = healthcheck(&silent.local_addr().unwrap().to_string());
    assert_eq!(code, Some(1), "{complaint}");
    assert!(since.elapsed() < std::time::Duration::from_secs(10), "{:?}", since.elapsed());
    let mut wrong = command(&["healthcheck"], &FREE_PORTS);
    assert_eq!(wrong.env("GAS_SERVER__LISTEN", "nowhere").output().unwrap().status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_names_the_file_for_the_service_and_for_its_health_check() {
    let node = ReadNode::start(Say::Result("\"0x7\"".into())).await;
    let admin = format!("127.0.0.1:{}", free_port());
    let file = File::new(
        "named-by-variable",
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"{admin}\"\ndrain_delay = \"0s\"\n\
             [log]\nformat = \"json\"\n[chains.a]\nchain_id = 2020\nrpc_urls = [\"{}\"]\n",
            node.url()
        ),
    );
    let variables = [("GAS_CONFIG", file.path()), ("GAS_CHAINS__A__MAX_AGE", "20s")];
    let service = Process::of(command(&[], &variables));
    service.wait_for("/v1/a/gas-suggestion", |answer| answer.status == 200).await;
    let output = command(&["healthcheck"], &variables).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // One without a value is none.
    let unset = [("GAS_CONFIG", "")];
    assert!(command(&["check-config"], &unset).output().unwrap().status.success());
    // An argument goes before.
    let absent = ["check-config", "--config", "/nowhere.toml"];
    let output = command(&absent, &variables).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(service.end_by("-TERM").0, Some(0));
}

#[test]
fn what_is_printed_may_find_nobody_to_read_it_and_no_room() {
    for subcommand in ["check-config", "openapi"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(&[subcommand], &[]).stdout(full).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.starts_with("error: cannot write to standard output: "), "{complaint}");
        // Both to a pipe whose reader is gone.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(&[subcommand], &[]);
        let status = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{subcommand}");
    }
}
