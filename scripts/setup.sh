#!/usr/bin/env bash
# Makes this clone ready: Python environment in .venv with the exact versions of constraints.txt, Java, Kafka's jars.
#
# Does nothing, in well under two seconds, when nothing has changed since the last time. What the machine lacks is
# named with the command that installs it; as root on Debian or Ubuntu it is installed.
#
#   scripts/setup.sh --check  changes nothing; exit code 1 when there is something to do
#   scripts/setup.sh --tests  Chromium too, for the browser tests, which are skipped where there is none
#
#   PYTHON=/path/to/python3   the interpreter to build the environment with (3.11 to 3.13)
#   VENV=.venv                where the environment goes
#   SRM_CACHE=~/.cache/srm-kafka   where Kafka's jars and built wheels are kept for all clones
#   SRM_CHROMIUM=/path/to/chrome   the browser for the tests, instead of one on the PATH
#   SRM_SETUP_KAFKA=0         leaves Kafka's jars to be fetched when they are first used
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=${VENV:-.venv}
CACHE=${SRM_CACHE:-$HOME/.cache/srm-kafka}
STAMP=$VENV/.setup-stamp
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore PIP_RETRIES=8
export PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-120}

say() { printf '%s\n' "setup: $*" >&2; }
fail() { printf '%s\n' "setup: $*" >&2; exit 1; }

# Runs a command up to five times: downloads fail now and then.
retry() {
    local wait
    for wait in 3 10 20 40; do
        "$@" && return 0
        say "failed, once more in $wait s: $1 ${2:-}"
        sleep "$wait"
    done
    "$@"
}

python_fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

can_make_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    local name path
    for name in ${PYTHON:-} python3 python3.12 python3.11 python3.13; do
        path=$(command -v "$name" 2>/dev/null) || continue
        if python_fits "$path" && can_make_environments "$path"; then
            printf '%s\n' "$path"
            return 0
        fi
    done
    return 1
}

java_binary() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        printf '%s\n' "$JAVA_HOME/bin/java"
    else
        command -v java
    fi
}

# Starting a JVM takes a while: the answer is remembered for the very same binary (path, size, time).
java_fits() {
    local binary version mark
    binary=$(java_binary) || return 1
    mark="$(readlink -f "$binary") $(stat -L -c '%s %Y' "$binary")"
    if [ -f "$VENV/.java-stamp" ] && [ "$(cat "$VENV/.java-stamp")" = "$mark" ]; then
        return 0
    fi
    version=$("$binary" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] && [ "$version" -ge 17 ] || return 1
    if [ -d "$VENV" ]; then printf '%s' "$mark" > "$VENV/.java-stamp"; fi
}

# The newest package of a list that this Debian has.
available() {
    local name
    for name in "$@"; do
        if [ -n "$(apt-cache policy "$name" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p')" ]; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    printf '%s\n' "$1"
}

install_missing() {
    local missing=("$@") packages=() what
    if ! command -v apt-get > /dev/null; then
        printf 'setup: missing: %s\n' "${missing[*]}" >&2
        printf '  %s\n' "Fedora, RHEL:  sudo dnf install python3.12 java-17-openjdk-headless" \
            "macOS:         brew install python@3.12 openjdk@17" \
            "other:         Python 3.11 to 3.13 with venv, Java 17 or newer, on the PATH" >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        printf 'setup: missing: %s; install with\n' "${missing[*]}" >&2
        for what in "${missing[@]}"; do
            case $what in
                python) printf '  sudo apt-get install -y python3 python3-venv\n' >&2 ;;
                java) printf '  sudo apt-get install -y openjdk-17-jre-headless   # or newer\n' >&2 ;;
            esac
        done
        exit 1
    fi
    say "installing what this machine lacks: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    retry apt-get update -q
    for what in "${missing[@]}"; do
        case $what in
            python) packages+=(python3 python3-venv) ;;
            java) packages+=("$(available openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless)" ca-certificates) ;;
        esac
    done
    retry apt-get install -y -q --no-install-recommends "${packages[@]}"
}

wanted_stamp() {
    { cat pyproject.toml constraints.txt scripts/setup.sh; pwd; "$1" -c 'import sys; print(sys.version)'; } | sha256sum
}

environment_is_current() {
    [ -x "$VENV/bin/python" ] && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(wanted_stamp "$VENV/bin/python")" ]
}

# pyspark is published as source only (about 450 MB); its wheel is built once and kept for every clone.
spark_wheel() {
    local pin version
    pin=$(grep '^pyspark==' constraints.txt)
    version=${pin#pyspark==}
    if ! ls "$CACHE/wheels/pyspark-$version-"*.whl > /dev/null 2>&1; then
        say "downloading and building $pin, once (about 450 MB)"
        mkdir -p "$CACHE/wheels"
        local scratch
        scratch=$(mktemp -d "$CACHE/wheels/.building.XXXXXX")
        if ! retry "$VENV/bin/python" -m pip wheel -q --no-deps --use-pep517 -w "$scratch" "$pin"; then
            rm -rf "$scratch"
            fail "$pin could not be downloaded or built; the lines above say why"
        fi
        mv "$scratch"/pyspark-*.whl "$CACHE/wheels/"
        rm -rf "$scratch"
    fi
}

make_environment() {
    local python
    if [ -x "$VENV/bin/python" ] && python_fits "$VENV/bin/python"; then
        say "bringing $VENV up to date"
    else
        python=$(find_python)
        say "creating $VENV with $("$python" --version)"
        rm -rf "$VENV"
        "$python" -m venv "$VENV"
    fi
    rm -f "$STAMP"
    spark_wheel
    retry "$VENV/bin/python" -m pip install -q --use-pep517 --find-links "$CACHE/wheels" -c constraints.txt -e '.[dev]'
    # pyspark and pyspark-client share a folder: an upgrade of one may have removed files of the other.
    if ! "$VENV/bin/python" -m srm_common.testing check-spark; then
        retry "$VENV/bin/python" -m pip install -q --use-pep517 --find-links "$CACHE/wheels" -c constraints.txt \
            --force-reinstall --no-deps pyspark-client pyspark
        "$VENV/bin/python" -m srm_common.testing check-spark
    fi
    wanted_stamp "$VENV/bin/python" > "$STAMP"
}

have_browser() {
    if [ -n "${SRM_CHROMIUM:-}" ]; then [ -x "$SRM_CHROMIUM" ]; return; fi
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" > /dev/null && return 0
    done
    return 1
}

# Everything else works without a browser, so whoever has none is told and goes on. Inter is what Airflow's pages use.
browser_for_tests() {
    if have_browser; then return 0; fi
    if [ -n "${SRM_CHROMIUM:-}" ]; then
        say "SRM_CHROMIUM is $SRM_CHROMIUM, and no program; the browser tests will be skipped"
    elif ! command -v apt-get > /dev/null; then
        say "no Chromium; install it or set SRM_CHROMIUM=/path/to/chrome, or the browser tests are skipped"
        say "  Fedora: sudo dnf install chromium   macOS: brew install --cask chromium"
    elif [ "$(id -u)" != 0 ]; then
        say "no Chromium; the browser tests are skipped without it. Install it with"
        say "  sudo apt-get install -y --no-install-recommends chromium fonts-inter"
    else
        say "installing Chromium for the browser tests"
        export DEBIAN_FRONTEND=noninteractive
        { retry apt-get update -q && retry apt-get install -y -q --no-install-recommends chromium fonts-inter; } ||
            say "Chromium could not be installed; the lines above say why, and the browser tests will be skipped"
    fi
}

if [ "${1:-}" = --check ]; then
    environment_is_current && java_fits
    exit
fi
if [ "${1:-}" = --tests ]; then browser_for_tests; fi

missing=()
{ [ -x "$VENV/bin/python" ] && python_fits "$VENV/bin/python"; } || find_python > /dev/null || missing+=(python)
java_fits || missing+=(java)
if [ ${#missing[@]} -gt 0 ]; then
    install_missing "${missing[@]}"
    find_python > /dev/null || fail "still no Python 3.11 to 3.13 with venv; set PYTHON=/path/to/one"
    java_fits || fail "still no Java 17 or newer; set JAVA_HOME to one"
fi

environment_is_current || make_environment
java_fits

if [ "${SRM_SETUP_KAFKA:-1}" != 0 ]; then
    # The marker is checked here without starting Python; what it lists is checked when the jars are used.
    version=${SRM_KAFKA_VERSION:-$(sed -n 's/^DEFAULT_KAFKA_VERSION = .*"\([0-9.]*\)".*/\1/p' srm_common/testing/artifacts.py)}
    for kind in kafka mirror-maker tools tiered; do
        if [ ! -f "$CACHE/$kind/$version/.complete.json" ]; then
            say "fetching $kind $version, once"
            "$VENV/bin/python" -m srm_common.testing fetch "$kind" > /dev/null
        fi
    done
    # Brokers start quicker with it, and as well without it.
    if ! compgen -G "$CACHE/kafka/$version-*.jsa" > /dev/null; then
        say "keeping the classes of Kafka $version as Java has them in memory, once"
        "$VENV/bin/python" -m srm_common.testing archive > /dev/null || say "it goes on without them"
    fi
fi
