"""Seeds of the simulation go well, and the same seed is the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.faults import Planned
from tests.simulation.mutants import MUTANTS
from tests.simulation.plans import PLANS, Plan
from tests.simulation.seeds import read

_BLOCK = 100
#: Three times as many as show any of the mutants (docs/reliability.md); ``make soak`` plays those behind them.
_SEEDS = int(os.environ.get("SIMULATION_SEEDS", "600"))
_OF_SOAK = 2000


def _play(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose hashes are known."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def _blocks(first: int, end: int) -> list[str]:
    return [f"{start}:{min(start + _BLOCK, end)}" for start in range(first, end, _BLOCK)]


@pytest.mark.parametrize(
    "seeds",
    [*_blocks(0, _SEEDS), *(pytest.param(block, marks=pytest.mark.soak) for block in _blocks(_SEEDS, _OF_SOAK))],
)
def test_every_promise_is_kept_whatever_fails(seeds: str) -> None:
    played = _play("--seeds", seeds)
    assert played.returncode == 0, f"{played.stdout[-4000:]}{played.stderr[-4000:]}"


def test_what_has_gone_wrong_once_goes_well() -> None:
    played = _play("--plans")
    assert played.returncode == 0, f"{played.stdout[-4000:]}{played.stderr[-4000:]}"


def test_a_seed_is_the_same_run_in_every_process() -> None:
    first, second = (_play("--seeds", "0:12", "--verbose") for _ in range(2))
    lines = [process.stdout.splitlines()[:-1] for process in (first, second)]
    assert len(lines[0]) == 12
    assert lines[0] == lines[1]


def test_the_place_of_each_mutant_is_in_the_source() -> None:
    lost = [mutant.name for mutant in MUTANTS if mutant.source().count(mutant.before) != 1]
    assert not lost, "correct what these mutants replace"


def test_the_mutants_of_plans_are_there() -> None:
    assert {plan.without for plan in PLANS} <= {mutant.name for mutant in MUTANTS} | {""}


def test_plans_show_the_mutants_that_they_name() -> None:
    """A plan whose mutant goes well with it, too, tells nothing any more: what the scenario draws has changed."""
    numbers = [number for number, one in enumerate(MUTANTS) if one.name in {plan.without for plan in PLANS}]
    only = [word for number in numbers for word in ("--only", str(number))]
    played = subprocess.run(
        [sys.executable, "-m", "tests.simulation.mutations", "--seeds", "0", *only],
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, f"{played.stdout}{played.stderr}"
    assert played.stdout.count(": its plan, ") == len(numbers)


def test_processes_side_by_side_play_the_same_and_report_each_seed_once(tmp_path: Path) -> None:
    report = tmp_path / "seeds.jsonl"
    assert _play("--seeds", "0:2", "--report", str(report)).returncode == 0
    played = _play("--seeds", "0:6", "--processes", "2", "--report", str(report))
    assert played.returncode == 0, f"{played.stdout}{played.stderr}"
    assert played.stdout.startswith("4 seeds, "), "it goes on where the report ends"
    seeds = {seed.seed: seed for seed in read(report)}
    assert sorted(seeds) == [*range(6)]
    assert len(report.read_text().splitlines()) == 6
    again = _play("--seeds", "0:6", "--verbose").stdout.splitlines()
    assert [line.partition(":")[0] for line in again[:6]] == [f"seed {n} ({seeds[n].digest})" for n in range(6)]


def test_a_seed_that_goes_wrong_is_shrunk_to_a_plan_for_the_ring(tmp_path: Path) -> None:
    report = tmp_path / "seeds.jsonl"
    mutant = next(number for number, one in enumerate(MUTANTS) if one.name == "aborted records are copied")
    played = subprocess.run(
        [
            sys.executable,
            "-c",
            f"""if True:
            import sys
            from tests.simulation.mutants import become

            become({mutant})
            from tests.simulation.__main__ import main

            sys.exit(main())
            """,
            *("--seeds", "2:3", "--report", str(report)),
        ],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 1, f"{played.stdout}{played.stderr}"
    (seed,) = read(report)
    assert seed.wrong is not None
    assert seed.plan is not None
    assert f"keep this in tests/simulation/plans.py: {seed.plan}\n" in played.stdout
    (kept,) = eval(seed.plan, {"Plan": Plan, "Planned": Planned})  # its comma makes it a tuple of plans
    assert (kept.seed, kept.faults) == (2, ())
    assert "of an aborted transaction, is in the copy" in kept.shows


@pytest.mark.parametrize("test", sorted({mutant.test for mutant in MUTANTS if mutant.test}))
def test_the_tests_that_hold_mutants_are_there(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name.partition('[')[0]}(" in Path(file).read_text(encoding="utf-8")


def test_a_seed_that_ends_its_process_has_gone_wrong_and_those_behind_it_are_played(tmp_path: Path) -> None:
    report = tmp_path / "seeds.jsonl"
    played = subprocess.run(
        [
            sys.executable,
            "-c",
            """if True:
            import os
            import sys
            from tests.simulation.scenario import Scenario

            play = Scenario.play

            def dies(scenario):
                if scenario.world.seed == 1:
                    os.write(2, b"it fell over\\n")
                    os._exit(7)
                return play(scenario)

            Scenario.play = dies
            from tests.simulation.__main__ import main

            sys.exit(main())
            """,
            *("--seeds", "0:3", "--report", str(report)),
        ],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 1, f"{played.stdout}{played.stderr}"
    assert [seed.seed for seed in read(report)] == [0, 1, 2]
    assert [seed.wrong for seed in read(report)] == [None, "the process ended with 7: it fell over", None]
