"""``make mutations``: how many mutants of the product are noticed, by what, and after how many seeds.

python -m tests.simulation.mutations [--seeds 200] [--processes 2] [--only 3] [--plans] [--write]

``--write`` puts the table of all of them into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests import reports
from tests.simulation.mutants import MUTANTS, become
from tests.simulation.mutants.mutant import Mutant

BEGIN = "<!-- mutants: written by python -m tests.simulation.mutations --write -->"
END = "<!-- end of mutants -->"

_NOTICED = 1


@dataclass(frozen=True)
class Judged:
    """A mutant after it was played, or tested. ``text``: the last words of the process that it was."""

    mutant: Mutant
    noticed: bool
    text: str


def main() -> int:
    """The exit code: 1 where a mutant went unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many each mutant plays at most")
    parser.add_argument("--processes", type=int, default=1, help="mutants side by side")
    parser.add_argument("--only", type=int, action="append", help="the number of a mutant; may be given again")
    parser.add_argument("--plans", action="store_true", help="print the shortest plan that a mutant was noticed by")
    parser.add_argument("--write", action="store_true", help="the table in docs/reliability.md; plays all mutants")
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--test", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play is not None:
        return _play(arguments.play, arguments.seeds, shrink=arguments.plans)
    if arguments.test is not None:
        return _test(arguments.test)
    if arguments.write and arguments.only:
        parser.error("--write needs the results of all mutants")
    numbers = arguments.only or range(len(MUTANTS))
    commit = reports.commit() if arguments.write else ""
    results = []
    with ThreadPoolExecutor(arguments.processes) as pool:
        judged = pool.map(lambda one: _judge(one, arguments.seeds, plans=arguments.plans), numbers)
        for number, one in zip(numbers, judged, strict=True):
            results.append(one)
            said = "noticed  " if one.noticed else "UNNOTICED"
            print(f"{said} {number:2d} {one.mutant.name}: {one.text}", flush=True)
    noticed = sum(result.noticed for result in results)
    print(f"{noticed} of {len(results)} mutants were noticed")
    if arguments.write:
        reports.put_between(BEGIN, END, table(results, commit, arguments.seeds))
    return int(noticed < len(results))


def table(results: Sequence[Judged], commit: str, seeds: int) -> str:
    """What the document says of the mutants."""
    noticed = [result for result in results if result.noticed]
    tested = sum(bool(judged.mutant.test) for judged in noticed)
    lines = [
        f"{len(noticed)} of {len(results)} mutants are noticed (commit {commit}): {len(noticed) - tested} by the "
        f"simulation within {seeds} seeds, {tested} by the test that is named.",
        "",
        "| switched off | in | noticed by |",
        "|---|---|---|",
    ]
    for result in results:
        place = result.mutant.module.removeprefix("srm_common.")
        lines.append(f"| {result.mutant.name} | `{place}` | {_noticed_by(result)} |")
    return "\n".join(lines)


def _noticed_by(one: Judged) -> str:
    if not one.noticed:
        return f"**nothing** ({one.mutant.test or one.text})"
    if one.mutant.test:
        file, _, name = one.mutant.test.rpartition("/")[2].partition("::")
        return f"`{file}`: `{name}`"
    return one.text.replace("Wrong: ", "").replace("|", "\\|")


def _judge(number: int, seeds: int, *, plans: bool) -> Judged:
    command = [sys.executable, "-m", "tests.simulation.mutations", "--seeds", str(seeds)]
    command += ["--test" if MUTANTS[number].test else "--play", str(number), *(["--plans"] if plans else [])]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, _NOTICED) or not done.stdout.strip():
        raise SystemExit(f"mutant {number} could not be played: {done.stdout}{done.stderr}")
    return Judged(MUTANTS[number], done.returncode == _NOTICED, done.stdout.strip().splitlines()[-1])


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
