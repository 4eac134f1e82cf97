#!/usr/bin/env bash
# Installs the Debian package in a new Debian, checks its files, its systemd unit and the program, and removes it without
# a trace.
# Usage: [BINARY=PATH] tests/debian.sh [package]    default: makes one with packaging/build.sh
#
# Needs root on Debian, where it installs debootstrap, lintian and systemd.

set -euo pipefail
cd "$(dirname "$0")/.."
. tests/common.sh

# Of `systemd-analyze security`, from 0 (confined) to 10.
readonly MAX_EXPOSURE=1.5

[ "$(id -u)" = 0 ] || fail "Run this as root: it creates file systems."
install_package debootstrap debootstrap
install_package lintian lintian
install_package systemd-analyze systemd

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

package=${1:-}
if [ -z "$package" ]; then
    step "build"
    packaging/build.sh "$work/packages"
    package=$(echo "$work"/packages/deb/*_"$(dpkg --print-architecture)".deb)
fi

step "lintian"
lintian --fail-on error,warning "$package"

step "a new Debian"
root=$work/root
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016 # apt-get replaces $(SITE)
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
debootstrap --variant=minbase --include=ca-certificates,systemd "$suite" "$root" "$mirror" >"$work/log" 2>&1 ||
    fail "debootstrap: $(tail "$work/log")"
# Services are not started in a chroot.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# systemd-analyze writes into /run, which a system empties when it starts.
files() {
    (cd "$root" && find . -path ./run -prune -o -path ./tmp -prune -o -print | sort)
}
files >"$work/before"

step "installation"
cp "$package" "$root/tmp/package.deb"
chroot "$root" dpkg --install /tmp/package.deb
files >"$work/installed"
comm -13 "$work/before" "$work/installed" | tee "$work/added"
for file in ./usr/bin/gas-suggestion ./etc/gas-suggestion/config.toml ./usr/lib/systemd/system/gas-suggestion.service \
    ./usr/share/doc/gas-suggestion/copyright ./usr/share/doc/gas-suggestion/default.toml \
    ./usr/share/doc/gas-suggestion/examples/rules.yml ./usr/share/doc/gas-suggestion/examples/dashboard.json \
    ./usr/share/doc/gas-suggestion/NOTICES.gz ./usr/share/doc/gas-suggestion/changelog.gz ./usr/share/man/man1/gas-suggestion.1.gz \
    ./etc/systemd/system/multi-user.target.wants/gas-suggestion.service; do
    grep --quiet --line-regexp "$file" "$work/added" || fail "$file is not installed"
done
# shellcheck disable=SC2016 # dpkg-query replaces ${Conffiles}
chroot "$root" dpkg-query --showformat='${Conffiles}\n' --show gas-suggestion >"$work/conffiles"
grep --quiet '^ */etc/gas-suggestion/config.toml ' "$work/conffiles" || fail "the configuration would be overwritten by an upgrade"

step "program"
chroot "$root" gas-suggestion check-config --config /etc/gas-suggestion/config.toml
[ "$(chroot "$root" gas-suggestion --version)" = "gas-suggestion $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)" ] ||
    fail "another version"
chroot "$root" gas-suggestion --help >"$work/help"
sed -n 's/^  \([a-z-]*\)  *\([A-Z].*\)/\1 \2/p' "$work/help" | grep -v '^help ' >"$work/commands"
[ -s "$work/commands" ] || fail "gas-suggestion --help has no commands"
zcat "$root/usr/share/man/man1/gas-suggestion.1.gz" | sed 's:[\\]::g' |
    awk '/^\.TP/ { getline; command = $2; getline; print command, $0 }' >"$work/documented"
undocumented=$(grep --invert-match --line-regexp --fixed-strings --file "$work/documented" "$work/commands" || true)
[ -z "$undocumented" ] || fail "the manual page differs from --help: $undocumented"

step "systemd unit"
# The new Debian has no command `man`.
unit=/usr/lib/systemd/system/gas-suggestion.service
verified=$(chroot "$root" systemd-analyze verify --man=no "$unit" 2>&1) || fail "systemd-analyze verify: $verified"
[ -z "$verified" ] || fail "systemd-analyze verify: $verified"
report=$(systemd-analyze security --no-pager --offline=true --root "$root" gas-suggestion.service)
exposure=$(sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\).*/\1/p' <<<"$report")
echo "exposure $exposure of 10 (at most $MAX_EXPOSURE)"
awk -v exposure="$exposure" -v max="$MAX_EXPOSURE" 'BEGIN { exit !(exposure != "" && exposure <= max) }' ||
    fail "the unit is not confined: $report"

step "removal"
chroot "$root" dpkg --remove gas-suggestion
[ -e "$root/etc/gas-suggestion/config.toml" ] || fail "the removal deleted the configuration"
# As after a run.
mkdir -p "$root/var/lib/private/gas-suggestion"
touch "$root/var/lib/private/gas-suggestion/history.redb" "$root/etc/gas-suggestion/environment"
ln -s private/gas-suggestion "$root/var/lib/gas-suggestion"
chroot "$root" dpkg --purge gas-suggestion
files >"$work/purged"
# These directories belong to systemd and its helper.
left=$(comm -13 "$work/before" "$work/purged" |
    grep -v -e '^./var/lib/private$' -e '^./var/lib/systemd/deb-systemd-helper-[a-z]*$' || true)
[ -z "$left" ] || fail "left behind: $left"
echo
echo "tests/debian.sh: passed"
