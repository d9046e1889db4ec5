"""What brokers refuse whose leaders or coordinators have moved, or are away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.links.link import LATEST, ClusterLink, LogOffset
from srm_common.kafka.client.protocol import codes
from tests.contract.parts import settings, shown
from tests.contract.records_contract import Writer, batch
from tests.contract.refused_requests import (
    added,
    described,
    ended,
    epoch_ended,
    fetched,
    group_committed,
    group_coordinator,
    initialized,
    led,
    linked,
    listed,
    owner,
    place,
    produced,
)
from tests.contract.replicas_contract import Replicated, opened
from tests.contract.requests import ask, request
from tests.contract.requests import codes as codes_of
from tests.contract.topics_contract import create

LEADER_NOT_AVAILABLE, NOT_LEADER, NOT_COORDINATOR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 5, 6, 16, 74, 75
INVALID_REPLICATION_FACTOR = 38


@dataclass
class Moving:
    """A cluster of three nodes. ``move``: gives a partition another leader. ``away``: while it lasts, a node answers
    nobody, and its partitions of one replica have no leader."""

    kafka: Replicated
    move: Callable[[str, int], None]
    away: Callable[[int], AbstractContextManager[object]]


class LeadersContract:
    """The fixture ``moving`` is a cluster of three nodes whose leaders can be moved."""

    def test_who_does_not_lead_refuses(self, moving: Moving, name: str) -> None:
        moving.kafka.create_topic(name, 1, 1)
        with ClusterLink(settings(moving.kafka)) as link:
            opened(link, name)
            leader, epoch, _ = led(link, name)
            other = next(node for node in moving.kafka.nodes if node != leader)
            assert produced(link, other, name, batch([b"v"])) == NOT_LEADER
            assert fetched(link, other, name, 0)[0] == NOT_LEADER
            assert listed(link, other, name) == NOT_LEADER
            assert epoch_ended(link, other, name) == NOT_LEADER
            answer = ask(link, other, "DeleteRecords", 2, timeout_ms=60_000, topics=place(name, offset=0))
            assert codes_of(answer)[0] == NOT_LEADER
            topics = [{"name": name, "partition_indexes": [0]}]
            assert codes_of(ask(link, other, "DescribeProducers", 0, topics=topics))[0] == NOT_LEADER
            for known, code in ((epoch, codes.NONE), (epoch + 1, UNKNOWN_LEADER_EPOCH)):
                assert fetched(link, leader, name, 0, leader_epoch=known)[0] == code
                assert listed(link, leader, name, known) == code
                assert epoch_ended(link, leader, name, known) == code

    def test_a_leader_that_moved(self, moving: Moving, name: str) -> None:
        moving.kafka.create_topic(name, 1, 3)
        with ClusterLink(settings(moving.kafka)) as link:
            opened(link, name)
            first, epoch, _ = led(link, name)
            assert produced(link, first, name, batch([b"a", b"b", b"c"])) == codes.NONE
            moving.move(name, 0)
            assert shown(lambda: led(link, name)[0] != first, True)
            second, newer, _ = led(link, name)
            assert newer > epoch
            # The end of a log comes with the epoch of its leader, not of its last record.
            ends = {Place(name, 0): LogOffset(3, -1, newer)}
            assert shown(lambda: link.run(lambda: link.listed({Place(name, 0): LATEST}))[0], ends) == ends
            # One that follows answers readers, and writers and who asks for offsets are sent to the leader.
            assert shown(lambda: produced(link, first, name, batch([b"d"])), NOT_LEADER) == NOT_LEADER
            assert listed(link, first, name, newer) == NOT_LEADER
            assert fetched(link, first, name, 0, leader_epoch=newer) == (codes.NONE, None)
            for node in (first, second):
                assert fetched(link, node, name, 0, leader_epoch=epoch)[0] == FENCED_LEADER_EPOCH
                assert listed(link, node, name, epoch) == FENCED_LEADER_EPOCH
                assert epoch_ended(link, node, name, epoch) == FENCED_LEADER_EPOCH
            assert shown(lambda: produced(link, second, name, batch([b"d", b"e"])), codes.NONE) == codes.NONE
            assert shown(lambda: fetched(link, second, name, 5)[0], codes.NONE) == codes.NONE
            # Who has read further under the epoch before has read what this log does not have.
            assert fetched(link, second, name, 4, last_epoch=epoch) == (codes.NONE, (epoch, 3))
            assert fetched(link, second, name, 3, last_epoch=epoch) == (codes.NONE, None)
            assert fetched(link, second, name, 5, last_epoch=newer) == (codes.NONE, None)

    def test_a_node_that_is_away_counts_for_replicas(self, moving: Moving, name: str) -> None:
        admin = ClusterAdmin(settings(moving.kafka))
        moving.kafka.create_topic(f"{name}-a", 1, 3)
        *others, away = moving.kafka.nodes
        with moving.away(away):
            assert shown(lambda: admin.topics().brokers, tuple(others)) == tuple(others)
            assert admin.topics().holders == set(moving.kafka.nodes)
            results = admin.create_topics([create(f"{name}-b", 2, 3), create(f"{name}-c", 1, 4)])
            assert [0 if one is None else one.code() for one in results] == [0, INVALID_REPLICATION_FACTOR]
            assert admin.await_leaders({f"{name}-b": 2}, seconds=60) == set()
            assert admin.topics().replicas[f"{name}-b"] == 3

    def test_who_does_not_coordinate_refuses(self, moving: Moving, name: str) -> None:
        moving.kafka.create_topic(name, 1, 3)
        with ClusterLink(settings(moving.kafka)) as link:
            opened(link, name)
            who = owner(link, name)
            coordinator = link.run(lambda: link.coordinator(name))
            other = next(node for node in moving.kafka.nodes if node != coordinator)
            assert initialized(link, other, name) == NOT_COORDINATOR
            assert added(link, other, name, name, who) == NOT_COORDINATOR
            assert ended(link, other, name, who) == NOT_COORDINATOR
            assert described(link, other, name) == NOT_COORDINATOR
            coordinator = group_coordinator(link, name)
            other = next(node for node in moving.kafka.nodes if node != coordinator)
            assert shown(lambda: group_committed(link, coordinator, name, name), codes.NONE) == codes.NONE
            assert group_committed(link, other, name, name) == NOT_COORDINATOR


class MarkersContract:
    """The same fixture. The brokers' answers depend on how soon the controller notices that a node is away."""

    def test_a_transaction_is_not_over_before_its_markers_are_written(self, moving: Moving, name: str) -> None:
        kafka = moving.kafka
        kafka.create_topic(name, 3, 1)
        with ClusterLink(settings(kafka), request_timeout_ms=180_000) as link:
            opened(link, name)
            owner(link, name)
            coordinator = link.run(lambda: link.coordinator(name))
            leaders = {number: link.leader(name, number) for number in range(3)}
            number = next(number for number, leader in leaders.items() if leader != coordinator)
            wanted = [codes.CONCURRENT_TRANSACTIONS] * 3
            # Without the node it is over as soon as the controller notices.
            assert shown(lambda: self._while_it_ends(moving, link, name, number, coordinator), wanted) == wanted
            found = shown(lambda: leaderless(link, coordinator, name, number), codes.NONE)
            assert found == codes.NONE

    def _while_it_ends(self, moving: Moving, link: ClusterLink, name: str, number: int, coordinator: int) -> list[int]:
        """The codes of EndTxn, AddPartitionsToTxn and InitProducerId while the markers are being written."""
        who = owner(link, name)
        writer = Writer(link, name)
        writer.transactional_id = name
        writer.run(lambda: writer.producer(who, newer=False).add([Place(name, number)]))
        data = batch([b"v"], who, 0, transactional=True)
        assert shown(lambda: writer.run(lambda: writer.put(data, number)).error_code, codes.NONE) == codes.NONE
        with linked(moving.kafka) as other:
            described(other, coordinator, name)  # the connection is there
            with moving.away(link.leader(name, number) or 0):
                # Its answer may take as long as the node is away.
                end = {"transactional_id": name, "producer_id": who[0], "producer_epoch": who[1], "committed": True}
                other.run(lambda: other.post(coordinator, request("EndTxn", 3, end)))
                described(link, coordinator, name)
                found = [
                    ended(link, coordinator, name, who),
                    added(link, coordinator, name, name, who),
                    initialized(link, coordinator, name),
                ]
                missing = shown(lambda: leaderless(link, coordinator, name, number), LEADER_NOT_AVAILABLE)
                assert missing == LEADER_NOT_AVAILABLE
        return found


def leaderless(link: ClusterLink, node: int, topic: str, number: int) -> int:
    """The code that metadata have for a partition."""
    answer = ask(link, node, "Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
    parts = {partition.partition_index: partition.error_code for partition in answer.topics[0].partitions}
    return int(parts[number])
