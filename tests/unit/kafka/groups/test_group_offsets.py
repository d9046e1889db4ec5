"""Coordinators that refuse; how offsets and notes are read is in :mod:`tests.contract`."""

from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links import link_groups
from srm_common.kafka.client.links.group_coordinators import offset_fetch_request
from srm_common.kafka.groups.group_commits import Committed, GroupCommitter
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupOffsets, GroupReader
from srm_common.kafka.groups.group_watch import GroupWatch
from srm_common.testing import FakeCluster

_NOT_COORDINATOR, _LOADING = 16, 14
_PLACE = TopicPartition("orders", 0)


def test_a_group_whose_coordinator_moves_on_is_a_fault_and_only_that() -> None:
    """librdkafka ends the process there."""
    with FakeCluster() as kafka:
        kafka.create_topic("orders")
        kafka.commit("plain", {_PLACE: 3})
        kafka.commit("noted", {_PLACE: 3}, "a note")
        reader = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers), timeout_seconds=1)
        with kafka.refuse("OffsetFetch", _NOT_COORDINATOR, when="noted"):
            offsets, (fault,) = reader.offsets(["noted", "plain"])
        assert offsets == [GroupOffsets("plain", {_PLACE: CommittedOffset(3)})]
        assert fault.group == "noted"
        assert "NOT_COORDINATOR" in fault.reason


def test_a_coordinator_that_loads_is_asked_again() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("orders")
        kafka.commit("noted", {_PLACE: 3}, "a note")
        reader = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers))
        kafka.refuse("OffsetFetch", _LOADING, times=1)
        assert reader.offsets(["noted"]) == ([GroupOffsets("noted", {_PLACE: CommittedOffset(3, "a note")})], [])
        assert len(kafka.asked("OffsetFetch")) == 2


def test_brokers_before_kafka_3_are_asked_group_by_group() -> None:
    with FakeCluster(newest={"OffsetFetch": 7}) as kafka:
        kafka.create_topic("orders")
        kafka.commit("noted", {_PLACE: 3}, "a note")
        (offsets,), faults = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)).offsets(["noted"])
        assert (offsets.offsets, faults) == ({_PLACE: CommittedOffset(3, "a note")}, [])


def test_a_thousand_groups_share_requests() -> None:
    groups = [f"g{number:04}" for number in range(1000)]
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("orders")
        for group in groups:
            kafka.commit(group, {_PLACE: 3})
        reader = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers), timeout_seconds=120)
        offsets, faults = reader.offsets(groups)
        assert not faults
        assert [found.group for found in offsets] == groups
        # A slow broker makes the link ask another one the same.
        assert len({tuple(request.coordinator_keys) for request in kafka.asked("FindCoordinator")}) == 2
        assert len(kafka.asked("OffsetFetch")) <= 4


def test_a_group_that_a_response_leaves_out_is_a_fault_and_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_groups, "offset_fetch_request", lambda groups: offset_fetch_request(list(groups)[:-1]))
    with FakeCluster() as kafka:
        kafka.create_topic("orders")
        for group in ("a", "b"):
            kafka.commit(group, {_PLACE: 3})
        reader = GroupReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers), timeout_seconds=3)
        offsets, faults = reader.offsets(["a", "b"])
        assert [found.group for found in offsets] == ["a"]
        (fault,) = faults
        assert fault.group == "b"
        assert "leaves out a group" in fault.reason


def test_commits_of_many_groups_share_the_search_for_coordinators() -> None:
    wanted = {f"g{number}": [Checkpoint(f"g{number}", "orders", 0, 4, 4, "")] for number in range(100)}
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("orders")
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        committed = GroupCommitter(cluster, timeout_seconds=120).commit_all(wanted)
        assert committed == dict.fromkeys(wanted, Committed(positions=1))
        assert len({tuple(request.coordinator_keys) for request in kafka.asked("FindCoordinator")}) == 1
        assert len(kafka.asked("OffsetCommit")) == 100


def test_groups_whose_coordinator_died_are_left_out_once() -> None:
    groups = [f"g{number}" for number in range(8)]
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("orders")
        for group in groups:
            kafka.commit(group, {_PLACE: 3})
        with GroupWatch(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as watch:

            def seen() -> tuple[list[str], bool]:
                offsets, faults = watch.committed(lambda group: True)
                return sorted(found.group for found in offsets), bool(faults)

            assert seen() == (groups, False)
            kafka.stop(2)
            left, _ = seen()
            assert 0 < len(left) < len(groups)
            assert seen()[0] == groups
