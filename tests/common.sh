# Functions of the scripts in this folder, which source it in the root of the repository.

fail() {
    echo "$0: $1" >&2
    exit 1
}

step() {
    printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

# Installs a Debian package unless its command exists.
install_package() { # command, package
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "$1 is missing. Install it (Debian: apt-get install $2), or run this as root on Debian."
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2"
    command -v "$1" >/dev/null || fail "$1 is missing. The package $2 did not provide it."
}
