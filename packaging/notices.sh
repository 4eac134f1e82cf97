#!/usr/bin/env bash
# Prints the licences of everything that the program contains: crates, files of others under src, Rust's standard library
# and the C library. Archives, packages and images have the output as NOTICES.
# Usage: packaging/notices.sh [target]    default: this machine's
#
# The texts are in the sources that Cargo downloads. With CARGO_NET_OFFLINE=true, all have to be there already. Fails if a
# crate has no licence.

set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

fail() {
    echo "packaging/notices.sh: $1" >&2
    exit 1
}

host=$(rustc --print host-tuple)
target=${1:-$host}
texts=$(mktemp -d)
trap 'rm -r "$texts"' EXIT

rule() {
    printf '%79s\n' '' | tr ' ' '#'
}

# Prints the paths of the licences and notices below a folder.
licences_in() { # folder
    find "$1" -type f -regextype posix-extended \
        -iregex '.*/(licen[sc]e|copying|copyright|notice|unlicense|patents)[^/]*|.*\.LICENSE\.txt' \
        ! -name '*.rs' ! -name '*.html' ! -name '*.json' ! -name '*.toml' | sort
}

# Files with the same text are printed once.
add_text() { # what the text is of, file
    local hash
    hash=$(tr -d '\r' <"$2" | sed 's/[ \t]*$//' | tee "$texts/new" | sha256sum | cut -d ' ' -f 1)
    mv "$texts/new" "$texts/$hash.text"
    grep --quiet --line-regexp --fixed-strings "$1" "$texts/$hash.names" 2>/dev/null || echo "$1" >>"$texts/$hash.names"
}

# In `cargo metadata` only packages have a manifest_path. Procedural macros are built for this machine.
metadata=$(cargo metadata --locked --filter-platform "$target" --filter-platform "$host" \
    --format-version 1)
folders=$(grep -o '"manifest_path":"[^"]*/Cargo.toml"' <<<"$metadata" | cut -d '"' -f 4 | sed 's:/Cargo.toml$::')
# `cargo tree` has the crates of this build.
crates=$(cargo tree --locked --target "$target" --edges normal --prefix none --no-dedupe \
    --format '{p}|{l}' | sort -u)

# For the crates whose packages have no text.
sed '/^Copyright/d' LICENSE >"$texts/MIT"
apache=packaging/apache-2.0.txt

list=
while IFS='|' read -r package licence; do
    read -r name version rest <<<"$package"
    [[ "$rest" != \(/* ]] || continue
    version=${version#v}
    crate="$name $version"
    [ -n "$licence" ] || fail "$crate names no licence"
    folder=$(awk -v end="/$name-$version" 'substr($0, length($0) - length(end) + 1) == end' <<<"$folders")
    [ -n "$folder" ] || fail "the source of $crate is not found"
    list+=$(printf '%-44s %s' "$crate" "$licence")$'\n'
    files=$(licences_in "$folder")
    if [ -n "$files" ]; then
        while read -r file; do
            add_text "$crate" "$file"
        done <<<"$files"
    elif [[ "$licence" == *MIT* ]]; then
        add_text "$crate, by its authors" "$texts/MIT"
    elif [[ "$licence" == *Apache-2.0* ]]; then
        add_text "$crate" "$apache"
    else
        fail "$crate has no text of its licence, $licence"
    fi
done <<<"$crates"

# The texts that Debian has of the C library's licence.
library=()
if [[ "$target" = *-linux-gnu ]]; then
    library=("GNU C library, linked statically" "LGPL-2.1-or-later: build gas-suggestion from its source to link another one")
    for file in /usr/share/doc/libc6/copyright /usr/share/common-licenses/LGPL-2.1; do
        [ -e "$file" ] || fail "$file is missing: run this on Debian or Ubuntu"
        add_text "GNU C library" "$file"
    done
fi

# Files of other projects in this repository stand in folders with their licences.
while read -r file; do
    add_text "files of ${file%/*}" "$file"
done < <(licences_in src)

cat <<END
gas-suggestion contains software of other projects, under the licences below. Its own licence is in the file LICENSE.
Crates with a choice of licences are used under MIT or Apache-2.0 where that is among them.

END
printf '%s' "$list"
printf '%-44s %s\n' "Rust standard library $(rustc --version | cut -d ' ' -f 2)" "MIT OR Apache-2.0" \
    "${library[@]}"
echo
for names in "$texts"/*.names; do
    rule
    sort -u "$names"
    rule
    cat "${names%.names}.text"
    echo
done
rule
echo "Rust standard library"
rule
library=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
[ -e "$library" ] || fail "$library is missing: install Rust with rustup"
sed 's/<[^>]*>//g; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&#39;/'"'"'/g; s/&amp;/\&/g; s/[ \t]*$//' "$library" | cat -s
