#!/usr/bin/env bash
# Measures everything that has a budget, prints what is over, and fails then. It takes an hour on two processors, with nothing
# else running. Usage: benches/all.sh [rounds]

cd "$(dirname "$0")/.."
. benches/common.sh
rounds=${1:-7}
over=()

budget() { # what, figure, limit
    printf '| %s | %s | %s |\n' "$1" "$2" "$3"
    [ "$2" -le "$3" ] || over+=("$1")
}
build() { # arguments of cargo build; prints the seconds that it takes from nothing
    local folder since
    folder=$(mktemp -d)
    since=$SECONDS
    CARGO_TARGET_DIR=$folder cargo build --quiet --locked "$@"
    echo $((SECONDS - since))
    rm -r "$folder"
}
part() { # command
    printf '\n## %s\n\n' "$*"
    "$@" || over+=("$*")
}

cargo fetch --quiet --locked
build_service
printf '| Build | Measured | Allowed |\n|---|---|---|\n'
budget "cargo build, from nothing, s" "$(build)" 75
budget "cargo build --release, from nothing, s" "$(build --release)" 150
budget "packages" "$(cargo tree -e normal,build --prefix none --locked --target x86_64-unknown-linux-gnu | sed 's/ (.*//' | sort -u | wc -l)" 210
budget "binary, kB" "$(($(stat -c %s target/release/gas-suggestion) / 1000))" 12000
part benches/serving.sh "$rounds"
part benches/reads.sh "$rounds"
part benches/streams.sh
part benches/start.sh
part benches/start.sh 1 560 0.5
part benches/freshness.sh
part benches/memory_attacks.sh
part benches/quota_attack.sh
printf '\n'
[ "${#over[@]}" = 0 ] || { printf 'Over: %s\n' "${over[@]}"; exit 1; }
