"""Checks that no dependency can publish a release. Usage: target/python/bin/python tests/workflows.py [--self-test]

Run from the root of the repository. In .github/workflows, every action and image is pinned to content that cannot change,
and a job with a token runs nothing but the commands and actions listed here. Each npm package of the program is
published. `--self-test` checks that each rule finds its example. Needs PyYAML.
"""

import re
import sys
from pathlib import Path

import yaml

# What a job with a token may run. None of these runs code of a dependency.
PUBLISHING_COMMANDS = (
    "cargo publish --locked --no-verify",
    "digest=$(docker buildx imagetools inspect ",
    "docker buildx imagetools create ",
    "docker login ",
    "echo ",
    "gh release create ",
    "image=ghcr.io/",
    "npm publish --ignore-scripts ",
    "sha256sum --check ",
    "skopeo copy ",
)
PUBLISHING_ACTIONS = {
    "actions/attest-build-provenance",
    "actions/checkout",
    "actions/download-artifact",
    "actions/setup-node",
    "pypa/gh-action-pypi-publish",
    "rust-lang/crates-io-auth-action",
}

PINNED_ACTION = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
TAG = re.compile(r"# v\d+\.\d+\.\d+$")
TOKEN = re.compile(r"secrets\.|secrets\[|github\.token|GITHUB_TOKEN|outputs\.token")
IMAGE = re.compile(r"(?:image=|generator=|docker run )(\S+)")


def commands(script):
    """Splits a shell script into commands, at line ends and operators."""
    lines = script.replace("\\\n", " ").split("\n")
    return [part.strip() for line in lines for part in re.split(r"&&|\|\||[|;&]", line) if part.strip()]


def grants(permissions):
    """Returns the permissions beyond reading the repository."""
    if not isinstance(permissions, dict):
        return {str(permissions)}
    return {f"{scope}: {level}" for scope, level in permissions.items() if level != "none" and (scope, level) != ("contents", "read")}


def job_findings(job, has_token):
    """Yields the findings in one job. A job with a token may only publish."""
    if "uses" in job:
        yield "the job is a workflow of its own, which this test does not read"
    for step in job.get("steps", []):
        name = step.get("uses") or step.get("run")
        action = step.get("uses", "").split("@")[0]
        if action and not PINNED_ACTION.fullmatch(step["uses"]):
            yield f"not pinned to a commit: {name}"
        if action == "actions/checkout" and step.get("with", {}).get("persist-credentials") is not False:
            yield "the checkout leaves its token on disk: set persist-credentials to false"
        if has_token and action and action not in PUBLISHING_ACTIONS:
            yield f"an action beside a token: {name}"
        for command in commands(step.get("run", "")):
            if has_token and not command.startswith(PUBLISHING_COMMANDS):
                yield f"a command beside a token: {command}"
            if command.startswith("cargo install") and not {"--locked", "--version"} <= set(command.split()):
                yield f"not locked to a version: {command}"
            if re.match(r"npm (?:install|i) |npx |pip install ", command):
                yield f"not from a lock file: {command}"
        for image in IMAGE.findall(step.get("run", "")):
            if "/" in image and "$" not in image and not re.search(r"@sha256:[0-9a-f]{64}$", image):
                yield f"not pinned to a digest: {image}"


def findings(text):
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads the key `on` as true.
    triggers = workflow.get("on", workflow.get(True))
    if "pull_request_target" in triggers or "workflow_run" in triggers:
        yield "a workflow of another branch would run with this one's rights"
    if workflow.get("permissions") != {"contents": "read"}:
        yield "the permissions of the workflow are not `contents: read`"
    if TOKEN.search(str(workflow.get("env"))):
        yield "all jobs have a token in their environment"
    if re.search(r"\bsecrets\b", text.split("\njobs:")[-1]):
        yield "a secret outlives the run: use a token of the run"
    for name, job in workflow["jobs"].items():
        has_token = bool(grants(job.get("permissions", {})) or TOKEN.search(str(job)))
        for finding in job_findings(job, has_token):
            yield f"job {name}: {finding}"
    for line in text.split("\n"):
        if re.match(r"\s*(?:- )?uses: .*@", line) and not TAG.search(line):
            yield f"the comment does not name the tag: {line.strip()}"


# A workflow without findings, and changes to it with a part of the finding each must give.
GOOD = """
name: Release
on: push
permissions:
  contents: read
jobs:
  build:
    steps:
      - uses: actions/checkout@0000000000000000000000000000000000000000 # v1.2.3
        with:
          persist-credentials: false
      - run: cargo install --locked --version 1.2.3 cargo-deb
      - run: docker buildx create --driver-opt image=a/b:1@sha256:{0}
  publish:
    permissions:
      id-token: write
    steps:
      - uses: actions/download-artifact@0000000000000000000000000000000000000000 # v1.2.3
      - run: cargo publish --locked --no-verify
        env:
          CARGO_REGISTRY_TOKEN: ${{{{ steps.auth.outputs.token }}}}
""".format("0" * 64)
BAD = [
    ("@0000000000000000000000000000000000000000 # v1.2.3\n        with", "@v1 # v1.2.3\n        with", "not pinned to a commit"),
    (" # v1.2.3", "", "does not name the tag"),
    ("persist-credentials: false", "fetch-depth: 0", "leaves its token on disk"),
    ("  build:\n", "  build:\n    permissions:\n      contents: write\n", "a command beside a token: cargo install"),
    ("  build:\n", "  build:\n    permissions: write-all\n", "a command beside a token: cargo install"),
    ("  build:\n", "  build:\n    env:\n      A: ${{ github.token }}\n", "a command beside a token: cargo install"),
    ("  build:\n", "  build:\n    env:\n      A: ${{ secrets.A }}\n", "a secret outlives the run"),
    ("on: push\n", "on: push\nenv:\n  A: ${{ github.token }}\n", "all jobs have a token"),
    ("permissions:\n  contents: read\n", "permissions:\n  contents: write\n", "the permissions of the workflow"),
    ("permissions:\n  contents: read\n", "", "the permissions of the workflow"),
    ("on: push\n", "on: pull_request_target\n", "a workflow of another branch"),
    ("--no-verify", "", "a command beside a token: cargo publish"),
    ("cargo publish", "make && cargo publish", "a command beside a token: make"),
    ("actions/download-artifact", "a/b", "an action beside a token"),
    ("--version 1.2.3 ", "", "not locked to a version"),
    ("@sha256:" + "0" * 64, "", "not pinned to a digest"),
]


def self_test():
    assert not list(findings(GOOD)), list(findings(GOOD))
    for old, new, expected in BAD:
        assert old in GOOD, old
        found = list(findings(GOOD.replace(old, new)))
        assert any(expected in one for one in found), f"{new!r}: {found}"


def unpublished():
    """Yields the npm packages of the program that the release does not publish, or does not look for."""
    release, registries = (Path(".github", name).read_text() for name in ("workflows/release.yml", "registries.sh"))
    for platform in re.findall(r'"((?:linux|darwin)-\w+)":', Path("packaging/npm.py").read_text()):
        if f"gas-suggestion-cli-{platform}-$" not in release or f"-{platform}" not in registries:
            yield f"gas-suggestion-cli-{platform} is not published"


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    paths = sorted(Path(".github/workflows").iterdir())
    found = [f"{path}: {finding}" for path in paths for finding in findings(path.read_text())] + list(unpublished())
    if found:
        sys.exit("\n".join(found))
    print(f"{len(paths)} workflows: every action is pinned, and no token is beside code of dependencies")


main()
