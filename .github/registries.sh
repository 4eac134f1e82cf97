#!/usr/bin/env bash
# Says which packages exist at npm and crates.io, as lines `npm=true` and `crates=false` for GITHUB_OUTPUT. Both registries
# let a workflow publish only what exists already, so the first version is published by hand. PyPI has no such rule.
# Usage: .github/registries.sh
#
# A package that is missing is a warning. Fails if a registry does not answer.

set -euo pipefail
cd "$(mktemp -d)"

missing() { # registry, packages
    local text="$1 does not have ${*:2} yet, so this run does not publish there. CONTRIBUTING.md says how to publish the first version."
    echo "::warning title=First version at $1::$text" >&2
    echo "$text" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
}

absent=()
for package in gas-suggestion gas-suggestion-cli{,-linux-x64,-linux-arm64,-darwin-x64,-darwin-arm64}; do
    if ! npm view "$package" name >/dev/null 2>log; then
        grep --quiet 'E404' log || { cat log >&2; exit 1; }
        absent+=("$package")
    fi
done
if [ "${#absent[@]}" = 0 ]; then
    echo npm=true
else
    missing npm "${absent[@]}"
    echo npm=false
fi

absent=()
for crate in gas-suggestion gas-suggestion-alloy; do
    if ! cargo info --quiet --registry crates-io "$crate" >/dev/null 2>log; then
        grep --quiet "could not find .$crate. in registry" log || { cat log >&2; exit 1; }
        absent+=("$crate")
    fi
done
if [ "${#absent[@]}" = 0 ]; then
    echo crates=true
else
    missing crates.io "${absent[@]}"
    echo crates=false
fi
