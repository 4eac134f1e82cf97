#!/usr/bin/env bash
# Compares tests/alloy-estimates.txt with the estimator of alloy, which takes minutes to compile. Each line has
# a base fee and the rewards of ten blocks, then after ` = ` the tip and the max fee, all in wei.

set -euo pipefail
cd "$(dirname "$0")"

file=tests/alloy-estimates.txt
cargo build --locked --manifest-path alloy/Cargo.toml --target-dir ../target/alloy
estimates=$(sed 's/ = .*//' "$file" | ../target/alloy/debug/gas-suggestion-backtest-alloy)
diff <(sed 's/.* = //' "$file") <(echo "$estimates")
echo "all $(wc -l < "$file") estimates are those of alloy"
