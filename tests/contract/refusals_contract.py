"""What brokers refuse, and by which code: requests that no client of ours sends, leaders and coordinators that moved.

Each place in the fake cluster that refuses something is reached by this suite, or named with the reason why no real
broker can be made to (``tests/unit/testing/test_fake_cluster_refusals.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest
from crc32c import crc32c

from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.client.links.link import LATEST, ClusterLink, LogOffset
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupReader
from srm_common.kafka.transactions.producer import init_producer
from srm_common.wire.batches.batch import CONTROL, stamp
from srm_common.wire.protocol import fetch
from srm_common.wire.state.plain_records import plain_records
from tests.contract.parts import PATIENCE_SECONDS, Cluster, settings, shown
from tests.contract.records_contract import Writer, batch
from tests.contract.replicas_contract import Replicated, opened
from tests.contract.requests import ask, request
from tests.contract.requests import codes as codes_of

LEADER_NOT_AVAILABLE, NOT_LEADER, METADATA_TOO_LARGE, NOT_COORDINATOR = 5, 6, 12, 16
INVALID_REQUIRED_ACKS, ILLEGAL_GENERATION, INVALID_GROUP, UNKNOWN_MEMBER = 21, 22, 24, 25
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST = 37, 38, 39, 40, 42
MEMBER_ID_REQUIRED, GROUP_NOT_FOUND, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 79, 69, 74, 75
INVALID_RECORD, TRANSACTIONAL_ID_NOT_FOUND = 87, 105
#: In the header of a batch.
_CHECKSUM_AT, _CHECKED_FROM, _ATTRIBUTES_AT = 17, 21, 22
_NO_RESOURCE, _TOPIC, _BROKER = 1, 2, 4
_SET, _APPEND = 0, 2
_NOW_MS = int(time.time() * 1000)


@dataclass
class Moving:
    """A cluster of three nodes. ``move``: gives a partition another leader. ``away``: while it lasts, a node answers
    nobody, and its partitions of one replica have no leader."""

    kafka: Replicated
    move: Callable[[str, int], None]
    away: Callable[[int], AbstractContextManager[object]]


@contextmanager
def linked(kafka: Cluster, *topics: str) -> Iterator[ClusterLink]:
    with ClusterLink(settings(kafka), request_timeout_ms=180_000) as link:
        link.run(lambda: link.open(list(topics)))
        yield link


def place(name: str, **fields: Any) -> list[dict[str, Any]]:
    """The one topic of a request, with the one partition 0."""
    return [{"name": name, "partitions": [{"partition_index": 0, **fields}]}]


def fetched(
    link: ClusterLink,
    node: int,
    topic: str | UUID,
    offset: int,
    *,
    leader_epoch: int = -1,
    last_epoch: int = -1,
) -> tuple[int, tuple[int, int] | None]:
    """The code for a partition, and where its log parts from the reader's; ``topic``: its name or its id."""
    part = {
        "partition": 0,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    answer = ask(
        link,
        node,
        "Fetch",
        fetch.VERSION_BY_NAME if isinstance(topic, str) else fetch.VERSION_BY_ID,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic" if isinstance(topic, str) else "topic_id": topic, "partitions": [part]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    (found,) = answer.responses[0].partitions
    diverging = found.diverging_epoch
    known = diverging is not None and diverging.end_offset >= 0
    return found.error_code, (diverging.epoch, diverging.end_offset) if known else None


def produced(link: ClusterLink, node: int, topic: str, data: bytes, acks: int = -1, who: str | None = None) -> int:
    """The code for partition 0 of a topic."""
    answer = ask(
        link,
        node,
        "Produce",
        9,
        transactional_id=who,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": data}]}],
    )
    return int(codes_of(answer)[0])


def listed(link: ClusterLink, node: int, topic: str, leader_epoch: int = -1) -> int:
    topics = place(topic, current_leader_epoch=leader_epoch, timestamp=-1)
    answer = ask(link, node, "ListOffsets", 6, replica_id=-1, isolation_level=0, topics=topics)
    return int(codes_of(answer)[0])


def epoch_ended(link: ClusterLink, node: int, topic: str, leader_epoch: int = -1) -> int:
    part = {"partition": 0, "current_leader_epoch": leader_epoch, "leader_epoch": 0}
    answer = ask(link, node, "OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": [part]}])
    return int(codes_of(answer)[0])


def led(link: ClusterLink, topic: str) -> tuple[int, int, list[int]]:
    """Leader, leader epoch and the other replicas of partition 0, as metadata has them."""
    answer = ask(
        link,
        link.run(link.any_node),
        "Metadata",
        9,
        topics=[{"name": topic}],
        allow_auto_topic_creation=False,
    )
    part = next(partition for partition in answer.topics[0].partitions if partition.partition_index == 0)
    return part.leader_id, part.leader_epoch, [node for node in part.replica_nodes if node != part.leader_id]


def added(link: ClusterLink, node: int, name: str, topic: str, who: tuple[int, int]) -> int:
    answer = ask(
        link,
        node,
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=who[0],
        v3_and_below_producer_epoch=who[1],
        v3_and_below_topics=[{"name": topic, "partitions": [0]}],
    )
    return int(codes_of(answer)[0])


def ended(
    link: ClusterLink, node: int, name: str, who: tuple[int, int], *, committed: bool = True, version: int = 3
) -> int:
    answer = ask(
        link,
        node,
        "EndTxn",
        version,
        transactional_id=name,
        producer_id=who[0],
        producer_epoch=who[1],
        committed=committed,
    )
    return int(codes_of(answer)[0])


def joined_by(link: ClusterLink, node: int, name: str, group: str, who: tuple[int, int]) -> int:
    """The code with which a group's offsets become part of a transaction."""
    values = {"transactional_id": name, "producer_id": who[0], "producer_epoch": who[1], "group_id": group}
    return int(codes_of(ask(link, node, "AddOffsetsToTxn", 3, **values))[0])


def committed_with(
    link: ClusterLink, node: int, name: str, group: str, who: tuple[int, int], offset: int, topic: str
) -> int:
    """The code with which an offset of a topic's first partition is committed in a transaction."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
    values = {"transactional_id": name, "producer_id": who[0], "producer_epoch": who[1], "group_id": group}
    topics = [{"name": topic, "partitions": [partition]}]
    return int(codes_of(ask(link, node, "TxnOffsetCommit", 3, **values, topics=topics))[0])


def initialized(link: ClusterLink, node: int, name: str) -> int:
    answer = ask(
        link,
        node,
        "InitProducerId",
        4,
        transactional_id=name,
        transaction_timeout_ms=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    return int(codes_of(answer)[0])


def described(link: ClusterLink, node: int, name: str) -> int:
    return int(codes_of(ask(link, node, "DescribeTransactions", 0, transactional_ids=[name]))[0])


def group_committed(
    link: ClusterLink,
    node: int,
    group: str,
    topic: str,
    note: str = "",
    generation: int = -1,
    member: str = "",
) -> int:
    answer = ask(
        link,
        node,
        "OffsetCommit",
        7,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=None,
        topics=place(topic, committed_offset=1, committed_leader_epoch=-1, committed_metadata=note),
    )
    return int(codes_of(answer)[0])


def joined(link: ClusterLink, node: int, group: str, member: str) -> tuple[int, str]:
    """The code, and the member that the group knows from now on."""
    answer = ask(
        link,
        node,
        "JoinGroup",
        5,
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    return answer.error_code, answer.member_id


def beaten(link: ClusterLink, node: int, group: str, member: str, generation: int) -> int:
    answer = ask(
        link,
        node,
        "Heartbeat",
        3,
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=None,
    )
    return int(answer.error_code)


def created(link: ClusterLink, kafka: Cluster, *topics: dict[str, Any]) -> list[int]:
    """``assignments``: pairs of partition and replicas."""
    wanted = [
        {"num_partitions": 1, "replication_factor": 1, "configs": []}
        | topic
        | {
            "assignments": [
                {"partition_index": number, "broker_ids": replicas} for number, replicas in topic.get("assignments", ())
            ]
        }
        for topic in topics
    ]
    answer = ask(link, kafka.nodes[0], "CreateTopics", 5, topics=wanted, timeout_ms=60_000, validate_only=False)
    return [one.error_code for one in answer.topics]


def owner(link: ClusterLink, name: str) -> tuple[int, int]:
    """Takes a transactional id; producer id and epoch."""
    return link.run(
        lambda: init_producer(
            link,
            name,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            epoch=-1,
            deadline=time.monotonic() + PATIENCE_SECONDS,
        )
    )


def raw(last: int = 0) -> bytes:
    """A batch of one record whose checksum is right; ``last`` is what it says of its last offset."""
    body = plain_records([(b"k", b"v")])
    return stamp(0, last, _NOW_MS, _NOW_MS, 1, body, -1, -1, -1) + body


class RefusalsContract:
    """The fixture ``kafka`` is one node or more, ``writer`` a writer to a topic of its own."""

    def test_batches_that_no_log_takes(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        leader = link.leader(topic, 0) or 0
        good = batch([b"v"])
        assert produced(link, leader, topic, good, acks=2) == INVALID_REQUIRED_ACKS
        assert produced(link, leader, topic, good + good) == INVALID_RECORD
        assert produced(link, leader, topic, b"") == INVALID_RECORD
        assert produced(link, leader, topic, good[:-3]) == INVALID_RECORD
        assert produced(link, leader, topic, good[:10]) == INVALID_RECORD
        assert produced(link, leader, topic, raw(last=4)) == INVALID_RECORD
        assert produced(link, leader, topic, control_batch()) == INVALID_RECORD
        assert produced(link, leader, topic, old_message()) == INVALID_RECORD
        nobodys = batch([b"v"], (4711, 0), 0, transactional=True)
        assert produced(link, leader, topic, nobodys) == codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert produced(link, leader, f"{topic}-none", good) == codes.UNKNOWN_TOPIC_OR_PARTITION
        assert produced(link, leader, topic, good) == codes.NONE

    def test_offsets_that_are_not_in_the_log(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        leader, epoch, _ = led(link, topic)
        none = f"{topic}-none"
        unknown = codes.UNKNOWN_TOPIC_OR_PARTITION
        assert (fetched(link, leader, none, 0)[0], listed(link, leader, none)) == (unknown, unknown)
        assert produced(link, leader, topic, batch([b"a", b"b"])) == codes.NONE
        assert shown(lambda: fetched(link, leader, topic, 2)[0], codes.NONE) == codes.NONE
        for offset in (3, 100):
            assert fetched(link, leader, topic, offset) == (codes.OFFSET_OUT_OF_RANGE, None)
        # Of an epoch that is still to come the leader cannot tell where it ends.
        assert fetched(link, leader, topic, 2, last_epoch=epoch + 5) == (codes.OFFSET_OUT_OF_RANGE, None)

    def test_a_topic_of_the_same_name_has_another_id(self, writer: Writer, kafka: Cluster) -> None:
        link, name = writer.link, writer.topic
        leader = link.leader(name, 0) or 0
        first = link.manager.cluster.topic_id(name)
        assert fetched(link, leader, first, 0) == (codes.NONE, None)
        kafka.admin().delete_topics([name], operation_timeout=60)[name].result(60)
        kafka.create_topic(name)
        assert shown(lambda: bool(link.run(lambda: link.know([name]))[name]), True) is True
        leader, second = link.leader(name, 0) or 0, link.manager.cluster.topic_id(name)
        assert second != first
        assert shown(lambda: fetched(link, leader, second, 0)[0], codes.NONE) == codes.NONE
        assert fetched(link, leader, first, 0) == (codes.UNKNOWN_TOPIC_ID, None)
        # By its name, what was another topic's position is taken for one of this.
        assert fetched(link, leader, name, 0) == (codes.NONE, None)

    def test_producers_that_the_coordinator_does_not_know(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        who = owner(link, topic)
        coordinator = link.run(lambda: link.coordinator(topic))
        stranger = (who[0] + 1000, 0)
        assert added(link, coordinator, topic, topic, stranger) == codes.INVALID_PRODUCER_ID_MAPPING
        assert ended(link, coordinator, topic, stranger) == codes.INVALID_PRODUCER_ID_MAPPING
        assert added(link, coordinator, topic, topic, (who[0], who[1] + 1)) == codes.PRODUCER_FENCED
        stray = batch([b"v"], stranger, 0, transactional=True)
        leader = link.leader(topic, 0) or 0
        wanted = codes.INVALID_PRODUCER_ID_MAPPING
        # The leader asks the coordinator, which it may have to find first.
        assert shown(lambda: produced(link, leader, topic, stray, who=topic), wanted) == wanted
        assert described(link, coordinator, topic) == codes.NONE

    def test_offsets_of_a_transaction(self, kafka: Cluster, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        who = owner(link, topic)
        group, reader = f"{topic}-group", GroupReader(settings(kafka))
        transactions = link.run(lambda: link.coordinator(topic))
        groups = group_coordinator(link, group)
        place = Place(topic, 0)

        def commit(who: tuple[int, int]) -> int:
            return committed_with(link, groups, topic, group, who, 7, topic)

        def offsets() -> dict[Place, CommittedOffset]:
            return dict(reader.offsets([group])[0][0].offsets)

        # The group's coordinator asks that of the transaction, which it may have to find first.
        assert shown(lambda: commit(who), codes.INVALID_TXN_STATE) == codes.INVALID_TXN_STATE
        assert commit((who[0] + 1000, 0)) == codes.INVALID_PRODUCER_ID_MAPPING
        for committed in (False, True):
            # Markers of the transaction before may be on their way.
            assert shown(lambda: joined_by(link, transactions, topic, group, who), codes.NONE) == codes.NONE
            assert commit((who[0], who[1] + 1)) == codes.INVALID_PRODUCER_EPOCH
            assert commit(who) == codes.NONE
            assert offsets() == {}
            assert ended(link, transactions, topic, who, committed=committed) == codes.NONE
        assert shown(offsets, {place: CommittedOffset(7, "note")}) == {place: CommittedOffset(7, "note")}

    def test_transactional_ids_that_were_never_used(self, kafka: Cluster, name: str) -> None:
        with linked(kafka) as link:
            coordinator = link.run(lambda: link.coordinator(name))
            assert shown(lambda: described(link, coordinator, name), TRANSACTIONAL_ID_NOT_FOUND) == (
                TRANSACTIONAL_ID_NOT_FOUND
            )
            assert ended(link, coordinator, name, (4711, 0)) == codes.INVALID_PRODUCER_ID_MAPPING

    def test_commits_that_no_group_takes(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        coordinator = group_coordinator(link, topic)
        assert shown(lambda: group_committed(link, coordinator, topic, topic, generation=3, member="m"), 22) == 22
        assert group_committed(link, coordinator, topic, topic, note="x" * 5000) == METADATA_TOO_LARGE
        assert group_committed(link, coordinator, topic, topic) == codes.NONE
        assert group_committed(link, coordinator, topic, topic, generation=3, member="m") == UNKNOWN_MEMBER

    def test_offsets_of_groups_that_are_not_there_are_not_deleted(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        coordinator = group_coordinator(link, topic)

        def deleted() -> int:
            topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
            return codes_of(ask(link, coordinator, "OffsetDelete", 0, group_id=topic, topics=topics))[0]

        assert shown(deleted, GROUP_NOT_FOUND) == GROUP_NOT_FOUND

    def test_members_that_are_in_no_group(self, kafka: Cluster, name: str) -> None:
        with linked(kafka) as link:
            coordinator = group_coordinator(link, name)

            def left() -> list[int]:
                members = [{"member_id": "nobody", "group_instance_id": None}]
                return codes_of(ask(link, coordinator, "LeaveGroup", 3, group_id=name, members=members))

            # Of any node, whichever coordinates.
            assert shown(lambda: {joined(link, node, "", "")[0] for node in kafka.nodes}, {INVALID_GROUP}) == {
                INVALID_GROUP
            }
            found = shown(lambda: beaten(link, coordinator, name, "nobody", 1), UNKNOWN_MEMBER)
            assert found == UNKNOWN_MEMBER
            assert joined(link, coordinator, name, "nobody")[0] == UNKNOWN_MEMBER
            assert UNKNOWN_MEMBER in left()

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"num_partitions": 0}, INVALID_PARTITIONS),
            ({"replication_factor": 0}, INVALID_REPLICATION_FACTOR),
            ({"assignments": [(0, [1])]}, INVALID_REQUEST),
            ({"num_partitions": -1, "replication_factor": -1, "assignments": [(0, [1, 1])]}, INVALID_ASSIGNMENT),
            ({"num_partitions": -1, "replication_factor": -1, "assignments": [(0, [4711])]}, INVALID_ASSIGNMENT),
            ({"num_partitions": -1, "replication_factor": -1, "assignments": [(1, [1])]}, INVALID_ASSIGNMENT),
            ({"configs": [{"name": "retention.ms", "value": None}]}, INVALID_CONFIG),
        ],
    )
    def test_topics_that_no_controller_makes(
        self, kafka: Cluster, name: str, fields: dict[str, Any], code: int
    ) -> None:
        with linked(kafka) as link:
            assert created(link, kafka, {"name": name, **fields}) == [code]

    def test_topics_that_are_named_twice_are_not_made(self, kafka: Cluster, name: str) -> None:
        with linked(kafka) as link:
            assert set(created(link, kafka, {"name": name}, {"name": name})) == {INVALID_REQUEST}

    def test_settings_that_no_broker_takes(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        with linked(kafka) as link:

            def described(kind: int, resource: str) -> int:
                wanted = {"resource_type": kind, "resource_name": resource, "configuration_keys": None}
                return codes_of(ask(link, kafka.nodes[0], "DescribeConfigs", 1, resources=[wanted]))[0]

            def altered(kind: int, resource: str, key: str, operation: int) -> int:
                change = {"name": key, "config_operation": operation, "value": "1"}
                wanted = {"resource_type": kind, "resource_name": resource, "configs": [change]}
                api = "IncrementalAlterConfigs"
                return codes_of(ask(link, kafka.nodes[0], api, 1, resources=[wanted], validate_only=False))[0]

            assert described(_BROKER, "4711") == INVALID_REQUEST
            assert described(_NO_RESOURCE, "x") == INVALID_REQUEST
            assert altered(_BROKER, "4711", "log.cleaner.threads", _SET) == INVALID_REQUEST
            assert altered(_NO_RESOURCE, "x", "y", _SET) == INVALID_REQUEST
            assert shown(lambda: altered(_TOPIC, name, "retention.ms", _APPEND), INVALID_CONFIG) == INVALID_CONFIG

    def test_bindings_that_no_authorizer_takes(self, guarded: Cluster, name: str) -> None:
        with linked(guarded) as link:
            binding = {
                "resource_type": _TOPIC,
                "resource_name": name,
                "resource_pattern_type": 3,
                "principal": "bob",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
            assert codes_of(ask(link, guarded.nodes[0], "CreateAcls", 2, creations=[binding])) == [INVALID_REQUEST]

    def test_members_of_another_generation(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        coordinator = group_coordinator(link, topic)
        found = shown(lambda: joined(link, coordinator, topic, "")[0], MEMBER_ID_REQUIRED)
        assert found == MEMBER_ID_REQUIRED
        member = joined(link, coordinator, topic, "")[1]
        assert joined(link, coordinator, topic, member) == (codes.NONE, member)
        assert beaten(link, coordinator, topic, member, 99) == ILLEGAL_GENERATION
        assert group_committed(link, coordinator, topic, topic, generation=99, member=member) == ILLEGAL_GENERATION

    def test_an_end_of_nothing(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        who = owner(link, topic)
        coordinator = link.run(lambda: link.coordinator(topic))
        for version in (3, 5):
            assert ended(link, coordinator, topic, who, version=version) == codes.INVALID_TXN_STATE

    def test_the_first_sequence_of_an_epoch_of_which_there_is_a_marker(self, writer: Writer) -> None:
        link, topic = writer.link, writer.topic
        producer_id, epoch = owner(link, topic)
        coordinator = link.run(lambda: link.coordinator(topic))

        def put(epoch: int, sequence: int) -> int:
            data = batch([b"v"], (producer_id, epoch), sequence, transactional=True)
            return int(writer.run(lambda: writer.put(data, version=12)).error_code)

        assert shown(lambda: put(epoch, 0), codes.NONE) == codes.NONE
        # The marker has the epoch after, and so does the next transaction (KIP-890).
        assert ended(link, coordinator, topic, (producer_id, epoch), version=5) == codes.NONE
        wanted = codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert shown(lambda: put(epoch + 1, 5), wanted) == wanted
        assert put(epoch + 1, 0) == codes.NONE


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


def group_coordinator(link: ClusterLink, group: str) -> int:
    """The node that coordinates a group, once there is one."""

    def found() -> tuple[int, int]:
        answer = ask(link, link.run(link.any_node), "FindCoordinator", 4, key_type=0, coordinator_keys=[group])
        (one,) = answer.coordinators
        return one.error_code, one.node_id

    assert shown(lambda: found()[0], codes.NONE) == codes.NONE
    return found()[1]


def control_batch() -> bytes:
    """A COMMIT marker, as only brokers write them."""
    data = bytearray(raw())
    data[_ATTRIBUTES_AT] |= CONTROL
    data[_CHECKSUM_AT:_CHECKED_FROM] = crc32c(bytes(data[_CHECKED_FROM:])).to_bytes(4, "big")
    return bytes(data)


def old_message() -> bytes:
    """A message of magic 1 (KIP-32)."""
    content = bytes([1, 0]) + _NOW_MS.to_bytes(8, "big") + (1).to_bytes(4, "big") + b"k" + (1).to_bytes(4, "big") + b"v"
    message = crc32(content).to_bytes(4, "big") + content
    return bytes(8) + len(message).to_bytes(4, "big") + message
