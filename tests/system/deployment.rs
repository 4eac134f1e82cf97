//! The deployment files: Dockerfile, docker-compose.yml and `config`. `tests/image.sh` builds and runs the image.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gas_suggestion::config::{Config, Server};
use gas_suggestion::extras::sections;
use serde_json::{Map, Value, json};

use crate::fixtures;
use crate::process::output;
use crate::programs::{self, python_tool};

/// Reads a text file of the repository.
pub(crate) fn text(path: &str) -> String {
    String::from_utf8(fixtures::read(path)).unwrap()
}

/// Runs `program` of the Debian package `package`, which has to succeed, and returns its standard output.
fn run(program: &str, package: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(fixtures::path("."));
    // docker-compose would substitute variables of this environment.
    command.env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
    let result = command.output();
    let missing = format!("{program} is needed (Debian: apt-get install {package})");
    let Output { status, stdout, stderr } = result.expect(&missing);
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(status.success(), "{command:?}\n{stdout}\n{stderr}");
    stdout
}

/// Parses the documents of a YAML text.
pub(crate) fn documents(yaml: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.argv[1]))))";
    let output = python_tool("python").args(["-c", script, yaml]).output();
    let Output { status, stdout, .. } = output.unwrap();
    assert!(status.success(), "{yaml}");
    serde_json::from_slice(&stdout).unwrap()
}

/// Returns the YAML of the file at this path as docker-compose reads it.
pub(crate) fn compose_file(path: &str) -> String {
    run("docker-compose", "docker-compose", &["--file", path, "config"])
}

/// Returns docker-compose.yml as docker-compose reads it.
fn compose() -> Value {
    documents(&compose_file("docker-compose.yml")).remove(0)
}

/// The services of this repository's image.
const OWN: [&str; 4] = ["gas-suggestion", "demo", "replica-1", "replica-2"];

fn services(compose: &Value) -> &Map<String, Value> {
    compose["services"].as_object().unwrap()
}

#[test]
fn compose_restricts_the_privileges_of_every_container() {
    let compose = compose();
    for (name, service) in services(&compose) {
        for (member, value) in [
            ("read_only", json!(true)),
            ("cap_drop", json!(["ALL"])),
            ("cap_add", json!(null)),
            ("privileged", json!(null)),
            ("security_opt", json!(["no-new-privileges:true"])),
            ("restart", json!("unless-stopped")),
        ] {
            assert_eq!(service[member], value, "{name}: {member}");
        }
        let user = service["user"].as_str().unwrap();
        assert!(!user.starts_with("0:") && user.contains(':'), "{name} runs as {user}");
        assert_eq!(OWN.contains(&&**name), user == "65532:65532", "{name} runs as {user}");
        assert!(service["mem_limit"].is_string(), "{name} has no memory limit");
        assert_eq!(service["logging"]["options"]["max-size"], "10m", "{name}");
        assert_eq!(service["healthcheck"]["test"][0], "CMD", "{name} has no health check");
    }
    // Prometheus and Grafana are not public, so they are bound to the loopback address.
    let ports =
        services(&compose).iter().map(|(name, service)| (name.clone(), service["ports"].clone()));
    assert_eq!(
        ports.collect::<Value>(),
        json!({
            "gas-suggestion": [{"published": 8080, "target": 8080}],
            "demo": [{"published": 8081, "target": 8080}],
            "nginx": [{"published": 8082, "target": 8080}],
            "prometheus": ["127.0.0.1:9091:9090/tcp"],
            "grafana": ["127.0.0.1:3000:3000/tcp"],
            "replica-1": null, "replica-2": null, "redis": null,
        })
    );
}

#[test]
fn compose_services_are_valid_checked_and_have_time_to_drain() {
    let compose = compose();
    let server = server("");
    for name in OWN {
        let service = &compose["services"][name];
        let test = &service["healthcheck"]["test"];
        assert_eq!(*test, json!(["CMD", "/gas-suggestion", "healthcheck"]), "{name}");
        let grace = humantime::parse_duration(service["stop_grace_period"].as_str().unwrap());
        assert!(grace.unwrap() > server.drain_delay + server.shutdown_grace, "{name}");
        let variables = service["environment"].as_object().unwrap();
        assert_eq!(variables["GAS_SERVER__ADMIN_LISTEN"], "0.0.0.0:9090", "{name}");
        // Variables that are passed through from the host must have valid names too.
        let passed = |name: &str| {
            if name.ends_with("_URLS") { "[\"http://127.0.0.1:1\"]" } else { "secret" }
        };
        let all = variables.iter().filter_map(|(name, value)| match value {
            // The folder is one of the image.
            _ if name == "GAS_HISTORY__PATH" => None,
            Value::Null => Some((&**name, passed(name))),
            _ => Some((&**name, value.as_str()?)),
        });
        assert_valid(&["check-config"], &all.collect::<Vec<_>>());
    }
}

/// Runs `check-config`, which must succeed and print no error.
pub(crate) fn assert_valid(arguments: &[&str], variables: &[(&str, &str)]) {
    let (code, shown, stderr) = output(arguments, variables);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{variables:?}\n{shown}");
}

/// Returns true if the tag names a release: it has a dot and begins with a digit, or with `v` and a digit.
fn is_pinned(image: &str) -> bool {
    let tag = image.rsplit('/').next().unwrap().split_once(':').map_or("", |(_, tag)| tag);
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    tag.contains('.') && tag.starts_with(|first: char| first.is_ascii_digit())
}

#[test]
fn compose_mounts_existing_files() {
    let compose = compose();
    let volumes = compose["volumes"].as_object().unwrap();
    let root = format!("{}/", env!("CARGO_MANIFEST_DIR"));
    let mut mounted = Vec::new();
    for (name, service) in services(&compose) {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let parts: Vec<_> = volume.as_str().unwrap().split(':').collect();
            let [source, target, mode] = parts[..] else { panic!("{name}: {volume}") };
            if source.starts_with('/') {
                let is_in_repository = source.starts_with(&root) && Path::new(source).exists();
                assert!(is_in_repository && mode == "ro", "{name}: {volume}");
                mounted.push((source, target));
            } else {
                assert!(volumes.contains_key(source), "{name}: {volume}");
            }
        }
    }
    // True if a path inside a container is a mounted file of this repository.
    let is_mounted = |path: &str| {
        mounted.iter().any(|(source, target)| {
            let rest = path.strip_prefix(target);
            rest.is_some_and(|rest| Path::new(&format!("{source}{rest}")).exists())
        })
    };
    let variables = &compose["services"]["grafana"]["environment"];
    let home = &variables["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"];
    let provider = documents(&text("config/grafana/provisioning/dashboards/dashboards.yml"));
    let folder = &provider[0]["providers"][0]["options"]["path"];
    for path in [
        home.as_str().unwrap(),
        folder.as_str().unwrap(),
        "/etc/prometheus/prometheus.yml",
        "/etc/nginx/nginx.conf",
    ] {
        assert!(is_mounted(path), "{path} is not mounted");
    }
}

#[test]
fn prometheus_configuration_is_valid_and_scrapes_the_services() {
    let path = "config/prometheus/prometheus.yml";
    // promtool also checks the rule files that the configuration names.
    run("promtool", "prometheus", &["check", "config", path]);
    let configuration = documents(&text(path)).remove(0);
    let [job] = &configuration["scrape_configs"].as_array().unwrap()[..] else { panic!("one job") };
    assert_eq!(job["job_name"], "gas-suggestion");
    assert_eq!(job["static_configs"], json!([{"targets": ["gas-suggestion:9090"]}]));
    let discoveries = job["dns_sd_configs"].as_array().unwrap().iter();
    let discoveries = discoveries.map(|it| json!([it["names"], it["port"]]));
    assert_eq!(discoveries.collect::<Vec<_>>(), [json!([["demo", "replica"], 9090])]);
    let compose = compose();
    for (service, networks) in [
        ("replica-1", json!({"default": {"aliases": ["replica"]}})),
        ("replica-2", json!({"default": {"aliases": ["replica"]}})),
        ("demo", json!({"offline": null})),
        ("prometheus", json!({"default": null, "offline": null})),
    ] {
        assert_eq!(compose["services"][service]["networks"], networks, "{service}");
    }
    let source = documents(&text("config/grafana/provisioning/datasources/prometheus.yml"));
    let [source] = &source[0]["datasources"].as_array().unwrap()[..] else { panic!("one source") };
    assert_eq!(source["url"], "http://prometheus:9090");
    assert_eq!(source["jsonData"]["timeInterval"], configuration["global"]["scrape_interval"]);
}

#[test]
fn compose_and_dockerfile_pin_the_release_of_every_image() {
    for (name, service) in services(&compose()) {
        let image = service["image"].as_str().unwrap();
        assert!(image == "gas-suggestion:local" || is_pinned(image), "{name} is {image}");
    }
    let file = text("Dockerfile");
    let default = |name: &str| {
        let start = format!("ARG {name}=");
        let defaults: Vec<_> = file.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        let [only] = defaults[..] else { panic!("{defaults:?}") };
        only
    };
    let builder = default("BUILDER");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    let expected = format!("docker.io/library/rust:{rust}.");
    assert!(builder.starts_with(&expected) && is_pinned(builder), "{builder} is not {rust}");
    // Distroless images have the Debian release in their name instead of their tag.
    assert_eq!(default("RUNTIME"), "gcr.io/distroless/static-debian13:nonroot");
}

/// Parses the `[server]` section of a configuration without chains.
fn server(toml: &str) -> Server {
    let chain = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]\n";
    Config::from_toml(&format!("{toml}\n{chain}"), &sections()).unwrap().server
}

#[tokio::test]
async fn workflows_fit_the_published_schema() {
    let files = ["ci.yml", "release.yml", "weekly.yml"];
    let folder = fixtures::path(".github/workflows");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<BTreeSet<_>>(), files.map(OsString::from).into());
    let mut command = python_tool("check-jsonschema");
    command.args(["--builtin-schema", "vendor.github-workflows"]).args(files);
    command.current_dir(folder);
    programs::expect_success(command).await;
}

#[test]
fn versions_of_all_packages_are_one() {
    let version = env!("CARGO_PKG_VERSION");
    let package: Value = serde_json::from_str(&text("clients/js/package.json")).unwrap();
    assert_eq!(package["version"], version);
    for manifest in ["clients/python/pyproject.toml", "clients/rust/Cargo.toml"] {
        assert!(text(manifest).contains(&format!("\nversion = \"{version}\"\n")), "{manifest}");
    }
    assert!(text("config/debian/changelog").starts_with(&format!("gas-suggestion ({version}-1) ")));
    assert!(text("CHANGELOG.md").contains(&format!("\n## [{version}] - ")));
}

#[test]
fn debian_unit_starts_the_service_with_a_valid_configuration() {
    let path = fixtures::path("config/debian/config.toml");
    assert_valid(&["check-config", "--config", path.to_str().unwrap()], &[]);
    let unit = text("config/debian/gas-suggestion.service");
    let start = "ExecStart=/usr/bin/gas-suggestion --config /etc/gas-suggestion/config.toml\n";
    assert!(unit.contains(start));
    let stop = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
    let server = server(&text("config/debian/config.toml"));
    let drain = server.drain_delay + server.shutdown_grace;
    assert!(stop.parse::<u64>().unwrap() > drain.as_secs());
}
