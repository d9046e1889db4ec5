#!/usr/bin/env bash
# Runs lint and test rings, all of those named, and ends with one line for each; fails when any of them failed.
#
#   scripts/test.sh lint unit store kafka spark airflow browser faults       one after another
#   scripts/test.sh lint unit kafka,spark+airflow,faults                     two rows side by side, commas in each
#   scripts/test.sh kafka -- -k heartbeat        everything after -- goes to pytest
#
# Most tests wait more than they compute, so that two rows take little more time than one. What a ring says is then
# shown when it has ended.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BIN=${VENV:-.venv}/bin
rows=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do rows+=("$1"); shift; done
[ $# -gt 0 ] && shift
# Java's and the native libraries' helper threads only get in each other's way on small machines.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONUNBUFFERED=1

scratch=$(mktemp -d)
beside=()
# Whoever ends this script ends what runs beside it.
trap 'for group in ${beside[@]+"${beside[@]}"}; do kill -INT -- "-$group" 2> /dev/null; done; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

note() { # name, exit code, start, text
    local verdict=ok
    if [ "$2" != 0 ]; then verdict=FAILED; touch "$scratch/failed"; fi
    printf '%-8s %-7s %5ds  %s\n' "$1" "$verdict" "$((SECONDS - $3))" "$4" >> "$scratch/summary"
}

step() { # name, command...
    local name=$1 start=$SECONDS code
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@"
    code=$?
    note "$name" "$code" "$start" ""
}

ring() { # name, pytest arguments...
    local name=$1 start=$SECONDS code
    shift
    printf '\n== %s: pytest %s\n' "$name" "$*"
    "$BIN/python" -m pytest "$@" 2>&1 | tee "$scratch/$name"
    code=${PIPESTATUS[0]}
    note "$name" "$code" "$start" "$(grep -E '[0-9]+ (passed|failed|error|skipped|deselected)|no tests ran' "$scratch/$name" | tail -n 1 | tr -d '=')"
}

run() { # name, pytest arguments...
    local name=$1
    shift
    case $name in
        lint)
            step ruff "$BIN/ruff" check .
            step mypy "$BIN/mypy"
            step imports "$BIN/lint-imports" --no-logo
            ;;
        unit) ring unit tests/unit -n "${TEST_PROCESSES:-2}" -q "$@" ;;
        # These wait for brokers and schedulers most of the time; a file's tests share what its fixtures started.
        kafka) ring "$name" tests/kafka -n "${TEST_PROCESSES:-3}" --dist loadfile -q --durations=10 "$@" ;;
        spark | airflow | faults)
            ring "$name" "tests/$name" -n "${TEST_PROCESSES:-2}" --dist loadfile -q --durations=10 "$@"
            ;;
        store) ring store tests/store -q --durations=5 "$@" ;;
        # One Airflow, two clusters and one browser for all of them.
        browser) ring browser tests/browser -q --durations=10 "$@" ;;
        soak) ring soak tests -m soak -q --durations=20 "$@" ;;
    esac
}

row() { # names with commas, pytest arguments...
    local names name
    IFS=, read -ra names <<< "$1"
    shift
    for name in "${names[@]}"; do run "$name" "$@"; done
}

quiet_row() { # the same; what a ring says comes in one piece
    local names name
    IFS=, read -ra names <<< "$1"
    shift
    for name in "${names[@]}"; do
        printf '== %s begins; tail -f %s shows how far it is\n' "$name" "$scratch/said-$name"
        run "$name" "$@" > "$scratch/said-$name" 2>&1
        cat "$scratch/said-$name"
    done
}

for names in "${rows[@]}"; do
    IFS=,+ read -ra known <<< "$names"
    for name in "${known[@]}"; do
        case $name in
            lint | unit | store | kafka | spark | airflow | browser | faults | soak) ;;
            *)
                echo "there is no ring '$name'; rings: lint unit store kafka spark airflow browser faults soak" >&2
                exit 2
                ;;
        esac
    done
done

for names in "${rows[@]}"; do
    if [[ $names != *+* ]]; then
        row "$names" "$@"
        continue
    fi
    IFS=+ read -ra abreast <<< "$names"
    # Each in a process group of its own, where Ctrl-C means what it means elsewhere.
    set -m
    for names in "${abreast[@]}"; do
        quiet_row "$names" "$@" < /dev/null &
        beside+=($!)
    done
    set +m
    wait "${beside[@]}"
    beside=()
done

printf '\n%s\n' "== summary"
cat "$scratch/summary"
[ ! -e "$scratch/failed" ]
