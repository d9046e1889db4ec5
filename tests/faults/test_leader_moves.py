"""A target of three nodes whose leaders and coordinators move while records are copied."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from srm_common.testing import LocalKafka
from tests.faults.leaders import shuffle_leaders
from tests.faults.run import Run
from tests.faults.scenario import Scenario, survive

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

Clusters = tuple[LocalKafka, LocalKafka]
MakeScenario = Callable[..., Scenario]


@pytest.fixture(
    scope="module",
    params=[None, pytest.param("3.9.1", marks=pytest.mark.soak)],
    ids=["newest", "3.9.1"],
)
def clusters(request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """A source of one node, a target of three."""
    with LocalKafka(name="source") as source, LocalKafka(nodes=3, version=request.param, name="target") as target:
        yield source, target


def test_leaders_and_coordinators_move(clusters: Clusters, scenario: MakeScenario) -> None:
    def move(one: Scenario, run: Run) -> None:
        topics = [one.remote, one.state.offsets_topic, one.state.segments_topic, "__transaction_state"]
        end = time.monotonic() + 4
        moves = 0
        while time.monotonic() < end:
            shuffle_leaders(one.target, topics, one.dice)
            moves += 1
            one.pause(0.1, 0.6)
        one.note(f"moved {moves} times")

    survive(scenario(*clusters), move)


def test_node_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """Its partitions get other leaders; the run goes on before the node is back, and after."""

    def kill(one: Scenario, run: Run) -> None:
        node = one.dice.choice(one.target.nodes)
        one.target.kill(node)
        one.pause(2.5, 4.0)
        before = one.copied_offsets()
        one.wait_for_copied(run, before + 1)
        one.note(f"goes on without node {node}")
        one.target.restart(node)

    survive(scenario(*clusters), kill)


def test_node_stands_still(clusters: Clusters, scenario: MakeScenario) -> None:
    """Others lead its partitions by the time it wakes up and still believes to be their leader."""

    def stand_still(one: Scenario, run: Run) -> None:
        node = one.dice.choice(one.target.nodes)
        one.target.pause(node)
        one.pause(3.0, 4.5)
        one.target.resume(node)

    survive(scenario(*clusters, request_timeout_ms=3000), stand_still)
