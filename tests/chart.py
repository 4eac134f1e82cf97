"""Checks the Helm chart. Usage: target/packaging/bin/python tests/chart.py CHART [--kubernetes-validate PROGRAM]

Runs in the root of the repository, with the packages of packaging/requirements.txt and PyYAML. CHART is a folder or a packed
chart. It is linted, and rendered with its default values and with every option. Every value of another kind has to be
refused.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import helm_python as helm
import yaml

CONFIG = '[server]\ntrusted_proxies = ["10.0.0.0/8"]\n\n[chains.ethereum]\nchain_id = 1\nrpc_urls = ["https://rpc.example"]\n'
FULL = {
    "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
    "config": CONFIG,
    "secretNames": ["rpc-urls"],
    "env": {"GAS_LOG__FILTER": "debug", "GAS_CHAINS__ETHEREUM__HISTORY_BLOCKS": 2048},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "webhooks", "secret": {"secretName": "webhooks"}}],
    "extraVolumeMounts": [{"name": "webhooks", "mountPath": "/run/webhooks", "readOnly": True}],
    "redis": {"secretName": "redis"},
    "history": {"volume": "claim", "size": "5Gi", "storageClassName": "fast", "days": 5},
    "ingress": {"enabled": True, "className": "nginx", "host": "gas.test", "tlsSecretName": "gas-tls", "annotations": {"a": "b"}},
    "service": {"annotations": {"a": "b"}},
    "autoscaling": {"enabled": True},
    "networkPolicy": {"restrictEgress": True, "egress": [{"ports": [{"port": 8545}]}]},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "grafanaDashboard": {"enabled": True, "annotations": {"folder": "Gas"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "wallets"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
}
NOT_ROOT = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
CONFINED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
PORTS = [{"name": "http", "containerPort": 8080}, {"name": "admin", "containerPort": 9090}]
PROBES = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
REFUSED = {
    "a misspelt key": {"replica": 2},
    "a misspelt key of a section": {"redis": {"secret": "redis"}},
    "a number as text": {"replicas": "two"},
    "a volume that does not exist": {"history": {"volume": "disk"}},
    "more days than the service keeps": {"history": {"days": 8}},
    "a variable of another program": {"env": {"PATH": "/bin"}},
    "a structure as configuration": {"config": {"server": {}}},
    "a tag as digest": {"image": {"digest": "latest"}},
    "a variable without a name": {"extraEnv": [{"value": "1"}]},
    "no port": {"service": {"port": 0}},
}


def render(chart, values):
    files = chart.render(values, name="release", namespace="wallets")
    documents = [document for name, text in files.items() if name.endswith(".yaml") for document in yaml.safe_load_all(text)]
    # An option that is off leaves an empty document.
    return {(document["kind"], document["metadata"]["name"]): document for document in documents if document}


def kinds(documents):
    return sorted(kind for kind, _ in documents)


def validate(program, documents):
    """Compares the documents with the schemas of Kubernetes. Those of the Prometheus operator have none here."""
    own = [document for document in documents.values() if not document["apiVersion"].startswith("monitoring.")]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump_all(own, file)
        file.flush()
        for version in ("1.27", "1.37"):
            subprocess.run([program, "--strict", "--kubernetes-version", version, file.name], check=True, stdout=subprocess.DEVNULL)


def check_pod(documents, kind):
    """The container has no privileges, its probes use its ports, and a shutdown has time to drain."""
    pod = documents[kind, "release-gas-suggestion"]["spec"]["template"]["spec"]
    assert pod["securityContext"].items() >= NOT_ROOT.items(), pod["securityContext"]
    assert not pod["automountServiceAccountToken"] and not pod["enableServiceLinks"]
    [container] = pod["containers"]
    assert container["securityContext"] == CONFINED, container["securityContext"]
    assert container["resources"]["limits"]["memory"]
    assert container["ports"] == PORTS
    for probe, path in PROBES.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "admin"}, probe
    variables = {variable["name"]: variable for variable in container["env"]}
    assert variables["GAS_SERVER__ADMIN_LISTEN"]["value"] == "0.0.0.0:9090"
    drain, grace = (int(variables[f"GAS_SERVER__{name}"]["value"].removesuffix("s")) for name in ("DRAIN_DELAY", "SHUTDOWN_GRACE"))
    assert pod["terminationGracePeriodSeconds"] > drain + grace
    # Long enough for load balancers that learn of the shutdown only from the readiness probe.
    readiness = container["readinessProbe"]
    assert drain > readiness["periodSeconds"] * (readiness["failureThreshold"] + 1)
    return pod, variables


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("chart")
    parser.add_argument("--kubernetes-validate")
    arguments = parser.parse_args()
    # Below a warning there are recommendations, such as an icon.
    findings = [message for message in helm.lint(arguments.chart)["messages"] if message["severity"] >= 2]
    assert not findings, findings

    version = re.search(r'(?m)^version = "(.*)"$', pathlib.Path("Cargo.toml").read_text())[1]
    with helm.Chart.load(arguments.chart) as chart:
        assert chart.version == chart.metadata["appVersion"] == version, chart.metadata
        # A release has a tag that begins with v.
        assert chart.values["image"]["tag"].removeprefix("v") == version, chart.values["image"]
        default = render(chart, {})
        assert kinds(default) == ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"], kinds(default)
        pod, variables = check_pod(default, "Deployment")
        assert {"name": "history", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]
        assert variables["GAS_HISTORY__PATH"]["value"] == "/var/lib/gas-suggestion/history.redb"
        assert "GAS_REDIS__URL" not in variables

        full = render(chart, FULL)
        expected = ["ConfigMap", "ConfigMap", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "PodDisruptionBudget"]
        assert kinds(full) == [*expected, "PodMonitor", "PrometheusRule", "Service", "StatefulSet"], kinds(full)
        pod, variables = check_pod(full, "StatefulSet")
        assert variables["GAS_REDIS__URL"]["valueFrom"] == {"secretKeyRef": {"name": "redis", "key": "url"}}
        assert variables["GAS_HISTORY__DAYS"]["value"] == "5"
        assert variables["GAS_CHAINS__ETHEREUM__HISTORY_BLOCKS"]["value"] == "2048"
        assert variables["HTTPS_PROXY"]["value"] == "http://proxy:3128"
        assert FULL["extraVolumes"][0] in pod["volumes"] and FULL["extraVolumeMounts"][0] in pod["containers"][0]["volumeMounts"]
        [claim] = full["StatefulSet", "release-gas-suggestion"]["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
        assert full["ConfigMap", "release-gas-suggestion"]["data"]["config.toml"] == CONFIG
        rules = yaml.safe_load(pathlib.Path("config/prometheus/rules.yml").read_text())
        assert full["PrometheusRule", "release-gas-suggestion"]["spec"] == rules
        dashboard = json.loads(pathlib.Path("config/grafana/dashboards/gas-suggestion.json").read_text())
        shown = full["ConfigMap", "release-gas-suggestion-dashboard"]["data"]["gas-suggestion.json"]
        assert json.loads(shown) == dashboard
        # The alerts have the job of this label.
        monitor = full["PodMonitor", "release-gas-suggestion"]["spec"]
        assert monitor["selector"]["matchLabels"][monitor["jobLabel"]] == "gas-suggestion"

        alone = render(chart, {"replicas": 1, "history": {"volume": "memory"}, "networkPolicy": {"enabled": False}})
        assert kinds(alone) == ["ConfigMap", "Deployment", "Service"], kinds(alone)
        pod, variables = check_pod(alone, "Deployment")
        assert "GAS_HISTORY__PATH" not in variables and [volume["name"] for volume in pod["volumes"]] == ["config"]

        # The URL of a webhook is a secret, so no ConfigMap may have it.
        alerts = CONFIG + '[[alerts]]\nchain = "ethereum"\nbelow = "p20"\nurl = "https://hooks.example/canary"\n'
        secret = render(chart, {"config": alerts})
        assert "ConfigMap" not in kinds(secret), kinds(secret)
        assert secret["Secret", "release-gas-suggestion"]["stringData"]["config.toml"] == alerts
        existing = render(chart, {"existingConfigSecret": "own", "config": alerts})
        assert not {"ConfigMap", "Secret"} & set(kinds(existing)) and "canary" not in str(existing), kinds(existing)
        for documents, name in ((secret, "release-gas-suggestion"), (existing, "own")):
            pod, _ = check_pod(documents, "Deployment")
            assert {"name": "config", "secret": {"secretName": name}} in pod["volumes"], pod["volumes"]

        for name, values in REFUSED.items():
            try:
                chart.validate_schema(values)
            except helm.HelmError as error:
                print(f"refused: {name}: {str(error).strip().splitlines()[-1].strip()}")
            else:
                raise AssertionError(f"not refused: {name}")
        if arguments.kubernetes_validate:
            for documents in (default, full, alone, secret, existing):
                validate(arguments.kubernetes_validate, documents)
        print(f"{chart.name} {chart.version}: {len(default)} documents by default, {len(full)} with every option")


main()
