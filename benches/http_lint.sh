#!/usr/bin/env bash
# What httplint and REDbot say of the routes of `demo`: see http_lint.py.
# Usage: benches/http_lint.sh [program]    default: builds the service as in images
#
# Needs Python 3.10 or later with venv. Both programs are installed in a temporary folder.

cd "$(dirname "$0")/.."
. benches/common.sh

need python3 "apt-get install python3 python3-venv"
program=${1:-}
if [ -z "$program" ]; then
    build_service
    program=target/release/gas-suggestion
fi
create_workspace
python3 -m venv "$directory/python"
"$directory/python/bin/pip" install --quiet --disable-pip-version-check httplint==2026.10.4 redbot==2.7.1
"$directory/python/bin/python" benches/http_lint.py "$program"
