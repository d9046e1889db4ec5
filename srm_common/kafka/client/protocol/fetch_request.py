"""Fetch for many partitions of one broker, without a fetch session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from srm_common.kafka.client.library import FetchRequest
from srm_common.kafka.client.protocol.messages import request_part
from srm_common.wire.protocol import fetch


class FetchFrom(NamedTuple):
    """One partition, from ``offset`` on. Epochs are -1 where they are not known, or not to be checked.

    ``leader_epoch``: a leader with another one refuses (KIP-320). ``last_epoch``: that of the offset before; a leader
    whose log has another one there says where its own ended (KIP-595).
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


def fetch_request(
    wanted: Iterable[FetchFrom],
    *,
    partition_bytes: int,
    max_bytes: int,
    max_wait_ms: int,
    committed: bool,
    rack: str = "",
    ids: Mapping[str, UUID] | None = None,
) -> Any:
    """The broker fills its answer in the order of ``wanted``, topic by topic, up to ``max_bytes``.

    Args:
        committed: up to the last stable offset only, with a list of aborted transactions.
        rack: the reader's, so that the leader may name a nearer replica (KIP-392).
        ids: of the topics, which brokers then compare (KIP-516): they refuse to read from a topic of the same name
            that was created later. Only for brokers that know this version; None: by name.
    """
    kind = FetchRequest.FetchTopic
    topics: dict[str, list[Any]] = {}
    for fetch_from in wanted:
        topics.setdefault(fetch_from.topic, []).append(
            request_part(
                kind.FetchPartition,
                partition=fetch_from.partition,
                current_leader_epoch=fetch_from.leader_epoch,
                fetch_offset=fetch_from.offset,
                last_fetched_epoch=fetch_from.last_epoch,
                log_start_offset=-1,
                partition_max_bytes=partition_bytes,
            )
        )
    if ids is None:
        # The connection takes the newest of these that its broker knows.
        versions = {"min_version": fetch.OLDEST_VERSION, "max_version": fetch.VERSION_BY_NAME}
    else:
        versions = {"version": fetch.VERSION_BY_ID}
    return FetchRequest(
        **versions,
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,
        topics=[
            request_part(kind, topic=topic, partitions=parts)
            if ids is None
            else request_part(kind, topic_id=ids[topic], partitions=parts)
            for topic, parts in topics.items()
        ],
        forgotten_topics_data=[],
        rack_id=rack,
    )
