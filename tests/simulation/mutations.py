"""``make mutations``: how many mutants of the product the simulation notices, and after how many seeds.

python -m tests.simulation.mutations [--seeds 200] [--processes 2] [--only 3]
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
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play is not None:
        return _play(arguments.play, arguments.seeds)
    numbers = arguments.only or range(len(MUTANTS))
    noticed = 0
    with ThreadPoolExecutor(arguments.processes) as pool:
        for number, (code, text) in zip(
            numbers, pool.map(lambda one: _judge(one, arguments.seeds), numbers), strict=True
        ):
            noticed += code == _NOTICED
            print(
                f"{'noticed  ' if code == _NOTICED else 'UNNOTICED'} {number:2d} {MUTANTS[number].name}: {text}",
                flush=True,
            )
    print(f"{noticed} of {len(numbers)} mutants were noticed")
    return int(noticed < len(numbers))


def _judge(number: int, seeds: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.simulation.mutations", "--play", str(number), "--seeds", str(seeds)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, _NOTICED) or not done.stdout.strip():
        raise SystemExit(f"mutant {number} could not be played: {done.stdout}{done.stderr}")
    return done.returncode, done.stdout.strip().splitlines()[-1]


def _play(number: int, seeds: int) -> int:
    become(number)
    # Only now, so that the product is the mutant.
    from tests.simulation.scenario import Scenario

    for seed in range(seeds):
        outcome = Scenario(seed).play()
        if outcome.wrong is not None:
            print(f"seed {seed}, {outcome.wrong[:150]}")
            return _NOTICED
    print(f"{seeds} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
