"""Records of state topics as batches of an open transaction; usable in slots, too."""

from __future__ import annotations

import time
from collections.abc import Sequence

from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.state_topics import batch_too_large, time_refused
from srm_common.errors import AccessDenied, ClusterError, Fenced, StateTopicInvalid
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.transactions.producer import Producer
from srm_common.wire.batches import codec
from srm_common.wire.batches.batch import TRANSACTIONAL, stamp
from srm_common.wire.state.plain_records import Entry, in_batches, plain_records
from srm_common.wire.varints import Buffer

#: Brokers refuse batches beyond ``max.message.bytes``, which is a little more than 1 MB for state topics, or larger.
STATE_BATCH_BYTES = 900_000


async def produce_state(
    producer: Producer, link: ClusterLink, home: TopicPartition, entries: Sequence[Entry], request_timeout_ms: int
) -> None:
    """Produce records to a partition that is part of the producer's open transaction.

    Raises:
        Fenced: another run took the flow.
        AccessDenied: writing is not allowed.
        StateTopicInvalid: the topic takes no batches of that size.
        ClusterError: the clocks of this machine and of the broker are too far apart.
        RetriableFault: they were refused, or the outcome is unknown; the transaction must not be committed.
    """
    for some in in_batches(entries, STATE_BATCH_BYTES):
        await _produce(producer, link, home, some, request_timeout_ms)


async def _produce(
    producer: Producer, link: ClusterLink, home: TopicPartition, entries: Sequence[Entry], request_timeout_ms: int
) -> None:
    leader = link.leader(*home)
    if leader is None:
        raise RetriableFault(f"{home[0]}-{home[1]} has no leader")
    body: Buffer = plain_records(entries)
    attributes, now_ms = TRANSACTIONAL, int(time.time() * 1000)
    if len(body) > STATE_BATCH_BYTES:  # a single record, which nothing else makes smaller
        body, attributes = codec.compress(codec.ZSTD, body), TRANSACTIONAL | codec.ZSTD
    header = stamp(
        attributes=attributes,
        last_offset_delta=len(entries) - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        record_count=len(entries),
        body=body,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.take(home, len(entries)),
    )
    request = RawProduce(
        producer.produce_version,
        producer.transactional_id,
        request_timeout_ms,
        {home[0]: [(home[1], (header, body))]},
    )
    answer = await link.send(leader, request)
    for part in answer.partitions:
        if part.error_code in codes.FENCED:
            raise Fenced(f"the producer {producer.transactional_id} was fenced: {codes.name(part.error_code)}")
        if part.error_code == codes.TOPIC_AUTHORIZATION_FAILED:
            raise denied(link, home[0])
        if part.error_code == codes.MESSAGE_TOO_LARGE:
            raise StateTopicInvalid(batch_too_large(home[0], link.alias, len(header) + len(body)))
        if part.error_code == codes.INVALID_TIMESTAMP:
            raise ClusterError(time_refused(home[0], link.alias))
        if part.error_code:
            raise RetriableFault(f"{home[0]}-{home[1]}: {codes.name(part.error_code)}")


def denied(link: ClusterLink, topic: str) -> AccessDenied:
    """The error where the cluster refuses writes to a state topic."""
    right = Right("Write", "topic", topic).missing(link.settings)
    return AccessDenied(f"writing to {topic} is not allowed at {link.settings.alias}; {right}")
