"""ListOffsets for many partitions of one leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

_VERSION = 6


def list_offsets_request(partitions: Iterable[tuple[str, int]], at: int, committed: bool) -> Any:
    """``at`` is -2 (earliest), -1 (latest) or a timestamp in ms; ``committed`` asks for the last stable offset."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    kind = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        version=_VERSION,
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=one, current_leader_epoch=-1, timestamp=at)
                    for one in ones
                ],
            )
            for topic, ones in by_topic.items()
        ],
    )
