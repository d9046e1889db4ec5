#!/usr/bin/env bash
# Runs lint and test rings, all of those named, and ends with one line for each; fails when any of them failed. A +
# begins a lane, which runs beside the others: rings wait for sessions, elections and schedulers for a good part of their
# time. Those that only compute take what the others leave of the processors when they run beside them.
#
#   scripts/test.sh faults kafka unit + browser airflow spark worlds lint store simulation
#   scripts/test.sh kafka -- -k heartbeat        everything after -- goes to pytest
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

COMPUTING=" lint unit simulation "
RINGS="lint unit simulation smoke store kafka spark airflow browser faults worlds soak"
# Those that this process may use; macOS has no nproc.
CORES=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
BIN=${VENV:-.venv}/bin
# macOS has bash 3.2, for which an empty array is not set: hence ${rings[@]+...} below.
rings=()
# Each the names of its rings.
lanes=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    if [ "$1" = + ]; then
        lanes+=("")
    elif [[ " $RINGS " != *" $1 "* ]]; then
        echo "there is no ring '$1'; rings: $RINGS" >&2
        exit 2
    elif [ ${#lanes[@]} -gt 0 ]; then
        lanes[${#lanes[@]} - 1]+="$1 "
    else
        rings+=("$1")
    fi
    shift
done
[ $# -gt 0 ] && shift
read -r -a beside <<<"${lanes[*]-}"
# Java's and the native libraries' helper threads only get in each other's way on small machines.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONUNBUFFERED=1
# Where it is set, each of hundreds of Python processes compiles all that it imports, and pytest rewrites every assertion.
unset PYTHONDONTWRITEBYTECODE

work=$(mktemp -d)
# Process groups of the lanes that run.
groups=()
signal_lanes() { # signal
    local group some=1
    for group in ${groups[@]+"${groups[@]}"}; do kill "$1" -- "-$group" 2>/dev/null && some=0; done
    return "$some"
}
ending() {
    local tenths
    # As Ctrl-C would, so that tests end what they have started; what ignores it is terminated.
    if signal_lanes -INT; then
        for ((tenths = 0; tenths < 300; tenths++)); do
            signal_lanes -0 || break
            sleep 0.1
        done
        signal_lanes -TERM
    fi
    rm -rf "$work"
}
trap ending EXIT
# pytest says by its exit code only that it was interrupted, and the next ring would begin.
trap 'exit 130' INT
trap 'exit 143' TERM

# CPU-seconds of this shell's children that have ended: the second line of times, such as 3m12.345s 0m9.876s. What a test
# leaves to the system when it ends, such as a killed process's own children, is not seen.
children_cpu() { # name
    local LC_ALL=C
    times >"$work/$1.times"
    awk 'NR == 2 { for (n = 1; n <= 2; n++) { split($n, at, "m"); sum += at[1] * 60 + at[2] }; printf "%.0f\n", sum }' \
        "$work/$1.times"
}

# Before the commands of a ring, such as nice.
before=()
# Runs a command, and keeps what it printed, its exit code, its seconds, and its CPU-seconds.
step() { # name, command...
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s: %s\n' "$name" "${*#"$BIN/"}"
    (
        ${before[@]+"${before[@]}"} "$@" 2>&1
        printf '%s %s ' "$?" "$((SECONDS - start))" >"$work/$name.new"
        children_cpu "$name" >>"$work/$name.new"
        mv "$work/$name.new" "$work/$name.end"
    ) | tee "$work/$name.out"
}

pytest() { # name, pytest arguments...
    local name=$1
    shift
    step "$name" "$BIN/python" -m pytest "$@"
}

ring() { # name, pytest arguments...
    local name=$1
    shift
    case $name in
        lint)
            step ruff "$BIN/ruff" check .
            step format "$BIN/ruff" format --check .
            step mypy "$BIN/mypy"
            step imports "$BIN/lint-imports" --no-logo
            step dependencies "$BIN/python" scripts/dependencies.py
            ;;
        # By work stealing each process keeps to files of its own, and to what their fixtures made, until others are done.
        # Two for each of two cores: some tests wait for clusters that are gone.
        unit)
            local quick=()
            [ "${HYPOTHESIS_PROFILE:-}" = quick ] && quick=(--quick)
            pytest unit tests/unit -n "${TEST_PROCESSES:-4}" --dist worksteal -q ${quick[@]+"${quick[@]}"} "$@"
            ;;
        # Computes only. Each test is a process of its own that plays a block of seeds; SIMULATION_SEEDS=n plays the first n.
        simulation) pytest simulation tests/simulation -n "${TEST_PROCESSES:-$CORES}" --dist worksteal -q "$@" ;;
        # One whole run between two brokers.
        smoke) pytest smoke tests/kafka/runs/test_replicate.py -k what_came_since -n 0 -q "$@" ;;
        store) pytest store tests/store -q --durations=5 "$@" ;;
        # A file's tests share what its fixtures started. Files, or worlds, are handed out in the order of the ring's
        # conftest.py. Tests wait for what they have started: a process for each core would leave cores idle.
        spark) pytest spark tests/spark -n "${TEST_PROCESSES:-$((CORES + 1))}" --dist loadfile -q --durations=10 "$@" ;;
        faults | kafka | airflow)
            # Those of kafka wait the most, for sessions, tickets and tokens to end.
            local more=1
            [ "$name" = kafka ] && more=2
            pytest "$name" "tests/$name" -n "${TEST_PROCESSES:-$((CORES + more))}" --dist loadfile --no-loadscope-reorder -q \
                --durations=10 "$@"
            ;;
        # Beside another ring.
        worlds)
            pytest worlds tests/worlds -n "${TEST_PROCESSES:-2}" --dist loadfile --no-loadscope-reorder -q --durations=10 "$@"
            ;;
        # One Airflow, two clusters and one browser for all of them, in one process.
        browser) pytest browser tests/browser -q --durations=10 "$@" ;;
        soak) pytest soak tests -m soak -q --durations=20 "$@" ;;
    esac
}

# What rings of the other lanes printed that have ended.
show() {
    local name
    for name in ${beside[@]+"${beside[@]}"}; do
        if [ -f "$work/$name.done" ]; then cat "$work/$name.done" && rm "$work/$name.done"; fi
    done
}

# In process groups of their own, which can be ended.
set -m
for lane in ${lanes[@]+"${lanes[@]}"}; do
    printf '\n== beside what follows: %s\n' "$lane"
    {
        for name in $lane; do
            before=()
            [[ "$COMPUTING" = *" $name "* ]] && before=(nice -n 19)
            ring "$name" "$@" >"$work/$name.running"
            mv "$work/$name.running" "$work/$name.done"
        done
    } &
    groups+=($!)
done
set +m
for name in ${rings[@]+"${rings[@]}"}; do
    ring "$name" "$@"
    show
done
for group in ${groups[@]+"${groups[@]}"}; do wait "$group"; done
groups=()
show

failed=0
summary=()
skipped=()
for name in ${rings[@]+"${rings[@]}"} ${beside[@]+"${beside[@]}"}; do
    steps=("$name")
    [ "$name" = lint ] && steps=(ruff format mypy imports dependencies)
    for name in "${steps[@]}"; do
        verdict=ok code=1 seconds=0 cpu=0
        [ -f "$work/$name.end" ] && read -r code seconds cpu <"$work/$name.end"
        if [ "$code" != 0 ]; then verdict=FAILED failed=1; fi
        while IFS= read -r line; do skipped+=("$(printf '%-10s %s' "$name" "${line#SKIPPED }")"); done < <(grep '^SKIPPED ' "$work/$name.out")
        text=$(grep -E '[0-9]+ (passed|failed|error|skipped|deselected)|no tests ran' "$work/$name.out" | tail -n 1 | tr -d '=')
        summary+=("$(printf '%-10s %-7s %5ds %6ss CPU  %s' "$name" "$verdict" "$seconds" "$cpu" "$text")")
    done
done
printf '\n%s\n' "== summary"
printf '%s\n' "${summary[@]}"
if [ ${#skipped[@]} -gt 0 ]; then
    printf '\n%s\n' "== not run, and what would make them run"
    printf '%s\n' "${skipped[@]}"
fi
exit "$failed"
