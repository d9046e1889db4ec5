"""``python -m tests.simulation --seeds 0:100``: play seeds, and print those that go wrong."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from itertools import count

from tests.simulation.plans import PLANS
from tests.simulation.scenario import Outcome, Scenario
from tests.simulation.shrinking import shrunk

#: Sets of strings are gone through in the same order by every process that has it.
_HASHES = "PYTHONHASHSEED"


def main() -> int:
    """The exit code: 1 when a seed went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="the first (inclusive) and the last (exclusive): 0:100")
    parser.add_argument("--hours", type=float, help="seed after seed from the first on, for so long")
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
    # What was imported stays, and need not be gone through after each seed.
    gc.freeze()
    first, end = map(int, arguments.seeds.split(":"))
    return _play(first, None if arguments.hours else end, arguments.hours, verbose=arguments.verbose)


def _play(first: int, end: int | None, hours: float | None, *, verbose: bool) -> int:
    began = time.monotonic()
    played = records = wrong = 0
    for seed in count(first):
        if seed == end or (hours is not None and time.monotonic() - began > hours * 3600):
            break
        outcome = Scenario(seed).play()
        played, records = played + 1, records + outcome.records
        wrong += outcome.wrong is not None
        if outcome.wrong is not None or verbose:
            print(_line(outcome), flush=True)
    print(f"{played} seeds, {records} records, {wrong} wrong, {time.monotonic() - began:.0f} s")
    return min(wrong, 1)


def _play_plans(*, verbose: bool) -> int:
    wrong = 0
    for plan in PLANS:
        outcome = Scenario(plan.seed, plan.faults).play()
        wrong += outcome.wrong is not None
        if outcome.wrong is not None or verbose:
            print(_line(outcome), flush=True)
    print(f"{len(PLANS)} plans, {wrong} wrong")
    return min(wrong, 1)


def _line(outcome: Outcome) -> str:
    faults = ", ".join(f"{one.number} {one.kind}" for one in outcome.faults)
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
    print(_line(outcome))
    return int(outcome.wrong is not None)


def _shrink(seed: int) -> int:
    """Leave out one fault after the other, as long as it goes wrong all the same."""
    outcome = Scenario(seed).play()
    if outcome.wrong is None:
        print(f"seed {seed} goes well")
        return 0
    outcome = shrunk(outcome)
    print(_line(outcome))
    print(f"Plan({seed}, {outcome.faults}, {outcome.wrong!r})")
    return 1


if __name__ == "__main__":
    sys.exit(main())
