//! The alerts and the dashboard of `config`: by their unit tests, in a real Prometheus, and held against what
//! the service really exposes.

mod expressions;
mod faults;
mod prometheus;
mod stage;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fake_node::FakeNode;
use crate::fixtures;
use crate::programs;
use crate::raw::free_port;
use expressions::metrics_of;
use prometheus::{Prometheus, program, target};
use stage::{Passing, Sharing, Well, moving};

const UNIT_TESTS: [&str; 2] =
    ["config/prometheus/rules.test.yml", "config/prometheus/objectives.test.yml"];

fn read(path: &str) -> String {
    String::from_utf8(fixtures::read(path)).unwrap()
}

fn rules() -> String {
    read("config/prometheus/rules.yml")
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value}"))
}

/// All rules, as Prometheus reads them.
async fn rules_of(prometheus: &Prometheus) -> Vec<Value> {
    let groups = prometheus.ask("rules", &[]).await;
    let groups = groups["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
async fn each_alert_passes_its_unit_tests() {
    let mut check = program("promtool");
    check.args(["check", "rules"]).arg(fixtures::path("config/prometheus/rules.yml"));
    programs::success(check).await;
    let mut test = program("promtool");
    test.args(["test", "rules"]).args(UNIT_TESTS.map(fixtures::path));
    println!("{}", programs::success(test).await);
}

#[tokio::test]
async fn each_alert_has_a_duration_a_severity_unit_tests_and_a_section_that_says_what_to_do() {
    let prometheus = Prometheus::start(&rules()).await;
    let rules = rules_of(&prometheus).await;
    let alerts: Vec<_> = rules.iter().filter(|rule| rule["type"] == "alerting").collect();
    assert_eq!(alerts.len(), count_in_rules("- alert: "));
    let (tests, guide) = (UNIT_TESTS.map(read).concat(), read("docs/operations.md"));
    for alert in alerts {
        let (name, annotations) = (text(alert, "name"), &alert["annotations"]);
        assert!(alert["duration"].as_f64().unwrap() > 0.0, "{name}");
        let severity = text(&alert["labels"], "severity");
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        let kinds: Vec<_> = annotations.as_object().unwrap().keys().collect();
        assert_eq!(kinds, ["description", "runbook", "summary"], "{name}");
        let anchor = name.to_lowercase();
        assert_eq!(text(annotations, "runbook"), format!("docs/operations.md#{anchor}"));
        let headings =
            guide.lines().filter(|line| line.trim_start_matches('#') == format!(" {name}"));
        assert_eq!(headings.count(), 1, "sections about {name} in docs/operations.md");
        // The one says when it is silent, the other when it is not.
        let silent = format!("alertname: {name}\n      - eval_time");
        let firing = format!("alertname: {name}\n        exp_alerts:");
        assert!(tests.contains(&silent) && tests.contains(&firing), "unit tests of {name}");
    }
}

fn count_in_rules(what: &str) -> usize {
    rules().matches(what).count()
}

/// Each expression of the dashboard by the panel, variable or annotation that it is of, as Grafana would ask it.
fn expressions_of_dashboard() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&read("config/grafana/dashboards/gas-suggestion.json")).unwrap();
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = text(panel, "title");
        if panel["type"] == "row" {
            continue;
        }
        assert!(text(panel, "description").ends_with('.'), "{title} has no description");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} shows nothing");
        for target in targets {
            assert_ne!(text(target, "legendFormat"), "", "{title}");
            expressions.push((title.to_owned(), text(target, "expr").to_owned()));
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        if let Some(expression) = annotation["expr"].as_str() {
            expressions.push((text(annotation, "name").to_owned(), expression.to_owned()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(definition) = variable["definition"].as_str() else { continue };
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
        assert!(!expression.contains('$'), "{expression} has another variable");
    }
    expressions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_rules_and_the_dashboard_ask_for_is_there() {
    let (well, passing) = (Well::start().await, Passing::start().await);
    passing.use_once().await;
    let (sharing, node) = (Sharing::start().await, FakeNode::start(7, moving()).await);
    let alone = Sharing::one(&format!("redis://127.0.0.1:{}", free_port()), &node).await;
    let prometheus = Prometheus::start(&rules()).await;
    // Two instances of each, so that nothing is taken for the only one of its kind.
    let [of_well, of_passing, of_alone] = [&well.service, &passing.service, &alone].map(target);
    let [one, other] = sharing.services.each_ref().map(target);
    let targets = [
        ("a", &of_well),
        ("b", &of_well),
        ("c", &of_passing),
        ("d", &of_passing),
        ("e", &one),
        ("f", &other),
        ("g", &of_alone),
        ("h", &of_alone),
    ];
    prometheus.scrape(&targets.map(|(instance, url)| (instance, url.clone())));

    let mut exposed = Vec::new();
    for service in [&well.service, &passing.service, &sharing.services[0], &alone] {
        exposed.push(service.admin("/metrics").await.body);
    }
    let samples =
        exposed.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    let mut known: BTreeSet<String> =
        samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect();
    // Those that Prometheus makes by itself.
    known.extend(["up", "ALERTS"].map(str::to_owned));
    let rules = rules_of(&prometheus).await;
    let is_recorded = |rule: &&Value| rule["type"] == "recording";
    known.extend(rules.iter().filter(is_recorded).map(|rule| text(rule, "name").to_owned()));

    let of_rules =
        rules.iter().map(|rule| (text(rule, "name").to_owned(), text(rule, "query").to_owned()));
    let of_dashboard = expressions_of_dashboard();
    let all: Vec<_> = of_rules.chain(of_dashboard.iter().cloned()).collect();
    assert_eq!(rules.len(), count_in_rules("- alert: ") + count_in_rules("- record: "));
    let mut unknown = BTreeMap::new();
    for (place, expression) in &all {
        let names = metrics_of(expression);
        assert!(!names.is_empty(), "{place}: {expression} asks for nothing");
        for name in names.into_iter().filter(|name| !known.contains(name)) {
            unknown.insert(name, place);
        }
    }
    assert_eq!(unknown, BTreeMap::new(), "nothing exposes these");

    let rates = "job_chain:gas_suggestion_answers:rate6h > 0";
    well.traffic_until(async || !prometheus.query(rates).await.is_empty()).await;
    for (place, expression) in &all {
        println!("{place}: {expression}");
        prometheus.query(expression).await;
    }
    // All of the dashboard shows something then, but for what has never happened.
    let is_rare = |expression: &str| {
        expression.contains("outcome=\"rate_limited\"") || expression.starts_with("changes(")
    };
    for (place, expression) in &of_dashboard {
        if !is_rare(expression) {
            println!("{place}");
            prometheus.wait_for(expression).await;
        }
    }
}
