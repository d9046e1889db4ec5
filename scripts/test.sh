#!/usr/bin/env bash
# Runs lint and test rings, all of those named, and ends with one line for each; fails when any of them failed.
#
#   scripts/test.sh lint unit store kafka spark airflow browser faults worlds
#   scripts/test.sh kafka -- -k heartbeat        everything after -- goes to pytest
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BIN=${VENV:-.venv}/bin
rings=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do rings+=("$1"); shift; done
[ $# -gt 0 ] && shift
# Java's and the native libraries' helper threads only get in each other's way on small machines.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONUNBUFFERED=1
# Where it is set, each of hundreds of Python processes compiles all that it imports, and pytest rewrites every assertion.
unset PYTHONDONTWRITEBYTECODE

summary=()
skipped=()
failed=0
beside=()
work=$(mktemp -d)
ending() {
    local one pid
    for one in "${beside[@]}"; do IFS=: read -r _ pid _ <<<"$one"; kill "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap ending EXIT

note() { # name, exit code, start; its CPU-seconds, and what it printed, are in the files of its name
    local verdict=ok cpu text= line
    if [ "$2" != 0 ]; then verdict=FAILED; failed=1; fi
    read -r cpu <"$work/$1.cpu"
    if [ -f "$work/$1.out" ]; then
        while IFS= read -r line; do skipped+=("$(printf '%-8s %s' "$1" "${line#SKIPPED }")"); done < <(grep '^SKIPPED ' "$work/$1.out")
        text=$(grep -E '[0-9]+ (passed|failed|error|skipped|deselected)|no tests ran' "$work/$1.out" | tail -n 1 | tr -d '=')
    fi
    summary+=("$(printf '%-8s %-7s %5ds %6ss CPU  %s' "$1" "$verdict" "$((SECONDS - $3))" "$cpu" "$text")")
}

# Runs a command and keeps its CPU-seconds, with those of all that it waited for; to be called in a subshell, which has
# no other children. What a test leaves to the system when it ends, such as a killed process's own children, is not seen.
measured() { # name, command...
    local name=$1 code
    shift
    "$@"
    code=$?
    children_cpu >"$work/$name.cpu"
    return "$code"
}

# CPU-seconds of this shell's children that have ended: the second line of times, such as 3m12.345s 0m9.876s.
children_cpu() {
    local LC_ALL=C
    times >"$work/times.$BASHPID"
    awk 'NR == 2 { for (n = 1; n <= 2; n++) { split($n, at, "m"); sum += at[1] * 60 + at[2] }; printf "%.0f\n", sum }' \
        "$work/times.$BASHPID"
}

step() { # name, command...
    local name=$1 start=$SECONDS code
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    (measured "$name" "$@")
    code=$?
    note "$name" "$code" "$start"
}

# What uses one core only runs while other tests do: joined shows what it printed, and tells how it ended.
step_beside() { # name, command...
    local name=$1
    shift
    printf '\n== %s, beside what follows: %s\n' "$name" "$*"
    (
        "$@" >"$work/$name.out" 2>&1 &
        trap 'kill $!' TERM
        wait $!
        echo "$? $SECONDS" >"$work/$name.end"
        children_cpu >"$work/$name.cpu"
    ) &
    beside+=("$name:$!:$SECONDS")
}

ring_beside() { # name, pytest arguments...
    local name=$1
    shift
    step_beside "$name" "$BIN/python" -m pytest "$@"
}

joined() {
    local one name pid start code end
    for one in "${beside[@]}"; do
        IFS=: read -r name pid start <<<"$one"
        wait "$pid"
        read -r code end <"$work/$name.end"
        printf '\n== %s\n' "$name"
        cat "$work/$name.out"
        note "$name" "$code" "$((SECONDS - end + start))"
    done
    beside=()
}

ring() { # name, pytest arguments...
    local name=$1 start=$SECONDS code
    shift
    printf '\n== %s: pytest %s\n' "$name" "$*"
    measured "$name" "$BIN/python" -m pytest "$@" 2>&1 | tee "$work/$name.out"
    code=${PIPESTATUS[0]}
    note "$name" "$code" "$start"
}

for name in "${rings[@]}"; do
    case $name in
        lint)
            step ruff "$BIN/ruff" check .
            step format "$BIN/ruff" format --check .
            if [[ " ${rings[*]} " == *" unit "* ]]; then how=step_beside; else how=step; fi
            $how mypy "$BIN/mypy"
            $how imports "$BIN/lint-imports" --no-logo
            ;;
        # By work stealing each process keeps to files of its own, and to what their fixtures made, until the other is done.
        unit)
            ring unit tests/unit -n "${TEST_PROCESSES:-3}" --dist worksteal -q "$@"
            joined
            ;;
        # One whole run between two brokers.
        smoke) ring smoke tests/kafka/runs/test_replicate.py -k what_came_since -n 0 -q "$@" ;;
        # A file's tests share what its fixtures started. Files are handed out in the order of tests/kafka/conftest.py.
        kafka)
            ring "$name" tests/kafka -n "${TEST_PROCESSES:-3}" --dist loadfile --no-loadscope-reorder -q --durations=10 "$@"
            ;;
        spark) ring spark tests/spark -n "${TEST_PROCESSES:-2}" --dist loadfile -q --durations=10 "$@" ;;
        # Two workers leave cores idle: they wait for Airflow's schedulers. Files are handed out in the order of conftest.py.
        airflow)
            ring airflow tests/airflow -n "${TEST_PROCESSES:-3}" --dist loadfile --no-loadscope-reorder -q --durations=10 "$@"
            ;;
        # Files, or worlds, are handed out in the order of the ring's conftest.py.
        faults | worlds)
            ring "$name" "tests/$name" -n "${TEST_PROCESSES:-2}" --dist loadfile --no-loadscope-reorder -q --durations=10 "$@"
            ;;
        store) ring store tests/store -q --durations=5 "$@" ;;
        # One Airflow, two clusters and one browser for all of them, in one process: 190 CPU-seconds. The ring
        # faults leaves it about as much: it waits for sessions to expire and for elections.
        browser)
            if [[ " ${rings[*]} " == *" browser "*"faults "* ]]; then how=ring_beside; else how=ring; fi
            $how browser tests/browser -q --durations=10 "$@"
            ;;
        soak) ring soak tests -m soak -q --durations=20 "$@" ;;
        *)
            echo "there is no ring '$name'; rings: lint unit smoke store kafka spark airflow browser faults worlds soak" >&2
            exit 2
            ;;
    esac
done

joined
printf '\n%s\n' "== summary"
printf '%s\n' "${summary[@]}"
if [ ${#skipped[@]} -gt 0 ]; then
    printf '\n%s\n' "== not run, and what would make them run"
    printf '%s\n' "${skipped[@]}"
fi
exit "$failed"
