"""Moves the leaders of partitions between nodes, as an operator or a balancer does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import LocalKafka

_PREFERRED = 0
_TIMEOUT_MS = 60_000
_NOTHING_TO_DO = 84  # ELECTION_NOT_NEEDED


def shuffle_leaders(kafka: LocalKafka, topics: Iterable[str], dice: random.Random) -> None:
    """Give each partition a random leader among its replicas. Nodes that are down are left out by the election."""

    def shuffled(replicas: list[int]) -> list[int]:
        return dice.sample(replicas, len(replicas))

    _elect(kafka, {topic: None for topic in topics}, shuffled)


def move_leader(kafka: LocalKafka, topic: str, partition: int) -> None:
    """Make the next replica of a partition its leader. Metadata tell of it a moment later."""
    _elect(kafka, {topic: partition}, lambda replicas: [*replicas[1:], replicas[0]])


def _elect(kafka: LocalKafka, wanted: Mapping[str, int | None], order: Callable[[list[int]], list[int]]) -> None:
    """Make the first of the replicas, in the order that ``order`` returns, the leader of a topic's partition, or of
    each of them (None)."""
    described = kafka.admin().list_topics(timeout=60).topics
    with ClusterLink(replace(ClusterSettings.plaintext("leaders", kafka.bootstrap_servers), client_id="tests")) as link:

        async def go() -> None:
            await link.open()
            reassign: Any = AlterPartitionReassignmentsRequest.ReassignableTopic
            orders = []
            for topic, only in wanted.items():
                partitions = [
                    reassign.ReassignablePartition(partition_index=number, replicas=order(list(partition.replicas)))
                    for number, partition in described[topic].partitions.items()
                    if only in (None, number)
                ]
                orders.append(reassign(name=topic, partitions=partitions))
            answer = await link.send(
                await link.any_node(),
                AlterPartitionReassignmentsRequest(version=0, timeout_ms=_TIMEOUT_MS, topics=orders),
            )
            assert answer.error_code == 0, answer
            answer = await link.send(
                await link.any_node(),
                ElectLeadersRequest(version=1, election_type=_PREFERRED, topic_partitions=None, timeout_ms=_TIMEOUT_MS),
            )
            assert answer.error_code == 0, answer

        link.run(go)
