#!/bin/sh
# Prepares what pip cannot: a Python of at least 3.11 with venv, the folder .venv, and the system's Opus library.
# Usage: tools/prepare.sh venv DIR | opus | chromium | telephony | drills | deploy | compose DIR | prometheus DIR
set -eu

say() { echo "$1" >&2; }

fail() {
    say "error: $1"
    exit 1
}

# Installs Debian packages as root or through sudo; where neither works, says what to type.
install_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "missing: $*. This system has no apt-get; install them with its own package manager and run make again."
    fi
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root="sudo"
    else
        fail "missing: $*. Run 'apt-get update && apt-get install -y $*' as root, then make again."
    fi
    say "system: installing $*"
    $as_root apt-get -qq update >/dev/null
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# Of these, what is not there as a command of the same name, or of the one behind a colon.
install_missing() {
    missing=""
    for name in "$@"; do
        command -v "${name#*:}" >/dev/null 2>&1 || missing="$missing ${name%%:*}"
    done
    # shellcheck disable=SC2086 # a package each
    [ -z "$missing" ] || install_packages $missing
}

# unpack PACKAGE DIR PROGRAM: a Debian package into a folder, for where installing it would start a service of its own.
unpack() {
    if [ -e "$2/$3" ]; then
        say "$1: keeping $2"
        return
    fi
    command -v apt-get >/dev/null 2>&1 || fail "this takes Debian's package $1, and there is no apt-get"
    say "$1: unpacking Debian's package into $2"
    mkdir -p "$2"
    [ "$(id -u)" != 0 ] || apt-get -qq update >/dev/null
    (cd "$2" && apt-get -qq download "$1" 2>/dev/null && dpkg-deb -x "$1"_*.deb . && rm "$1"_*.deb) ||
        fail "apt-get download $1 failed: run apt-get update as root, then make again"
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The first interpreter that is new enough: the one asked for, python3, then versioned names.
find_python() {
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null 2>&1 && new_enough "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

make_venv() {
    if [ -x "$1/bin/python" ] && new_enough "$1/bin/python"; then
        say "python: keeping $1 with $("$1/bin/python" --version)"
        return
    fi
    if ! command -v "${PYTHON:-python3}" >/dev/null 2>&1 && [ -z "${PYTHON:-}" ]; then
        install_packages python3 python3-venv
    fi
    python=$(find_python) || fail "Oscine needs Python 3.11 or newer, found $("${PYTHON:-python3}" --version 2>&1). \
Install a newer one (apt-get install python3.11 python3.11-venv where offered) and run make PYTHON=python3.11 ..."
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        install_packages "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    fi
    say "python: creating $1 with $("$python" --version)"
    "$python" -m venv "$1"
}

have_opus() { "${PYTHON:-python3}" -c 'import ctypes.util, sys; sys.exit(ctypes.util.find_library("opus") is None)'; }

case "${1:-}" in
venv) make_venv "$2" ;;
opus)
    if have_opus; then
        say "opus: libopus is installed"
    else
        install_packages libopus0
    fi
    ;;
telephony)
    install_missing ffmpeg baresip curl
    if ! gst-inspect-1.0 rtpopusdepay >/dev/null 2>&1 || ! gst-inspect-1.0 opusdec >/dev/null 2>&1; then
        install_packages gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good
    fi
    ;;
drills)
    command -v cc >/dev/null 2>&1 || install_packages gcc libc6-dev
    command -v ip >/dev/null 2>&1 || install_packages iproute2
    command -v mkfs.ext4 >/dev/null 2>&1 || install_packages e2fsprogs
    command -v losetup >/dev/null 2>&1 || install_packages mount util-linux
    ;;
chromium)
    if command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; then
        say "browser: Chromium is installed"
    else
        install_packages chromium fonts-noto-cjk
    fi
    ;;
deploy) install_missing buildah podman runc debootstrap systemd-container:systemd-nspawn ;;
compose) unpack docker-compose "$2" usr/lib/python3/dist-packages/compose/config/compose_spec.json ;;
prometheus) unpack prometheus "$2" usr/bin/promtool ;;
nginx) unpack nginx "$2" usr/sbin/nginx ;;
*) fail "usage: tools/prepare.sh venv DIR | opus | chromium | telephony | drills | deploy | compose DIR | prometheus DIR | nginx DIR" ;;
esac
