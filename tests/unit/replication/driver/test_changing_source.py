"""A source that is silent for a while, and topics and partitions that come and go during a run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.errors import UnreachableCluster
from tests.unit.replication.driver.simulated_cluster import Log
from tests.unit.replication.driver.simulated_flow import copied, everything, world


def test_a_source_that_stays_silent_ends_the_run() -> None:
    there = world(3)
    there.source.down = True
    with pytest.raises(UnreachableCluster, match="has not responded for 60 s"):
        there.run()
    assert 60 <= there.now < 70


def test_a_source_that_comes_back_is_enough() -> None:
    there = world(3)
    there.source.down = True

    def mend() -> None:
        there.source.down = there.now < 30

    there.while_asleep = mend
    there.run()
    assert copied(there) == everything(there)


def test_a_topic_deleted_during_the_run_fails_its_partitions_only() -> None:
    there = world(3)
    there.source.logs[TopicPartition("u", 0)] = Log(records=[1, 2])

    def delete() -> None:
        there.source.logs.pop(TopicPartition("u", 0), None)
        there.source.logs[TopicPartition("t", 0)].records.append(9)

    there.while_asleep = delete
    passes = there.run(max_seconds=9.0)
    assert "topic u was deleted" in str(passes.tracks[TopicPartition("u", 0)].error)
    assert passes.tracks[TopicPartition("t", 0)].error is None
    assert passes.tracks[TopicPartition("t", 0)].lag == 0


def test_a_topic_that_one_listing_lacks_is_copied_on() -> None:
    there = world(3)
    there.source.logs[TopicPartition("u", 0)] = log = Log(records=[1, 2])
    whole, listings = there.topics, 0

    def incomplete() -> Iterable[CopiedTopic]:
        nonlocal listings
        listings += 1
        return [topic for topic in whole() if listings != 2 or topic.upstream != "u"]

    there.topics = incomplete  # type: ignore[method-assign]
    there.while_asleep = lambda: log.records.append(3)
    passes = there.run(max_seconds=60.0)
    there.while_asleep = lambda: None
    assert listings > 2
    assert passes.tracks[TopicPartition("u", 0)].error is None
    there.run()
    assert copied(there) == everything(there)


def test_a_mapping_that_fails_keeps_the_one_before() -> None:
    there = world(3)
    whole, listings = there.topics, 0

    def fails() -> Iterable[CopiedTopic]:
        nonlocal listings
        listings += 1
        if listings == 2:
            raise UnreachableCluster("cluster a is not reachable")
        return whole()

    there.topics = fails  # type: ignore[method-assign]
    there.while_asleep = lambda: there.source.logs[TopicPartition("t", 0)].records.append(7)
    passes = there.run(max_seconds=70.0)
    assert passes.tracks[TopicPartition("t", 0)].error is None
    assert any("cluster a is not reachable" in note for note in there.notes)
    assert len(there.target.records[TopicPartition("t", 0)]) > 100


def test_a_first_mapping_that_fails_ends_the_run() -> None:
    there = world(3)

    def fails() -> Iterable[CopiedTopic]:
        raise UnreachableCluster("cluster a is not reachable")

    there.topics = fails  # type: ignore[method-assign]
    with pytest.raises(UnreachableCluster):
        there.run(max_seconds=70.0)


def test_new_partitions_are_found_by_a_long_run() -> None:
    there = world(3)

    def grow() -> None:
        there.source.logs.setdefault(TopicPartition("t", 1), Log(records=[8]))

    there.while_asleep = grow
    there.run(max_seconds=60.0)
    assert copied(there) == everything(there)
