# Functions of the scripts in this folder, which source it in the root of the repository.

fail() {
    echo "$0: $1" >&2
    exit 1
}

step() {
    printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

# Finds the commands that do not exist. Their Debian packages are then in `missing`. Fails if they cannot be installed.
find_missing() { # command:package …
    local tool commands=()
    missing=()
    for tool in "$@"; do
        command -v "${tool%:*}" >/dev/null && continue
        commands+=("${tool%:*}")
        missing+=("${tool#*:}")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "these commands are missing: ${commands[*]}. Install them (Debian: apt-get install ${missing[*]}), or run this as root on Debian."
    fi
}

install_missing() {
    [ "${#missing[@]}" -gt 0 ] || return 0
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
}

# Installs a Debian package unless its command exists.
install_package() { # command, package
    find_missing "$1:$2"
    install_missing
    command -v "$1" >/dev/null || fail "$1 is missing. The package $2 did not provide it."
}
