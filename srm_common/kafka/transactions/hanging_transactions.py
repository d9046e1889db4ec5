"""Hanging transactions of a producer: ended according to the coordinator, but not in a partition.

After a broker was killed, the markers of an aborted transaction may never reach its partitions, although the
coordinator reports the transaction complete. The next transaction of the same producer would then commit the aborted
records together with its own. DescribeProducers (KIP-664) shows such a transaction; only an operator can end it.
At a source, those of any producer keep records from being copied.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError
from srm_common.kafka.client.library import DescribeProducersRequest, ListTransactionsRequest
from srm_common.kafka.client.links.link import LATEST, ClusterLink, RetriableFault
from srm_common.kafka.client.links.retriable_fault import OlderBroker
from srm_common.kafka.client.protocol import codes

#: Markers of the last commit are written after its answer, usually within milliseconds.
_MARKERS_SECONDS = 10.0
#: A partition without a leader soon gets one after a broker's start; others must not wait long for one that does not.
_LEADERLESS_SECONDS = 1.0
_PAUSE_SECONDS = 0.05


async def left_open(
    link: ClusterLink, partitions: Iterable[TopicPartition], producer_id: int, wait_seconds: float | None = None
) -> dict[TopicPartition, int]:
    """Where transactions of ``producer_id`` begin that are still open, although none should be.

    Beyond two lists of offsets, only partitions are queried whose last stable offset lags behind the high watermark.
    Requests without an answer are repeated. A partition that still cannot be queried (no right to read it, no leader)
    counts as clean.
    """
    suspects = set(partitions)
    began = time.monotonic()
    limit = _MARKERS_SECONDS if wait_seconds is None else wait_seconds
    while True:
        suspects, silent = await _lagging(link, suspects)
        found, unanswered = await _open(link, suspects, producer_id)
        waited = time.monotonic() - began
        silent = {
            partition
            for partition in silent | unanswered
            if waited < (_MARKERS_SECONDS if link.leader(*partition) is not None else _LEADERLESS_SECONDS)
        }
        if not silent and (not found or waited > limit):
            return found
        suspects = set(found) | silent
        await link.loop.sleep(_PAUSE_SECONDS)
        if silent:
            await link.refresh()


async def blocked_partitions(link: ClusterLink, partitions: set[TopicPartition]) -> set[TopicPartition]:
    """Partitions whose last stable offset is before their end; those that cannot be queried are left out."""
    return (await _lagging(link, partitions))[0]


async def _lagging(
    link: ClusterLink, partitions: set[TopicPartition]
) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """Partitions whose last stable offset is before their end, and those without a response."""
    if not partitions:
        return set(), set()
    stable, _ = await link.offsets(partitions, LATEST, committed=True, timeout_seconds=0)
    ends, _ = await link.offsets(partitions, LATEST, committed=False, timeout_seconds=0)
    listed = stable.keys() & ends.keys()
    return {partition for partition in listed if stable[partition] < ends[partition]}, partitions - listed


async def holders(
    link: ClusterLink, held: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, str | None]]:
    """Whose transactions begin at the last stable offsets of partitions: producer id, and transactional id where the
    coordinators tell. What cannot be asked (Kafka before 2.8 and 3.0, no right, no response) is left out."""
    active, _ = await _active(link, set(held))
    found = {
        place: producer.producer_id
        for place, producers in active.items()
        for producer in producers
        if producer.current_txn_start_offset == held[place]
    }
    names: dict[int, str] = {}
    if found:
        wanted = sorted(set(found.values()))
        answers = await link.ask_each(
            lambda: ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=wanted)
        )
        for answer in answers.values():
            if not isinstance(answer, ClusterError | RetriableFault):
                names |= {state.producer_id: state.transactional_id for state in answer.transaction_states}
    return {place: (producer, names.get(producer)) for place, producer in found.items()}


async def _open(
    link: ClusterLink, partitions: set[TopicPartition], producer_id: int
) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Where a transaction of the producer is open, and the partitions without a response."""
    active, silent = await _active(link, partitions)
    return {
        place: producer.current_txn_start_offset
        for place, producers in active.items()
        for producer in producers
        if producer.producer_id == producer_id and producer.current_txn_start_offset >= 0
    }, silent


async def _active(
    link: ClusterLink, partitions: set[TopicPartition]
) -> tuple[dict[TopicPartition, list[Any]], set[TopicPartition]]:
    """The active producers of partitions, and the partitions without a response. Leaders before 2.8 know none."""
    by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic, partition in partitions:
        leader = link.leader(topic, partition)
        if leader is not None:
            by_leader[leader][topic].append(partition)
    found: dict[TopicPartition, list[Any]] = {}
    silent = {place for place in partitions if link.leader(*place) is None}
    kind = DescribeProducersRequest.TopicRequest
    answers = await link.send_each(
        (
            leader,
            DescribeProducersRequest(
                version=0, topics=[kind(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()]
            ),
        )
        for leader, topics in by_leader.items()
    )
    for topics, answer in zip(by_leader.values(), answers, strict=True):
        if isinstance(answer, OlderBroker):
            continue
        if isinstance(answer, RetriableFault):
            silent |= {TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers}
            continue
        for topic in answer.topics:
            for part in topic.partitions:
                place = TopicPartition(topic.name, part.partition_index)
                if codes.retriable(part.error_code):
                    silent.add(place)
                elif part.error_code == codes.NONE:
                    found[place] = part.active_producers
    return found, silent
