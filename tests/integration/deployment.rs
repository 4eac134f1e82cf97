//! What the service is deployed with: the Dockerfile, docker-compose.yml and what lies in `config`.
//! `tests/image.sh` builds and runs the image.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use gas_suggestion::config::{Config, Server};
use serde_json::{Value, json};

use crate::command::{File, output};
use crate::fixtures;
use crate::programs::of_python;

fn text(path: &str) -> String {
    String::from_utf8(fixtures::read(path)).unwrap()
}

/// Runs `program` of the Debian package to its end, which has to be a good one, and gives what it told.
fn told_by(program: &str, package: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(fixtures::path("."));
    // Nothing of this environment, which docker-compose would put in.
    command.env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
    let ended = command.output();
    let missing = format!("{program} is needed (Debian: apt-get install {package})");
    let Output { status, stdout, stderr } = ended.expect(&missing);
    let [told, complaints] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(status.success(), "{command:?}\n{told}\n{complaints}");
    told
}

/// The documents of a YAML text.
fn documents(yaml: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut python = of_python("python");
    python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    // All of it is read before anything is told; what is dropped here is closed.
    python.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
    let Output { status, stdout, .. } = python.wait_with_output().unwrap();
    assert!(status.success(), "{yaml}");
    serde_json::from_slice(&stdout).unwrap()
}

/// docker-compose's own reading of its file, with this profile.
fn compose(profile: &[&str]) -> Value {
    let arguments = [profile, &["--file", "docker-compose.yml", "config"]].concat();
    documents(&told_by("docker-compose", "docker-compose", &arguments)).remove(0)
}

/// One member of every service, by the service's name.
fn of_services(compose: &Value, member: &str) -> Value {
    let services = compose["services"].as_object().unwrap();
    services.iter().map(|(name, service)| (name.clone(), service[member].clone())).collect()
}

/// The same for all services.
fn for_all(compose: &Value, value: &Value) -> Value {
    let services = compose["services"].as_object().unwrap();
    services.keys().map(|name| (name.clone(), value.clone())).collect()
}

#[test]
fn compose_starts_the_service_with_its_monitoring_and_the_rest_by_profile() {
    for profile in [&[][..], &["--profile", "demo"], &["--profile", "replicas"]] {
        assert_eq!(
            of_services(&compose(profile), "profiles"),
            json!({
                "gas-suggestion": null, "prometheus": null, "grafana": null,
                "demo": ["demo"],
                "replica-1": ["replicas"], "replica-2": ["replicas"],
                "nginx": ["replicas"], "redis": ["replicas"],
            }),
            "{profile:?}"
        );
    }
}

#[test]
fn compose_gives_no_container_more_than_it_needs() {
    let compose = compose(&[]);
    let same = |value| for_all(&compose, &value);
    assert_eq!(of_services(&compose, "read_only"), same(json!(true)));
    assert_eq!(of_services(&compose, "cap_drop"), same(json!(["ALL"])));
    assert_eq!(of_services(&compose, "cap_add"), same(json!(null)));
    assert_eq!(of_services(&compose, "privileged"), same(json!(null)));
    assert_eq!(of_services(&compose, "security_opt"), same(json!(["no-new-privileges:true"])));
    assert_eq!(of_services(&compose, "restart"), same(json!("unless-stopped")));
    let own = ["gas-suggestion", "demo", "replica-1", "replica-2"];
    for (name, user) in of_services(&compose, "user").as_object().unwrap() {
        let user = user.as_str().unwrap();
        assert!(!user.starts_with("0:") && user.contains(':'), "{name} runs as {user}");
        assert_eq!(own.contains(&name.as_str()), user == "65532:65532", "{name} runs as {user}");
    }
    for (name, limit) in of_services(&compose, "mem_limit").as_object().unwrap() {
        assert!(limit.is_string(), "{name} may take all memory");
    }
    // Prometheus and Grafana show what is not for everybody.
    assert_eq!(
        of_services(&compose, "ports"),
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
fn compose_waits_for_the_service_to_drain_and_asks_it_whether_it_is_well() {
    let compose = compose(&[]);
    let server = server("");
    for name in ["gas-suggestion", "demo", "replica-1", "replica-2"] {
        let service = &compose["services"][name];
        let test = &service["healthcheck"]["test"];
        assert_eq!(*test, json!(["CMD", "/gas-suggestion", "healthcheck"]), "{name}");
        let grace = humantime::parse_duration(service["stop_grace_period"].as_str().unwrap());
        assert!(grace.unwrap() > server.drain_delay + server.shutdown_grace, "{name}");
    }
}

#[test]
fn compose_gives_the_service_variables_that_it_takes() {
    let compose = compose(&[]);
    for name in ["gas-suggestion", "demo", "replica-1", "replica-2"] {
        let variables = compose["services"][name]["environment"].as_object().unwrap();
        let set = variables.iter().filter_map(|(name, value)| Some((&**name, value.as_str()?)));
        let set: Vec<_> = set.collect();
        assert!(set.contains(&("GAS_SERVER__ADMIN_LISTEN", "0.0.0.0:9090")), "{name}: {set:?}");
        // What is passed on where it is set has to have a name that is known.
        let passed = variables.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| {
            let is_list = name.ends_with("_URLS");
            (name.as_str(), if is_list { "[\"http://127.0.0.1:1\"]" } else { "secret" })
        });
        let all: Vec<_> = set.iter().copied().chain(passed).collect();
        let (code, _, stderr) = output(&["check-config"], &all);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{name}");
    }
}

#[test]
fn compose_has_replicas_share_by_the_redis_that_it_starts_for_them() {
    let compose = compose(&[]);
    for name in ["replica-1", "replica-2"] {
        let replica = &compose["services"][name];
        assert_eq!(replica["environment"]["GAS_REDIS__URL"], "redis://redis:6379", "{name}");
        // A list or a table, as docker-compose likes.
        assert!(replica["depends_on"].to_string().contains("\"redis\""), "{name}");
    }
    for name in ["gas-suggestion", "demo"] {
        assert_eq!(compose["services"][name]["environment"]["GAS_REDIS__URL"], Value::Null);
    }
}

#[test]
fn compose_names_the_release_of_every_image() {
    for (name, image) in of_services(&compose(&[]), "image").as_object().unwrap() {
        let image = image.as_str().unwrap();
        if image != "gas-suggestion:local" {
            assert!(is_pinned(image), "{name} is {image}");
        }
    }
}

/// Whether the tag names a release: it has a dot and begins with a digit, or with `v` and a digit.
fn is_pinned(image: &str) -> bool {
    let tag = image.rsplit('/').next().unwrap().split_once(':').map_or("", |(_, tag)| tag);
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    tag.contains('.') && tag.starts_with(|first: char| first.is_ascii_digit())
}

#[test]
fn compose_mounts_what_is_there() {
    let compose = compose(&[]);
    let volumes = compose["volumes"].as_object().unwrap();
    let root = format!("{}/", env!("CARGO_MANIFEST_DIR"));
    let mut mounted = Vec::new();
    for (name, all) in of_services(&compose, "volumes").as_object().unwrap() {
        for volume in all.as_array().into_iter().flatten() {
            let parts: Vec<_> = volume.as_str().unwrap().split(':').map(str::to_owned).collect();
            let [source, target, mode] = &parts[..] else { panic!("{name}: {volume}") };
            if source.starts_with('/') {
                let is_ours = source.starts_with(&root) && Path::new(source).exists();
                assert!(is_ours && mode == "ro", "{name}: {volume}");
                mounted.push((source.clone(), target.clone()));
            } else {
                assert!(volumes.contains_key(source), "{name}: {volume}");
            }
        }
    }
    // Whether this repository has what is at a path inside of a container.
    let is_there = |path: &str| {
        mounted.iter().any(|(source, target)| {
            let rest = path.strip_prefix(target.as_str());
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
        assert!(is_there(path), "{path} is not mounted");
    }
}

#[test]
fn prometheus_takes_its_configuration_and_asks_the_services_that_there_are() {
    let path = "config/prometheus/prometheus.yml";
    // This reads the rules too.
    told_by("promtool", "prometheus", &["check", "config", path]);
    let configuration = documents(&text(path)).remove(0);
    let [job] = &configuration["scrape_configs"].as_array().unwrap()[..] else { panic!("one job") };
    assert_eq!(job["job_name"], "gas-suggestion");
    assert_eq!(job["static_configs"], json!([{"targets": ["gas-suggestion:9090"]}]));
    let [discovery] = &job["dns_sd_configs"].as_array().unwrap()[..] else { panic!("one of them") };
    assert_eq!(
        (&discovery["names"], &discovery["port"]),
        (&json!(["demo", "replica"]), &json!(9090))
    );
    let compose = compose(&[]);
    let networks = of_services(&compose, "networks");
    let replica = json!({"default": {"aliases": ["replica"]}});
    assert_eq!([&networks["replica-1"], &networks["replica-2"]], [&replica, &replica]);
    assert_eq!(networks["demo"], json!({"offline": null}));
    assert_eq!(networks["prometheus"], json!({"default": null, "offline": null}));
    let source = documents(&text("config/grafana/provisioning/datasources/prometheus.yml"));
    let [source] = &source[0]["datasources"].as_array().unwrap()[..] else { panic!("one source") };
    assert_eq!(source["url"], "http://prometheus:9090");
    assert_eq!(source["jsonData"]["timeInterval"], configuration["global"]["scrape_interval"]);
}

#[test]
fn the_dockerfile_names_the_release_of_its_bases_and_builds_with_the_rust_of_the_project() {
    let file = text("Dockerfile");
    let default = |name: &str| {
        let mut defaults =
            file.lines().filter_map(|line| line.strip_prefix(&format!("ARG {name}=")));
        let only = defaults.next().unwrap();
        assert_eq!(defaults.next(), None);
        only
    };
    let builder = default("BUILDER");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    let expected = format!("docker.io/library/rust:{rust}.");
    assert!(builder.starts_with(&expected) && is_pinned(builder), "{builder} is not {rust}");
    // The release is in its name.
    assert_eq!(default("RUNTIME"), "gcr.io/distroless/static-debian13:nonroot");
}

/// The `[server]` section of a configuration without chains.
fn server(toml: &str) -> Server {
    let chain = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]\n";
    Config::from_toml(&format!("{toml}\n{chain}")).unwrap().server
}

/// The only document of this kind.
fn of_kind(kind: &str) -> Value {
    let mut all = documents(&text("config/kubernetes.yaml"));
    all.retain(|document| document["kind"] == kind);
    let [_] = &all[..] else { panic!("one {kind}: {all:#?}") };
    all.remove(0)
}

#[test]
fn kubernetes_takes_the_manifest_in_every_version_of_three_years() {
    let resources = [
        "configmap",
        "deployment",
        "service",
        "horizontalpodautoscaler",
        "poddisruptionbudget",
        "networkpolicy",
    ];
    for minor in 27..=37 {
        let version = format!("1.{minor}");
        let mut command = of_python("kubernetes-validate");
        command.args(["--strict", "--kubernetes-version", &version]);
        let ended = command.arg(fixtures::path("config/kubernetes.yaml")).output().unwrap();
        let [told, complaints] =
            [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(ended.status.success(), "{version}: {told}{complaints}");
        let passed = told.lines().map(|line| {
            let (_, rest) = line.split_once(" passed for resource ").expect(line);
            rest.split_once('/').unwrap().0
        });
        assert_eq!(passed.collect::<Vec<_>>(), resources, "{version}: {complaints}");
    }
}

#[test]
fn kubernetes_gives_the_service_a_configuration_that_it_takes_and_time_to_drain() {
    let configuration = of_kind("ConfigMap");
    let data = configuration["data"].as_object().unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["config.toml"]);
    let toml = data["config.toml"].as_str().unwrap();
    let file = File::new("kubernetes", toml);
    let (code, _, stderr) = output(&["check-config", "--config", file.path()], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));

    let pod = &of_kind("Deployment")["spec"]["template"]["spec"];
    let server = server(toml);
    let grace = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    assert!(grace > server.drain_delay + server.shutdown_grace);
    let readiness = &pod["containers"][0]["readinessProbe"];
    let [period, failures] =
        ["periodSeconds", "failureThreshold"].map(|key| readiness[key].as_u64().unwrap());
    // That is long enough for whoever goes by the readiness alone.
    assert!(server.drain_delay > Duration::from_secs(period * (failures + 1)));
    assert_eq!(server.admin_listen.to_string(), "0.0.0.0:9090");
}

#[test]
fn kubernetes_gives_the_container_no_more_than_it_needs() {
    let pod = &of_kind("Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(
        pod["securityContext"],
        json!({
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    let [container] = &pod["containers"].as_array().unwrap()[..] else { panic!("one container") };
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    );
    assert!(container["resources"]["limits"]["memory"].is_string());
    assert_eq!(container["image"], format!("gas-suggestion:{}", env!("CARGO_PKG_VERSION")));
    let [volume] = &container["volumeMounts"].as_array().unwrap()[..] else { panic!("one volume") };
    assert_eq!(
        container["args"],
        json!(["--config", format!("{}/config.toml", volume["mountPath"].as_str().unwrap())])
    );
}

#[test]
fn kubernetes_asks_on_ports_that_there_are_and_selects_the_pods_that_there_are() {
    let deployment = of_kind("Deployment");
    let template = &deployment["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{"name": "http", "containerPort": 8080}, {"name": "admin", "containerPort": 9090}])
    );
    let asked = ["startupProbe", "livenessProbe", "readinessProbe"]
        .map(|probe| container[probe]["httpGet"].clone());
    let [live, ready] = ["/livez", "/readyz"].map(|path| json!({"path": path, "port": "admin"}));
    assert_eq!(asked, [live.clone(), live, ready]);
    let labels = json!({"app.kubernetes.io/name": "gas-suggestion"});
    assert_eq!(template["metadata"]["labels"], labels);
    let selectors = [
        &deployment["spec"]["selector"]["matchLabels"],
        &of_kind("Service")["spec"]["selector"],
        &of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    .map(Clone::clone);
    assert_eq!(selectors, [&labels; 4].map(Clone::clone));
    assert_eq!(
        of_kind("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]})
    );
}
