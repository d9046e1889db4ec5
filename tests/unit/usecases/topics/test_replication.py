"""Copies and state topics while brokers of the target are down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.domain.topics.actions import ActionResult, CreateTopic
from srm_common.errors import ClusterError
from srm_common.testing import FakeCluster
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.unit.usecases.fakes import Sides

INVALID_REPLICATION_FACTOR = 38
#: What each topic of a flow has, by the key of its configuration.
_FACTORS = ("replication_factor", "internal_replication_factor", "status_replication_factor")
_MORE_FACTORS = ("config_replication_factor", "checkpoints_replication_factor", "heartbeats_replication_factor")


@pytest.fixture
def three(source_kafka: FakeCluster) -> Iterator[Sides]:
    """The target has three nodes; all topics there are to have three replicas."""
    with FakeCluster(nodes=3, name="three") as target:
        sides = Sides(source_kafka, target)
        sides.set(**dict.fromkeys((*_FACTORS, *_MORE_FACTORS), 3))
        source_kafka.create_topic("orders")
        yield sides
        sides.close()


def creation(results: tuple[ActionResult, ...]) -> ActionResult:
    (result,) = [one for one in results if isinstance(one.action, CreateTopic)]
    return result


def factors(sides: Sides) -> dict[str, int]:
    """Replicas by topic."""
    return dict(sides.clusters().target.admin.topics().replicas)


def test_a_broker_that_is_down_costs_no_replica(three: Sides) -> None:
    """Brokers of KRaft place replicas on those that are down, too."""
    three.target.create_topic("there", 1, 3)
    three.target.stop(3)
    result = creation(three.refresh().results)
    assert (result.error, result.note) == (None, None)
    assert result.action.reason == "copy of orders; broker 3 does not respond"
    three.source.write("orders", [(b"k", b"v")])
    assert three.run().records == 1
    assert set(factors(three).values()) == {3}


def test_a_broker_that_is_down_and_holds_nothing_yet_costs_no_replica(three: Sides) -> None:
    three.target.stop(3)
    result = creation(three.refresh().results)
    assert (result.error, result.note) == (
        None,
        "it has 3 replicas, since the cluster has brokers that do not respond",
    )
    assert result.action.reason == "copy of orders; 3 replicas requested, but the target has 2 brokers"
    assert factors(three)["a.orders"] == 3


def test_what_is_refused_while_a_broker_is_down_is_created_when_it_is_back(three: Sides) -> None:
    three.refresh()
    three.source.create_topic("orders-eu")
    three.target.stop(3)
    with three.target.refuse("CreateTopics", INVALID_REPLICATION_FACTOR, when="a.orders-eu"):
        result = creation(three.refresh().results)
        assert result.error is not None
        assert "INVALID_REPLICATION_FACTOR" in result.error
        assert "the next refresh tries again" in result.error
    three.target.restart(3)
    assert creation(three.refresh().results).error is None
    assert factors(three)["a.orders-eu"] == 3


def test_a_flow_whose_state_topics_are_refused_while_a_broker_is_down_waits_for_it(three: Sides) -> None:
    three.target.create_topic("there", 1, 3)
    three.target.stop(3)
    with (
        three.target.refuse("CreateTopics", INVALID_REPLICATION_FACTOR, when="srm-meta.internal"),
        pytest.raises(ClusterError, match=r"create state topic srm-meta.internal: .*; broker 3 does not respond: run"),
    ):
        three.refresh()
    three.refresh()
    assert factors(three)["srm-meta.internal"] == 3


def test_replicas_that_are_lacking_are_told_once_there_are_brokers(three: Sides) -> None:
    three.target.create_topic("a.orders", 1, 1)
    three.target.create_topic("srm-meta.internal", 1, 2, {"cleanup.policy": "compact"})
    assert plan_topics(three.flow).notices[0] == (
        "fewer replicas than replication.factor = 3 on b: a.orders (1); kafka-reassign-partitions.sh adds some"
    )
    three.refresh()
    assert (
        "state topics on cluster 'b' have fewer replicas than configured: srm-meta.internal (2 instead of 3); "
        "kafka-reassign-partitions.sh adds some"
    ) in three.run().notes


def test_a_small_cluster_gets_what_it_has_brokers_for(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.set(**dict.fromkeys((*_FACTORS, *_MORE_FACTORS), 3))
    result = creation(sides.refresh().results)
    assert (result.error, result.note) == (None, None)
    record = sides.run()
    lowered = [note for note in record.notes if "has 1 replica instead of 3, because the cluster has too few" in note]
    assert len(lowered) > 4
    assert set(factors(sides).values()) == {1}
    assert not [note for note in sides.run("again").notes if "replica" in note]
