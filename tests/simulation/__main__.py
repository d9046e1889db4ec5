"""``python -m tests.simulation --seeds 0:100``: play seeds, and print those that go wrong."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path

from tests import reports
from tests.simulation.plans import PLANS
from tests.simulation.playing import plan_of, play
from tests.simulation.scenario import Outcome, Scenario
from tests.simulation.seeds import Seed, read
from tests.simulation.shrinking import shrunk

#: Sets of strings are gone through in the same order by every process that has it.
_HASHES = "PYTHONHASHSEED"
#: Where hours say when it ends.
_ENDLESS = 1 << 40


def main() -> int:
    """The exit code: 1 when a seed went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="the first (inclusive) and the last (exclusive): 0:100")
    parser.add_argument("--hours", type=float, help="seed after seed from the first on, for so long")
    parser.add_argument("--processes", type=int, default=1, help="how many play at a time")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="add a line of JSON for each seed; go on where it ends"
    )
    parser.add_argument("--shrink", type=int, metavar="SEED", help="leave out faults while the seed still goes wrong")
    parser.add_argument("--follow", type=int, metavar="SEED", help="play one seed and print what happens")
    parser.add_argument("--plans", action="store_true", help="play the plans of plans.py")
    parser.add_argument("--verbose", action="store_true", help="print the seeds that go well, too")
    arguments = parser.parse_args()
    if os.environ.get(_HASHES) != "0":
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], {**os.environ, _HASHES: "0"}
        )
    if arguments.shrink is not None:
        return _shrink(arguments.shrink)
    if arguments.follow is not None:
        return _follow(arguments.follow)
    if arguments.plans:
        return _play_plans(verbose=arguments.verbose)
    seeds = _range(arguments.seeds)
    if arguments.hours:
        seeds = range(seeds.start, _ENDLESS)
    return _play(seeds, arguments.hours, arguments.processes, arguments.report, verbose=arguments.verbose)


def _range(text: str) -> range:
    first, end = map(int, text.split(":"))
    return range(first, end)


def _play(seeds: range, hours: float | None, processes: int, report: Path | None, *, verbose: bool) -> int:
    commit = reports.commit() if report is not None else ""
    if report is not None and report.exists():
        seeds = _rest(seeds, read(report), commit)
    began = time.monotonic()
    played = records = wrong = 0
    virtual = 0.0
    try:
        for seed in play(seeds, hours, processes, commit):
            played, records, virtual = played + 1, records + seed.records, virtual + seed.seconds
            wrong += seed.wrong is not None
            if report is not None:
                reports.append(report, seed)
            if seed.wrong is not None or verbose:
                print(_line(seed), flush=True)
            if seed.plan is not None:
                print(f"keep this in tests/simulation/plans.py: {seed.plan}", flush=True)
    except KeyboardInterrupt:
        print("ended early")
    print(
        f"{played} seeds, {records} records, {wrong} wrong, {time.monotonic() - began:.0f} s "
        f"({virtual / 3600:.1f} virtual hours)"
    )
    return min(wrong, 1)


def _rest(seeds: range, played: list[Seed], commit: str) -> range:
    """Go on where a report of this commit ends: behind the seeds that it has without a gap."""
    known = {one.seed for one in played if one.commit == commit}
    first = next((seed for seed in seeds if seed not in known), seeds.stop)
    return range(first, seeds.stop)


def _play_plans(*, verbose: bool) -> int:
    wrong = 0
    for plan in PLANS:
        outcome = Scenario(plan.seed, plan.faults).play()
        wrong += outcome.wrong is not None
        if outcome.wrong is not None or verbose:
            print(_outcome(outcome), flush=True)
    print(f"{len(PLANS)} plans, {wrong} wrong")
    return min(wrong, 1)


def _line(one: Seed) -> str:
    what = one.wrong or f"{one.records} records in {one.runs} runs"
    return f"seed {one.seed} ({one.digest}): {what} [{', '.join(one.faults)}]"


def _outcome(outcome: Outcome) -> str:
    faults = ", ".join(f"{fault.number} {fault.kind}" for fault in outcome.faults)
    what = outcome.wrong or f"{outcome.records} records in {outcome.runs} runs"
    return f"seed {outcome.seed} ({outcome.digest}): {what} [{faults}]"


def _follow(seed: int) -> int:
    scenario = Scenario(seed)

    class Printer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print(f"{scenario.seconds:9.3f} {record.getMessage()}")

    for name in ("srm_common", "tests.simulation"):
        logging.getLogger(name).addHandler(Printer())
        logging.getLogger(name).setLevel(logging.INFO)
    outcome = scenario.play()
    print(_outcome(outcome))
    return int(outcome.wrong is not None)


def _shrink(seed: int) -> int:
    """Leave out one fault after the other, as long as it goes wrong all the same."""
    outcome = Scenario(seed).play()
    if outcome.wrong is None:
        print(f"seed {seed} goes well")
        return 0
    outcome = shrunk(outcome)
    print(_outcome(outcome))
    print(plan_of(outcome))
    return 1


if __name__ == "__main__":
    sys.exit(main())
