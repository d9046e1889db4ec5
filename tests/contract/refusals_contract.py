"""What brokers refuse, and by which code: requests that no client of ours sends.

Each place in the fake cluster that refuses something is reached by this suite, or named with the reason why no real
broker can be made to (``tests/unit/testing/test_fake_cluster_refusals.py``).
"""

from __future__ import annotations

import time
from typing import Any
from zlib import crc32

import pytest
from crc32c import crc32c

from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupReader
from srm_common.wire.batches.batch import CONTROL, stamp
from srm_common.wire.state.plain_records import plain_records
from tests.contract.parts import Cluster, settings, shown
from tests.contract.records_contract import Writer, batch
from tests.contract.refused_requests import (
    added,
    beaten,
    committed_with,
    created,
    described,
    ended,
    fetched,
    group_committed,
    group_coordinator,
    joined,
    joined_by,
    led,
    linked,
    listed,
    owner,
    produced,
)
from tests.contract.requests import ask
from tests.contract.requests import codes as codes_of

METADATA_TOO_LARGE, INVALID_REQUIRED_ACKS, ILLEGAL_GENERATION, INVALID_GROUP, UNKNOWN_MEMBER = 12, 21, 22, 24, 25
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST = 37, 38, 39, 40, 42
GROUP_NOT_FOUND, MEMBER_ID_REQUIRED, INVALID_RECORD, TRANSACTIONAL_ID_NOT_FOUND = 69, 79, 87, 105
#: In the header of a batch.
_CHECKSUM_AT, _CHECKED_FROM, _ATTRIBUTES_AT = 17, 21, 22
_NO_RESOURCE, _TOPIC, _BROKER = 1, 2, 4
_SET, _APPEND = 0, 2
_NOW_MS = int(time.time() * 1000)


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
