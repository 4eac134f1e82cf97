#!/usr/bin/env bash
# Writes the address of the repository into all manifests. The placeholder is that of gas-suggestion.example.
# Usage: packaging/address.sh REPOSITORY [HOMEPAGE]    such as https://github.com/OWNER/NAME; default homepage: the repository

set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -ge 1 ] || { echo "usage: packaging/address.sh REPOSITORY [HOMEPAGE]" >&2; exit 1; }
placeholder=https://gas-suggestion.example
current=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
homepage=$(sed -n 's/^homepage = "\(.*\)"/\1/p' Cargo.toml)
[ "$current" = $placeholder/source ] || { echo "the repository is $current already, with the homepage $homepage" >&2; exit 1; }
git grep --files-with-matches --fixed-strings $placeholder -- . ':!packaging/address.sh' |
    xargs sed -i "s#$placeholder/source#$1#g; s#$placeholder#${2:-$1}#g"
git diff --stat
