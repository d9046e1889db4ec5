"""Runs that are answered by a broker which is cut off from its controller, and shows the cluster as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import OnDataLoss
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.connections import link_metadata, newest_epochs
from srm_common.replication.driver.hanging_transactions import Copy
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.starting_points import Committed
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.topics import TRANSACTIONS_TOPIC
from srm_common.usecases.runs.copy_ends import CopyEnds
from tests import chosen_broker
from tests.slot_worker import here
from tests.unit.usecases import fakes
from tests.unit.usecases.fakes import Sides

Answers = Callable[[str, int], None]


@pytest.fixture
def isolating() -> Iterator[Sides]:
    """Of three nodes each; what is read as lost would be copied again."""
    settings = {"default.replication.factor": "3"}
    with (
        FakeCluster(nodes=3, settings=settings) as source,
        FakeCluster(nodes=3, settings=settings) as target,
        closing(Sides(source, target)) as sides,
    ):
        source.create_topic("orders")
        source.write("orders", [(b"k", b"%d" % number) for number in range(10)])
        sides.set(on_data_loss=OnDataLoss.RESET, retry_timeout_seconds=20.0)
        sides.refresh()
        assert sides.run("first").records == 10
        yield sides


@pytest.fixture
def answered_by(isolating: Sides, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Let one node of a side answer all that any node may be asked."""

    def choose(side: str, only: int) -> None:
        cluster: FakeCluster = getattr(isolating, side)
        address = cluster.bootstrap_servers.split(",")[only - 1]
        isolating.set(**{side: ClusterSettings.plaintext(getattr(isolating.flow, side).alias, address)})
        chosen_broker.answered_by(monkeypatch, address)

    return choose


def run(sides: Sides, run_id: str) -> RunRecord:
    sides.close()
    record = sides.run(run_id)
    assert (record.state, record.failed_partitions) == (RunState.DONE, ()), record
    return record


def test_a_deposed_leader_of_the_source_is_no_loss(isolating: Sides, answered_by: Answers) -> None:
    source = isolating.source
    leader = source._topics.partition("orders", 0).leader
    source.isolation.begin(leader)
    source.write("orders", [(b"k", b"%d" % number) for number in range(10, 15)])
    healthy = next(node for node in source.nodes if node != leader)
    answered_by("source", healthy)
    assert run(isolating, "second").records == 5

    answered_by("source", leader)
    record = run(isolating, "third")
    assert (record.records, [partition.lost_records for partition in record.partitions]) == (0, [0])
    source.write("orders", [(b"k", b"15")])
    # Where nothing is asked that only the present leader can answer, the flow waits as a consumer would.
    run(isolating, "fourth")
    source.isolation.end(leader)
    run(isolating, "fifth")
    assert isolating.values("a.orders") == [b"%d" % number for number in range(16)]


def test_a_slot_asks_no_leader_that_was_deposed_before_the_driver_looked(
    isolating: Sides, answered_by: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its links know nothing of what the driver's have seen."""
    source = isolating.source
    leader = source._topics.partition("orders", 0).leader
    source.isolation.begin(leader)
    source.write("orders", [(b"k", b"%d" % number) for number in range(10, 15)])
    answered_by("source", next(node for node in source.nodes if node != leader))

    def on_another_machine(*arguments: Any, **more: Any) -> Any:
        answered_by("source", leader)
        return here(*arguments, **more)

    monkeypatch.setattr(fakes, "here", on_another_machine)
    assert run(isolating, "second").records == 5
    assert isolating.values("a.orders") == [b"%d" % number for number in range(15)]


@pytest.mark.parametrize("isolated", [1, 2, 3])
def test_committed_offsets_of_a_deposed_leader_are_not_copied_from_again(
    isolating: Sides, answered_by: Answers, isolated: int
) -> None:
    source, target = isolating.source, isolating.target
    healthy = next(node for node in target.nodes if node != isolated)
    for number in range(len(target._topics.topics[TRANSACTIONS_TOPIC].partitions)):
        target.move_leader(TRANSACTIONS_TOPIC, number, healthy)
    target.isolation.begin(isolated)
    source.write("orders", [(b"k", b"%d" % number) for number in range(10, 15)])
    answered_by("target", healthy)
    assert run(isolating, "second").records == 5

    answered_by("target", isolated)
    assert run(isolating, "third").records == 0
    assert isolating.values("a.orders") == [b"%d" % number for number in range(15)]


def test_a_copy_that_seems_to_be_cut_is_looked_at_surely(isolating: Sides, answered_by: Answers) -> None:
    """The log of a deposed leader ends earlier, and a copy that is shorter would be copied again."""
    target = isolating.target
    for number in range(len(target._topics.topics[TRANSACTIONS_TOPIC].partitions)):
        target.move_leader(TRANSACTIONS_TOPIC, number, 3)
    target.move_leader("a.orders", 0, 1)
    before = target.log("a.orders").end
    target.isolation.begin(1)
    target.write("a.orders", [(None, b"later")])
    end = target.log("a.orders").end
    copy = Copy(TopicPartition("orders", 0), TopicPartition("a.orders", 0))
    recorded = PartitionRecord("orders", "a.orders", 0, position=10, copy_end=end)
    answered_by("target", 1)
    with Ownership.take(isolating.flow, 1, 1) as owner:
        assert owner.log_ends([copy.downstream]) == {copy.downstream: before}, "the fault that this is about"
        ends = CopyEnds({copy.upstream: recorded}, {})
        ends.look(owner, [copy], {})
        ends.compare(Committed({}, {}))
        assert (ends.cut, ends.known) == ({}, {copy.upstream: end})
    with Ownership.take(isolating.flow, 1, 1) as owner:
        ends = CopyEnds({copy.upstream: replace(recorded, copy_end=end + 1)}, {})
        ends.look(owner, [copy], {})
        ends.compare(Committed({}, {}))
        assert ends.cut[copy.upstream].now == end


def test_what_a_restored_source_has_lost_is_decided_by_on_data_loss(
    isolating: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the same topic ids, and the epochs of its backup."""
    for module in (newest_epochs, link_metadata):
        monkeypatch.setattr(module, "SETTLED_SECONDS", 0.2)
    source = isolating.source
    source.move_leader("orders")
    source.write("orders", [(b"k", b"10")])
    assert run(isolating, "second").records == 1

    source._topics.partition("orders", 0).log = PartitionLog()
    source.write("orders", [(b"k", b"restored")])
    record = run(isolating, "third")
    assert (record.records, [partition.lost_records for partition in record.partitions]) == (1, [10])
    assert isolating.values("a.orders") == [*(b"%d" % number for number in range(11)), b"restored"]
