"""Whatever the fake cluster refuses is held against real brokers: the contract suite reaches every place that refuses.

The suite runs once more here, so that this depends on no other test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.answered import Answered, Site, sites
from tests.simulation.faults import REFUSED

_SUITE = Path(__file__).with_name("test_fake_cluster_contract.py")
#: What no suite can ask a real broker for, and why.
_NOT_REACHED = {
    Site("messages", "check", "code", 1): "it is what a test injects",
}
#: What the suite reaches or not, by who comes first.
_BY_CHANCE = {
    Site("member_requests", "_sync", "REBALANCE_IN_PROGRESS", 1): "a group whose other member joins meanwhile",
    Site("transactions", "_ended", "CONCURRENT_TRANSACTIONS", 1): "an end that is asked for again before its markers",
}
_LOADS = "while a coordinator reads its log, for a moment that cannot be held"
_ELECTS = "while nobody leads the coordinator's partition, for a moment that cannot be held"
_NO_LONGER = "no supported broker answers it to clients any more; clients retry it all the same"
#: What the simulation injects although no suite can ask a real broker for it, and why it may.
_NOT_SEEN = {
    **{(api, 14): _LOADS for api in ("EndTxn", "AddPartitionsToTxn", "InitProducerId", "FindCoordinator")},
    **{(api, 15): _ELECTS for api in ("EndTxn", "AddPartitionsToTxn", "InitProducerId", "FindCoordinator")},
    **{(api, 5): _NO_LONGER for api in ("Produce", "Fetch", "ListOffsets")},
    **{(api, 9): _NO_LONGER for api in ("Produce", "Fetch", "ListOffsets")},
    **{(api, 7): "a delayed answer that ran out of time, by load alone" for api in ("Fetch", "ListOffsets")},
    **{
        (api, 19): "of Produce alone; for others it stands for any code to be retried"
        for api in ("Fetch", "ListOffsets")
    },
    ("Produce", 59): "brokers before 2.5 forget producers whose records are gone",
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """What the suite has seen of the fake cluster."""
    folder = tmp_path_factory.mktemp("answered")
    file = folder / "answered.json"
    # The session in the other process has a temporary folder of its own.
    environment = {name: value for name, value in os.environ.items() if name != "SRM_TESTS_FOLDER"}
    suite = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.contract.answered"),
            *("--answered", str(file), str(_SUITE), "-k", "not three-nodes"),
        ],
        env=environment | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert suite.returncode == 0, suite.stdout[-4000:] + suite.stderr[-4000:]
    return Answered.read(file)


def test_every_refusal_of_the_fake_cluster_is_in_the_contract(answered: Answered) -> None:
    known = set(sites().values())
    assert len(known) > 80
    assert answered.sites | _NOT_REACHED.keys() | _BY_CHANCE.keys() >= known, "ask for these in tests/contract"


def test_every_api_of_the_fake_cluster_is_in_the_contract(answered: Answered) -> None:
    assert {api for api, _ in answered.pairs} >= answered.served, "ask for these in tests/contract"


def test_every_code_that_the_simulation_injects_is_in_the_contract(answered: Answered) -> None:
    injected = {(api, code) for api, codes in REFUSED.items() for code in codes}
    assert answered.pairs | _NOT_SEEN.keys() >= injected, "ask for these in tests/contract"


def test_no_excuse_outlives_its_need(answered: Answered) -> None:
    assert not sorted(answered.pairs & _NOT_SEEN.keys())
    assert not sorted(answered.sites & _NOT_REACHED.keys())
    assert set(sites().values()) >= _NOT_REACHED.keys() | _BY_CHANCE.keys()
