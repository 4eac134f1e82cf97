#!/usr/bin/env bash
# Builds what a release has, into the folder `dist`: a statically linked binary for each target, a Debian package, an
# SBOM (CycloneDX) and SHA256SUMS.
# Usage: .github/release.sh [target...]    default: x86_64-unknown-linux-gnu and aarch64-unknown-linux-gnu
#
# Needs Rust with the targets, a C compiler for each of them, make, Node.js and cargo-deb.

set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo ".github/release.sh: $1" >&2
    exit 1
}

[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
# The paths below are in this folder.
export CARGO_TARGET_DIR=$PWD/target
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
host=$(rustc --print host-tuple)

command -v node >/dev/null || fail "node is missing. Install Node.js 18 or later."
command -v make >/dev/null || fail "make is missing. Install it (Debian: apt-get install make)."
cargo deb --version >/dev/null 2>&1 || fail "cargo-deb is missing. Install it: cargo install --locked cargo-deb"
for target in "$@"; do
    [ -d "$(rustc --print target-libdir --target "$target")" ] ||
        fail "Rust cannot build for $target. Install it: rustup target add $target"
    compiler=${target%%-*}-linux-gnu-gcc
    command -v "$compiler" >/dev/null ||
        fail "$compiler is missing. Install it (Debian: apt-get install gcc-$(tr _ - <<<"${target%%-*}")-linux-gnu)."
done

rm -rf dist
mkdir -p dist
for target in "$@"; do
    # Read by Cargo, and by the build of the allocator.
    name=${target//-/_}
    export "CARGO_TARGET_${name^^}_LINKER=${target%%-*}-linux-gnu-gcc" "CC_$name=${target%%-*}-linux-gnu-gcc"
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile dist --features jemalloc --target "$target"
    folder=gas-suggestion-$version-${target%%-*}
    mkdir "dist/$folder"
    cp "target/$target/dist/gas-suggestion" README.md LICENSE CHANGELOG.md config/default.toml \
        config/prometheus/rules.yml config/debian/config.toml config/debian/gas-suggestion.service "dist/$folder"
    packaging/notices.sh "$target" >"dist/$folder/NOTICES"
    gzip -9 -n <"dist/$folder/NOTICES" >target/NOTICES.gz
    cp config/grafana/dashboards/gas-suggestion.json "dist/$folder/dashboard.json"
    # The same input gives the same archive.
    tar --directory dist --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" "$folder" | gzip -n >"dist/$folder.tar.gz"
    rm -r "dist/${folder:?}"
    # The package has the same static binary, so it runs on every release of Debian.
    if [ "$target" = "$host" ]; then
        RUSTFLAGS="-C target-feature=+crt-static" \
            cargo deb --locked --profile dist --target "$target" --no-build --output dist/
    fi
done
node tests/sbom.mjs dist/sbom.cdx.json
# In one command, the file of checksums could exist before the names are listed.
checksums=$(cd dist && sha256sum -- *)
tee dist/SHA256SUMS <<<"$checksums"
