//! Alert rules and dashboard of `config`: their unit tests, a real Prometheus, and the metrics that the service
//! exposes.

mod expressions;
mod prometheus;
pub(crate) mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::deployment;
use crate::fixtures;
use crate::mock_node::{MockNode, Reply};
use crate::openapi;
use crate::process::File;
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::TestServer;
use expressions::metric_names;
use prometheus::{Prometheus, program, target};
use services::{ForwardingService, HealthyService, ReplicaPair, advancing_chain};

const UNIT_TESTS: [&str; 2] =
    ["config/prometheus/rules.test.yml", "config/prometheus/objectives.test.yml"];

fn rules() -> String {
    deployment::text("config/prometheus/rules.yml")
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value}"))
}

/// Returns all rules as Prometheus reads them.
async fn fetch_rules(prometheus: &Prometheus) -> Vec<Value> {
    let groups = prometheus.call_api("rules", &[]).await;
    let groups = groups["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
async fn alert_rules_pass_their_unit_tests() {
    let mut check = program("promtool");
    check.args(["check", "rules"]).arg(fixtures::path("config/prometheus/rules.yml"));
    programs::expect_success(check).await;
    let mut test = program("promtool");
    test.args(["test", "rules"]).args(UNIT_TESTS.map(fixtures::path));
    println!("{}", programs::expect_success(test).await);
}

#[tokio::test]
async fn each_alert_has_duration_severity_unit_tests_and_runbook() {
    let prometheus = Prometheus::start(&rules()).await;
    let rules = fetch_rules(&prometheus).await;
    let alerts: Vec<_> = rules.iter().filter(|rule| rule["type"] == "alerting").collect();
    assert_eq!(alerts.len(), count_in_rules("- alert: "));
    let (tests, runbook) =
        (UNIT_TESTS.map(deployment::text).concat(), deployment::text("docs/alerts.md"));
    for alert in alerts {
        let (name, annotations) = (text(alert, "name"), &alert["annotations"]);
        assert!(alert["duration"].as_f64().unwrap() > 0.0, "{name}");
        let severity = text(&alert["labels"], "severity");
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        let annotation_names: Vec<_> = annotations.as_object().unwrap().keys().collect();
        assert_eq!(annotation_names, ["description", "runbook", "summary"], "{name}");
        let anchor = name.to_lowercase();
        assert_eq!(text(annotations, "runbook"), format!("docs/alerts.md#{anchor}"));
        let headings =
            runbook.lines().filter(|line| line.trim_start_matches('#') == format!(" {name}"));
        assert_eq!(headings.count(), 1, "sections about {name} in docs/alerts.md");
        // Each alert has a unit test in which it stays silent and another in which it fires.
        let silent = format!("alertname: {name}\n      - eval_time");
        let firing = format!("alertname: {name}\n        exp_alerts:");
        assert!(tests.contains(&silent) && tests.contains(&firing), "unit tests of {name}");
    }
}

/// An alert fires after a minute of its rule. The test takes that minute out.
#[tokio::test]
async fn a_fault_of_the_only_node_fires_an_alert_until_it_is_over() {
    let replies = advancing_chain();
    let node = MockNode::start(7, replies.clone()).await;
    let service = TestServer::start(&node.chain("a", "block_time = \"500ms\"")).await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let prometheus = Prometheus::start(&rules().replace("for: 1m\n", "for: 0s\n")).await;
    prometheus.scrape(&[("a", target(&service))]);
    let firing = "ALERTS{alertname=\"GasSuggestionChainStale\",alertstate=\"firing\",chain=\"a\"}";
    prometheus.wait_for("gas_suggestion_chain_data_age_seconds{chain=\"a\"}").await;
    assert!(prometheus.query(firing).await.is_empty());
    node.set_reply(Reply::Error(-32000));
    prometheus.wait_for(firing).await;
    node.set_reply(replies);
    let is_over = async || prometheus.query(firing).await.is_empty();
    prometheus.wait_until(is_over, || "the alert is still firing".to_owned()).await;
}

/// A value that no label has would silence a rule without a trace.
#[test]
fn rules_match_only_values_that_labels_have() {
    let rules = rules();
    let mut sources = String::new();
    let mut folders = vec![fixtures::path("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                sources += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let mut count = 0;
    for matcher in rules.split(['{', ',']) {
        let names = ["outcome", "freshness", "status", "listener"];
        let Some(rest) = names.iter().find_map(|name| matcher.strip_prefix(name)) else { continue };
        let Some(values) = rest.trim_start_matches(['=', '!', '~']).strip_prefix('"') else {
            continue;
        };
        for value in values.split_once('"').unwrap().0.split('|') {
            let words = value.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
            let forms = [format!("\"{value}\""), format!(" {}", words.collect::<String>())];
            let is_code = value.starts_with(|first: char| first.is_ascii_digit());
            assert!(is_code || forms.iter().any(|form| sources.contains(form)), "{matcher}");
            count += 1;
        }
    }
    assert!(count > 30, "{count} values");
}

fn count_in_rules(marker: &str) -> usize {
    rules().matches(marker).count()
}

/// A chain without data is no failure of the service, on any route that can say so.
#[tokio::test]
async fn missing_data_of_a_chain_does_not_count_against_the_error_budget() {
    let rules = rules();
    let patterns: BTreeSet<_> = rules
        .lines()
        .filter_map(|line| line.split_once("{route=~\"")?.1.split_once("\",status=\"503\""))
        .map(|(pattern, _)| pattern)
        .collect();
    assert_eq!(patterns.len(), 1, "the same routes over each time: {patterns:?}");
    let pattern = patterns.first().unwrap().replace("[.]", ".");
    let (members, others) = pattern.strip_prefix("/v1/[^/]+/(").unwrap().split_once(")|").unwrap();
    let is_excluded = |route: &str| match route.strip_prefix("/v1/{chain}/") {
        Some(member) => members.split('|').any(|one| one == member),
        None => others.split('|').any(|one| {
            one.strip_suffix(".+").map_or(one == route, |prefix| route.starts_with(prefix))
        }),
    };
    let service = TestServer::start(openapi::CHAIN).await;
    let document: Value = fixtures::json("docs/openapi.json");
    let mut count = 0;
    for (route, operations) in document["paths"].as_object().unwrap() {
        let Some(operation) = operations.get("get") else { continue };
        let response = openapi::send_request(&service, &document, route, "get", operation).await;
        let has_no_data = response.status == 503 && !response.body.contains("\"not_ready\"");
        assert_eq!(has_no_data, is_excluded(route), "{route}: {response:?}");
        count += usize::from(has_no_data);
    }
    assert!(count > 15, "{count} routes");
}

/// Returns the dashboard's expressions with the name of their panel, annotation or variable, and with Grafana's
/// variables substituted.
fn dashboard_expressions() -> Vec<(String, String)> {
    let dashboard: Value = fixtures::json("config/grafana/dashboards/gas-suggestion.json");
    let list = |pointer: &str| dashboard.pointer(pointer).unwrap().as_array().unwrap().iter();
    let mut expressions = Vec::new();
    for panel in list("/panels").filter(|panel| panel["type"] != "row") {
        let title = text(panel, "title");
        assert!(text(panel, "description").ends_with('.'), "{title} has no description");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} has no targets");
        for target in targets {
            assert_ne!(text(target, "legendFormat"), "", "{title}");
            expressions.push((title.to_owned(), text(target, "expr").to_owned()));
        }
    }
    for annotation in list("/annotations/list").filter(|annotation| annotation["expr"].is_string())
    {
        expressions
            .push((text(annotation, "name").to_owned(), text(annotation, "expr").to_owned()));
    }
    for variable in list("/templating/list").filter(|variable| variable["definition"].is_string()) {
        let definition = text(variable, "definition");
        let inner = definition.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
        let (expression, _label) = inner.rsplit_once(", ").unwrap();
        expressions.push((text(variable, "name").to_owned(), expression.to_owned()));
    }
    let substitutes = [
        ("$__rate_interval", "10s"),
        ("$job", "gas-suggestion"),
        ("$instance", ".*"),
        ("$chain", ".*"),
    ];
    for (_, expression) in &mut expressions {
        for (variable, value) in substitutes {
            *expression = expression.replace(variable, value);
        }
        assert!(!expression.contains('$'), "{expression} has an unknown variable");
    }
    expressions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_and_dashboard_query_only_exposed_metrics() {
    let (healthy, forwarding) = (HealthyService::start().await, ForwardingService::start().await);
    forwarding.send_to_each_upstream().await;
    let (pair, node) = (ReplicaPair::start().await, MockNode::start(7, advancing_chain()).await);
    let standalone =
        ReplicaPair::start_replica(&format!("redis://127.0.0.1:{}", free_port()), &node).await;
    let prometheus = Prometheus::start(&rules()).await;
    // Two instances of each service, so that an expression fails if it supports only one.
    let services = [
        ("a", &healthy.service),
        ("b", &healthy.service),
        ("c", &forwarding.service),
        ("d", &forwarding.service),
        ("e", &pair.services[0]),
        ("f", &pair.services[1]),
        ("g", &standalone),
        ("h", &standalone),
    ];
    prometheus.scrape(&services.map(|(instance, service)| (instance, target(service))));

    let exposition = File::new("exposed-metrics", &healthy.service.admin("/metrics").await.body);
    let mut check = program("promtool");
    check.args(["check", "metrics"]).stdin(fs::File::open(exposition.path()).unwrap());
    assert_eq!(programs::run(check).await, (true, String::new(), String::new()));
    let mut exposed = Vec::new();
    for service in [&healthy.service, &forwarding.service, &pair.services[0], &standalone] {
        exposed.push(service.admin("/metrics").await.body);
    }
    let samples =
        exposed.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    let mut known: BTreeSet<String> =
        samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect();
    // Prometheus itself creates these.
    known.extend(["up", "ALERTS"].map(str::to_owned));
    let rules = fetch_rules(&prometheus).await;
    let is_recorded = |rule: &&Value| rule["type"] == "recording";
    known.extend(rules.iter().filter(is_recorded).map(|rule| text(rule, "name").to_owned()));

    let from_rules =
        rules.iter().map(|rule| (text(rule, "name").to_owned(), text(rule, "query").to_owned()));
    let from_dashboard = dashboard_expressions();
    let all: Vec<_> = from_rules.chain(from_dashboard.iter().cloned()).collect();
    assert_eq!(rules.len(), count_in_rules("- alert: ") + count_in_rules("- record: "));
    let mut unknown = BTreeMap::new();
    for (origin, expression) in &all {
        let names = metric_names(expression);
        assert!(!names.is_empty(), "{origin}: {expression} refers to no metric");
        for name in names.into_iter().filter(|name| !known.contains(name)) {
            unknown.insert(name, origin);
        }
    }
    assert_eq!(unknown, BTreeMap::new(), "metrics that nothing exposes");

    let rates = "job_chain:gas_suggestion_suggestion_responses:rate6h > 0";
    let have_rates = async || {
        healthy.traffic().await;
        !prometheus.query(rates).await.is_empty()
    };
    prometheus.wait_until(have_rates, || rates.to_owned()).await;
    for (_, expression) in &all {
        prometheus.query(expression).await;
    }
    for (_, expression) in &from_dashboard {
        // Every panel has data, except those of events that have not happened.
        if expression.contains("outcome=\"rate_limited\"") || expression.starts_with("changes(") {
            continue;
        }
        prometheus.wait_for(expression).await;
    }
}
