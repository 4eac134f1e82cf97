#!/usr/bin/env bash
# Builds the guides as a site into target/site, and checks it: no warning, no broken link, no page left out.
# Usage: [MDBOOK=PATH] tests/site.sh    default: target/python/bin/mdbook

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

mdbook=${MDBOOK:-target/python/bin/mdbook}
[ -x "$mdbook" ] || fail "$mdbook is missing. Install tests/python/requirements.txt, as tests/run.sh does."
rm -rf target/site
output=$("$mdbook" build packaging 2>&1) || fail "$output"
! grep --quiet 'WARN\|ERROR' <<<"$output" || fail "$output"
python3 tests/site.py target/site
