"""ListOffsets for many partitions of one leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.library import ListOffsetsRequest

#: Of ListOffsets: the one that all brokers here know. Version 8 knows local log starts (KIP-405).
VERSION = 6


def list_offsets_request(places: Mapping[TopicPartition, int], committed: bool, version: int = VERSION) -> Any:
    """``places``: partition -> -2 (earliest), -1 (latest) or a timestamp in ms; ``committed`` asks for the last stable
    offset, and for no record behind it."""
    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), at in places.items():
        by_topic[topic].append((partition, at))
    kind = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        version=version,
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=one, current_leader_epoch=-1, timestamp=at)
                    for one, at in ones
                ],
            )
            for topic, ones in by_topic.items()
        ],
    )
