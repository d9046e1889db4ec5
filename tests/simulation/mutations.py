"""``make mutations``: how many mutants of the product are noticed, by what, and after how many seeds.

python -m tests.simulation.mutations [--seeds 200] [--processes 2] [--only 3] [--plans]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.simulation.mutants import MUTANTS, become

_NOTICED = 1


def main() -> int:
    """The exit code: 1 where a mutant went unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many each mutant plays at most")
    parser.add_argument("--processes", type=int, default=1, help="mutants side by side")
    parser.add_argument("--only", type=int, action="append", help="the number of a mutant; may be given again")
    parser.add_argument("--plans", action="store_true", help="print the shortest plan that a mutant was noticed by")
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--test", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play is not None:
        return _play(arguments.play, arguments.seeds, shrink=arguments.plans)
    if arguments.test is not None:
        return _test(arguments.test)
    numbers = arguments.only or range(len(MUTANTS))
    noticed = 0
    with ThreadPoolExecutor(arguments.processes) as pool:
        judged = pool.map(lambda one: _judge(one, arguments.seeds, plans=arguments.plans), numbers)
        for number, (code, text) in zip(numbers, judged, strict=True):
            noticed += code == _NOTICED
            print(
                f"{'noticed  ' if code == _NOTICED else 'UNNOTICED'} {number:2d} {MUTANTS[number].name}: {text}",
                flush=True,
            )
    print(f"{noticed} of {len(numbers)} mutants were noticed")
    return int(noticed < len(numbers))


def _judge(number: int, seeds: int, *, plans: bool) -> tuple[int, str]:
    """The exit code and the last words of the process that was the mutant."""
    command = [sys.executable, "-m", "tests.simulation.mutations", "--seeds", str(seeds)]
    command += ["--test" if MUTANTS[number].test else "--play", str(number), *(["--plans"] if plans else [])]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, _NOTICED) or not done.stdout.strip():
        raise SystemExit(f"mutant {number} could not be played: {done.stdout}{done.stderr}")
    return done.returncode, done.stdout.strip().splitlines()[-1]


def _play(number: int, seeds: int, *, shrink: bool) -> int:
    mutant = become(number)
    # Only now, so that the product is the mutant.
    from tests.simulation.plans import PLANS
    from tests.simulation.scenario import Scenario
    from tests.simulation.shrinking import shrunk

    for plan in PLANS:
        if plan.without == mutant.name:
            outcome = Scenario(plan.seed, plan.faults).play()
            if outcome.wrong is not None:
                print(f"its plan, {outcome.wrong[:150]}")
                return _NOTICED
    for seed in range(seeds):
        outcome = Scenario(seed).play()
        if outcome.wrong is None:
            continue
        if shrink:
            least = shrunk(outcome)
            print(f"Plan({seed}, {least.faults}, {least.wrong!r}, {mutant.name!r})")
        else:
            print(f"seed {seed}, {outcome.wrong[:150]}")
        return _NOTICED
    print(f"{seeds} seeds")
    return 0


def _test(number: int) -> int:
    """Run the test that is to fail; exit codes as those of pytest."""
    test = become(number).test or ""
    import pytest

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--tb=no", "--no-header", test]))


if __name__ == "__main__":
    sys.exit(main())
