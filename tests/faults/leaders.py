"""Moves the leaders of partitions between nodes, as an operator or a balancer does."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.link import ClusterLink
from srm_common.testing import LocalKafka

_PREFERRED = 0
_TIMEOUT_MS = 60_000
_NOTHING_TO_DO = 84  # ELECTION_NOT_NEEDED


def shuffle_leaders(kafka: LocalKafka, topics: Iterable[str], dice: random.Random) -> None:
    """Give each partition a random leader among its replicas. Nodes that are down are left out by the election."""
    described = kafka.admin().list_topics(timeout=60).topics
    with ClusterLink(replace(ClusterSettings.plaintext("leaders", kafka.bootstrap_servers), client_id="tests")) as link:

        async def go() -> None:
            await link.open()
            reassign: Any = AlterPartitionReassignmentsRequest.ReassignableTopic
            orders = []
            for topic in topics:
                partitions = []
                for number, partition in described[topic].partitions.items():
                    replicas = list(partition.replicas)
                    dice.shuffle(replicas)
                    partitions.append(reassign.ReassignablePartition(partition_index=number, replicas=replicas))
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
