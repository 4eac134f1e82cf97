#!/usr/bin/env bash
# Builds what a release has: into `dist` the packages of packaging/build.sh, and into `release` what the page of the release
# shows, which is an archive for each target, the packages for Debian and RPM systems, the chart, an SBOM
# (CycloneDX) and SHA256SUMS.
# Usage: .github/release.sh [target...]    default: x86_64-unknown-linux-gnu and aarch64-unknown-linux-gnu
#
# The folder `macos` has programs that were built on macOS, as macos/TARGET/gas-suggestion, or does not exist.
# Needs Rust with the targets, a C compiler for each of them, Node.js, and Python with venv.

set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo ".github/release.sh: $1" >&2
    exit 1
}

[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
target_folder=${CARGO_TARGET_DIR:-target}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

command -v node >/dev/null || fail "node is missing. Install Node.js 20 or later."
for target in "$@"; do
    [ -d "$(rustc --print target-libdir --target "$target")" ] ||
        fail "Rust cannot build for $target. Install it: rustup target add $target"
    compiler=${target%%-*}-linux-gnu-gcc
    command -v "$compiler" >/dev/null ||
        fail "$compiler is missing. Install it (Debian: apt-get install gcc-$(tr _ - <<<"${target%%-*}")-linux-gnu)."
done

mapfile -t macos < <(find macos -name gas-suggestion 2>/dev/null | sort)
binaries=${macos[*]}
for target in "$@"; do
    # Read by Cargo, and by the builds of C code.
    name=${target//-/_}
    export "CARGO_TARGET_${name^^}_LINKER=${target%%-*}-linux-gnu-gcc" "CC_$name=${target%%-*}-linux-gnu-gcc"
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$target" --bin gas-suggestion
    binaries+=" $target_folder/$target/release/gas-suggestion"
done
BINARY=$binaries packaging/build.sh dist

rm -rf release
mkdir release
for binary in "${@/#/$target_folder/}" "${macos[@]}"; do
    case $binary in
    macos/*) target=$(basename "${binary%/gas-suggestion}") folder=gas-suggestion-$version-macos-${target%%-*} ;;
    *) target=${binary##*/} folder=gas-suggestion-$version-${target%%-*} binary=$binary/release/gas-suggestion ;;
    esac
    mkdir "release/$folder"
    install --mode=755 "$binary" "release/$folder/gas-suggestion"
    cp README.md LICENSE CHANGELOG.md config/default.toml config/prometheus/rules.yml "release/$folder"
    [[ $target = *-darwin ]] || cp config/debian/{config.toml,gas-suggestion.service} "release/$folder"
    packaging/notices.sh "$target" >"release/$folder/NOTICES"
    cp config/grafana/dashboards/gas-suggestion.json "release/$folder/dashboard.json"
    # The same input gives the same archive.
    tar --directory release --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" "$folder" | gzip -n >"release/$folder.tar.gz"
    rm -r "release/${folder:?}"
done
cp dist/{deb,rpm}/* release
cp dist/helm/gas-suggestion-*.tgz "release/gas-suggestion-chart-$version.tgz"
node tests/sbom.mjs release/sbom.cdx.json
# In one command, the file of checksums could exist before the names are listed.
checksums=$(cd release && sha256sum -- *)
tee release/SHA256SUMS <<<"$checksums"
