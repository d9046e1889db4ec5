"""Seeds and rounds of the fault tests.

``FAULT_SEED`` repeats what a failed test printed; ``SOAK_ROUNDS`` says how many rounds ``make soak`` plays.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fork_server import ForkServer
from tests.faults.scenario import Scenario

_HERE = Path(__file__).parent
#: Files that take more than half a minute, the longest first (``--durations=0``): which file a worker gets next is
#: settled by this order, so that no worker ends long after the other one.
LONGEST_FIRST = (
    "test_failover_story.py",
    "test_exactly_once.py",
    "test_mm2_handover.py",
    "test_random.py",
    "test_dead_letters.py",
    "test_spark.py",
    "test_unclean_election.py",
    "test_leader_moves.py",
    "test_lost_answers.py",
    "test_slow_brokers.py",
    "test_versions.py",
)
SOAK_ROUNDS = int(os.environ.get("SOAK_ROUNDS", "100"))
_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if gone := [name for name in LONGEST_FIRST if not (_HERE / name).is_file()]:
        raise pytest.UsageError(f"{__file__}: LONGEST_FIRST names what is not there: {', '.join(gone)}")
    place = {_HERE / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The test's seed: ``$FAULT_SEED``, or a new one, printed so that a failure shows it."""
    chosen = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(1 << 24))
    print(f"FAULT_SEED={chosen} for {request.node.name}")
    return chosen


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """What the session's runs are forked from."""
    with ForkServer() as server:
        yield server


@pytest.fixture
def scenario(tmp_path: Path, seed: int, fork_server: ForkServer) -> Iterator[Callable[..., Scenario]]:
    """Makes scenarios and ends their processes; pytest keeps their logs, and shows where when the test fails."""
    made: list[Scenario] = []

    def make(source: Any, target: Any, kind: type[Scenario] = Scenario, **options: Any) -> Scenario:
        number = next(_numbers)
        print(f"the runs' logs are in {tmp_path / f'scenario-{number}'}")
        folder = tmp_path / f"scenario-{number}"
        one = kind(source, target, folder, seed + number, fork_server, name=f"t{number}", **options)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
