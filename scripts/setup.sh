#!/usr/bin/env bash
# Makes this clone ready: Python environment in .venv with the exact versions of constraints.txt, Java, Kafka's jars.
#
# Does nothing, in well under two seconds, when nothing has changed since the last time. What the machine lacks is
# named with the command that installs it; as root on Debian or Ubuntu it is installed.
#
#   scripts/setup.sh --check  changes nothing; exit code 1 when there is something to do
#   scripts/setup.sh --tests  what only tests need, too: Chromium, a PostgreSQL server, Prometheus, a Java compiler, a
#                             Kerberos KDC and Docker Compose. No service is started, and tests are skipped where one is missing
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

# Spark's scripts take JAVA_HOME without looking whether there is a Java.
java_binary() {
    if [ -n "${JAVA_HOME:-}" ]; then
        printf '%s\n' "$JAVA_HOME/bin/java"
    else
        command -v java
    fi
}

# Starting a JVM takes a while: the answer is remembered for the very same binary (path, size, time).
java_fits() {
    local binary version mark
    binary=$(java_binary) && [ -x "$binary" ] || return 1
    # Other options on macOS.
    mark="$(readlink -f "$binary") $(stat -L -c '%s %Y' "$binary" 2> /dev/null || stat -L -f '%z %m' "$binary")"
    if [ -f "$VENV/.java-stamp" ] && [ "$(cat "$VENV/.java-stamp")" = "$mark" ]; then
        return 0
    fi
    version=$("$binary" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] && [ "$version" -ge 17 ] || return 1
    if [ -d "$VENV" ]; then printf '%s' "$mark" > "$VENV/.java-stamp"; fi
}

# The version of a package that this Debian has; empty without one.
candidate() { apt-cache policy "$1" 2> /dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'; }

# The first package of a list that this Debian has, else the first.
available() {
    local name
    for name in "$@"; do
        if [ -n "$(candidate "$name")" ]; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    printf '%s\n' "$1"
}

java_package() { available openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; }

# python3 may be older or newer than what fits, with another version beside it. A machine without lists of packages knows
# of none.
python_packages() {
    local name
    case $(candidate python3) in
        '' | 3.11.* | 3.12.* | 3.13.*) name=python3 ;;
        *) name=$(available none python3.12 python3.13 python3.11) ;;
    esac
    [ "$name" != none ] && echo "$name $name-venv"
}
NO_PYTHON="this system has no package of Python 3.11 to 3.13; install one otherwise, and set PYTHON=/path/to/python3"

install_missing() {
    local missing=("$@") packages=() what names
    if ! command -v apt-get > /dev/null; then
        printf 'setup: missing: %s\n' "${missing[*]}" >&2
        printf '  %s\n' "Fedora, RHEL:  sudo dnf install python3.12 java-21-openjdk-headless" \
            "macOS:         brew install python@3.12 openjdk@17" \
            '               export JAVA_HOME="$(brew --prefix openjdk@17)/libexec/openjdk.jdk/Contents/Home"' \
            "other:         Python 3.11 to 3.13 with venv, Java 17 or newer, on the PATH" >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        printf 'setup: missing: %s; install with\n' "${missing[*]}" >&2
        for what in "${missing[@]}"; do
            case $what in
                python)
                    if names=$(python_packages); then
                        printf '  sudo apt-get install -y %s\n' "$names" >&2
                    else
                        printf '  %s\n' "$NO_PYTHON" >&2
                    fi
                    ;;
                java) printf '  sudo apt-get install -y %s\n' "$(java_package)" >&2 ;;
            esac
        done
        exit 1
    fi
    say "installing what this machine lacks: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    retry apt-get update -q
    for what in "${missing[@]}"; do
        case $what in
            python)
                names=$(python_packages) || fail "$NO_PYTHON"
                # shellcheck disable=SC2206
                packages+=($names)
                ;;
            java) packages+=("$(java_package)" ca-certificates) ;;
        esac
    done
    retry apt-get install -y -q --no-install-recommends "${packages[@]}"
}

# macOS had no sha256sum for long.
checksum() { sha256sum 2> /dev/null || shasum -a 256; }

wanted_stamp() {
    { cat pyproject.toml srm_common/__init__.py constraints.txt scripts/setup.sh; pwd; "$1" -c 'import sys; print(sys.version)'; } | checksum
}

environment_is_current() {
    [ -x "$VENV/bin/python" ] && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(wanted_stamp "$VENV/bin/python")" ]
}

# Without pip it does not: its making was cut off, or the Python beneath it was replaced by another minor version.
environment_works() {
    [ -x "$VENV/bin/python" ] && python_fits "$VENV/bin/python" && "$VENV/bin/python" -m pip --version > /dev/null 2>&1
}

# pyspark is published as source only (about 450 MB); its wheel is built once and kept for every clone.
spark_wheel() {
    local pin version
    pin=$(grep '^pyspark==' constraints.txt)
    version=${pin#pyspark==}
    if ! ls "$CACHE/wheels/pyspark-$version-"*.whl > /dev/null 2>&1; then
        say "downloading and building $pin, once (about 450 MB)"
        { mkdir -p "$CACHE/wheels" && [ -w "$CACHE/wheels" ]; } ||
            fail "$CACHE, where downloads are kept for all clones, cannot be written to; set SRM_CACHE to another folder"
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
    if environment_works; then
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

# shellcheck source=scripts/test_tools.sh
. scripts/test_tools.sh

if [ "${1:-}" = --check ]; then
    environment_is_current && java_fits
    exit
fi
# The distribution's packages come while the Python environment is made; what was said of them is printed when they are
# there. Nothing cuts their installation off.
tools=
tools_said=
tools_are_there() {
    [ -n "$tools" ] || return 0
    wait "$tools" || true
    tools=
    cat "$tools_said" >&2
    rm -f "$tools_said"
}
trap tools_are_there EXIT
if [ "${1:-}" = --tests ]; then
    tools_said=$(mktemp)
    tests_tools > "$tools_said" 2>&1 &
    tools=$!
fi

if [ -n "${JAVA_HOME:-}" ] && [ ! -x "$JAVA_HOME/bin/java" ]; then
    fail "JAVA_HOME is $JAVA_HOME, where there is no bin/java; correct or unset it"
fi
missing=()
environment_is_current || environment_works || find_python > /dev/null || missing+=(python)
java_fits || missing+=(java)
if [ ${#missing[@]} -gt 0 ]; then
    # One installation at a time.
    tools_are_there
    install_missing "${missing[@]}"
    find_python > /dev/null || fail "still no Python 3.11 to 3.13 with venv; set PYTHON=/path/to/one"
    java_fits || fail "still no Java 17 or newer; set JAVA_HOME to one"
fi

environment_is_current || make_environment
java_fits
tools_are_there
if [ "${1:-}" = --tests ] && have_kerberos && ! "$VENV/bin/python" -c 'import gssapi' 2> /dev/null; then
    say "building the Python package gssapi for the tests"
    retry "$VENV/bin/python" -m pip install -q -c constraints.txt gssapi ||
        say "gssapi could not be built; the lines above say why, and tests that need it are skipped"
fi

if [ "${SRM_SETUP_KAFKA:-1}" != 0 ]; then
    # The marker is checked here without starting Python; what it lists is checked when the jars are used.
    version=${SRM_KAFKA_VERSION:-$(sed -n 's/^DEFAULT_KAFKA_VERSION = .*"\([0-9.]*\)".*/\1/p' srm_common/testing/artifacts.py)}
    for kind in kafka mirror-maker tools tiered; do
        if [ ! -f "$CACHE/$kind/$version/.complete.json" ]; then
            say "fetching $kind $version, once"
            "$VENV/bin/python" -m srm_common.testing fetch "$kind" > /dev/null ||
                fail "the jars of $kind $version could not be fetched; the lines above say why. From a mirror they come by" \
                    "SRM_IVY_SETTINGS, through a proxy without login by HTTPS_PROXY (docs/testing.md)"
        fi
    done
    # Brokers start quicker with it, and as well without it. A cache that is shared for reading takes none.
    versions=$version
    # The targets that fault tests kill are of this one.
    if [ "${1:-}" = --tests ]; then versions+=" $(sed -n 's/^KEEPS_ITS_MARKERS = "\([0-9.]*\)".*/\1/p' tests/faults/scenario.py)"; fi
    for version in $versions; do
        if [ -w "$CACHE/kafka" ] && ! compgen -G "$CACHE/kafka/$version-*.jsa" > /dev/null; then
            say "keeping the classes of Kafka $version as Java has them in memory, once"
            "$VENV/bin/python" -m srm_common.testing archive "$version" > /dev/null || say "it goes on without them"
        fi
    done
    # So do Spark's JVMs. Which file that is depends on Java and on this environment.
    archive=$("$VENV/bin/python" -c 'from srm_common.replication.spark.spark_conf import class_archive; print(class_archive())')
    if [ -w "${archive%/*}" ] && [ ! -f "$archive" ]; then
        say "keeping the classes of Spark as Java has them in memory, once"
        "$VENV/bin/srm-control" warmup > /dev/null || say "it goes on without them"
    fi
fi
