"""Requests that brokers may refuse, one function each: the codes that a node answers to plain values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.producer import init_producer
from srm_common.wire.protocol import fetch
from tests.contract.parts import PATIENCE_SECONDS, Cluster, settings, shown
from tests.contract.requests import ask
from tests.contract.requests import codes as codes_of


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


def group_coordinator(link: ClusterLink, group: str) -> int:
    """The node that coordinates a group, once there is one."""

    def found() -> tuple[int, int]:
        answer = ask(link, link.run(link.any_node), "FindCoordinator", 4, key_type=0, coordinator_keys=[group])
        (one,) = answer.coordinators
        return one.error_code, one.node_id

    assert shown(lambda: found()[0], codes.NONE) == codes.NONE
    return found()[1]
