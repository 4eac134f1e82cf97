#!/usr/bin/env bash
# Deletes each feature of `src/extras` from a copy of the last commit, one at a time: its folder, its two lines in `extras.rs`
# and its section of the defaults. The rest has to compile with warnings denied. It prints a row for each and takes some ten
# minutes. Usage: tests/extras.sh [EXTRA …]

set -euo pipefail
cd "$(dirname "$0")/.."

[ "$#" -gt 0 ] || mapfile -t found < <(sed -n 's/^    \([a-z_]*\)::EXTRA,$/\1/p' src/extras.rs)
declare -A sections=([compat]=compat [rpc]=rpc [replicas]=redis [delegation]=delegation [verification]=verification
    [trend]=history [alerts]=alerts)
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR
copy=$(mktemp -d)
log=$(mktemp)
trap 'rm -rf "$copy" "$log"' EXIT
git archive HEAD | tar --extract --directory "$copy"
failed=0
for extra in "${@:-${found[@]}}"; do
    [ -e "src/extras/$extra.rs" ] || {
        echo "tests/extras.sh: there is no src/extras/$extra.rs" >&2
        exit 1
    }
    git archive HEAD src config | tar --extract --directory "$copy"
    rm -rf "$copy/src/extras/$extra" "$copy/src/extras/$extra.rs"
    sed -i "/mod $extra;/d; /^    $extra::EXTRA,/d" "$copy/src/extras.rs"
    awk -v section="${sections[$extra]:-none}" '/^\[/ { skip = index($0, "[" section) > 0 } !skip' config/default.toml \
        >"$copy/config/default.toml"
    if (cd "$copy" && cargo clippy --quiet --locked --lib --bins -- -D warnings) >"$log" 2>&1; then
        echo "$extra: the rest compiles"
    else
        failed=1
        echo "$extra: FAILED"
        sed 's/^/    /' "$log"
    fi
done
exit "$failed"
