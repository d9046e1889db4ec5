"""Seeds of the simulation go well, and the same seed is the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.plans import PLANS

_BLOCK = 20
_BLOCKS = int(os.environ.get("SIMULATION_SEEDS", "200")) // _BLOCK


def _play(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose hashes are known."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_every_promise_is_kept_whatever_fails(block: int) -> None:
    played = _play("--seeds", f"{block * _BLOCK}:{(block + 1) * _BLOCK}")
    assert played.returncode == 0, f"{played.stdout[-4000:]}{played.stderr[-4000:]}"


def test_what_has_gone_wrong_once_goes_well() -> None:
    played = _play("--plans")
    assert played.returncode == 0, f"{played.stdout[-4000:]}{played.stderr[-4000:]}"


def test_a_seed_is_the_same_run_in_every_process() -> None:
    first, second = (_play("--seeds", "0:12", "--verbose") for _ in range(2))
    lines = [one.stdout.splitlines()[:-1] for one in (first, second)]
    assert len(lines[0]) == 12
    assert lines[0] == lines[1]


def test_the_place_of_each_mutant_is_in_the_source() -> None:
    lost = [mutant.name for mutant in MUTANTS if mutant.source().count(mutant.before) != 1]
    assert not lost, "correct what these mutants replace"


def test_the_mutants_of_plans_are_there() -> None:
    assert {plan.without for plan in PLANS} <= {mutant.name for mutant in MUTANTS} | {""}


@pytest.mark.parametrize("test", sorted({mutant.test for mutant in MUTANTS if mutant.test}))
def test_the_tests_that_hold_mutants_are_there(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name.partition('[')[0]}(" in Path(file).read_text(encoding="utf-8")
