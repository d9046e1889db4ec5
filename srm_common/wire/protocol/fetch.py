"""Fetch responses of versions 11 to 13 as views into the receive buffer.

kafka-python decodes these too, but copies every partition's records once more (0.1 CPU-seconds per GB); all else of
the Fetch exchange is the library's. Version 12 is the newest that addresses topics by name, and every broker from 2.7
on speaks it. Version 13 has ids in place of the names (KIP-516), and brokers know it from 3.1 on. Version 11, which is
all that brokers from 2.4 on and some other servers know, does not say where logs diverge. Layout: Kafka's
``FetchResponse.json``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from srm_common.wire.protocol.flexible import skip_tags
from srm_common.wire.varints import read_uvarint

VERSION_BY_NAME, VERSION_BY_ID = 12, 13
#: The oldest that is sent: replicas near the reader (KIP-392).
OLDEST_VERSION = 11
_ID_BYTES = 16

_HEAD = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_REPLICA = struct.Struct(">i")
_COUNT, _LENGTH = struct.Struct(">i"), struct.Struct(">h")
_EPOCH_END = struct.Struct(">iq")
#: The tag of the first offset range that the log does not have as the reader remembers it (KIP-595).
_DIVERGING_TAG = 0


class FetchedPartition(NamedTuple):
    """One partition of an answer. ``aborted`` is (producer id, first offset) pairs; ``records`` is a view.

    ``preferred_replica``: the node to ask instead (KIP-392), -1 for none. ``diverging``: the log does not have what was
    read last; its newest leader epoch up to that one, and the offset after it (KIP-595).
    """

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    records: memoryview
    preferred_replica: int = -1
    diverging: tuple[int, int] | None = None


class FetchAnswer(NamedTuple):
    """A whole response; ``throttle_time_ms`` is how long the broker asks us to wait."""

    throttle_time_ms: int
    error_code: int
    partitions: list[FetchedPartition]


def decode(body: memoryview, names: Mapping[bytes, str] | None = None) -> FetchAnswer:
    """An answer without its response header.

    Args:
        names: of the topics that were asked for, by id; None for an answer of version 12.

    Raises:
        ValueError: a topic was not asked for.
    """
    throttle_time_ms, error_code, _session = _HEAD.unpack_from(body, 0)
    at = _HEAD.size
    topics, at = read_uvarint(body, at)
    fetched_partitions: list[FetchedPartition] = []
    for _ in range(topics - 1):
        if names is None:
            size, at = read_uvarint(body, at)
            topic = bytes(body[at : at + size - 1]).decode()
            at += size - 1
        else:
            topic = names.get(bytes(body[at : at + _ID_BYTES]), "")
            at += _ID_BYTES
            if not topic:
                raise ValueError("a Fetch response has a topic that was not asked for")
        partitions, at = read_uvarint(body, at)
        for _ in range(partitions - 1):
            index, code, high, stable, start = _PARTITION.unpack_from(body, at)
            at += _PARTITION.size
            count, at = read_uvarint(body, at)
            aborted: list[tuple[int, int]] = []
            for _ in range(count - 1):
                aborted.append(_ABORTED.unpack_from(body, at))
                at = skip_tags(body, at + _ABORTED.size)
            (replica,) = _REPLICA.unpack_from(body, at)
            size, at = read_uvarint(body, at + _REPLICA.size)
            length = max(size - 1, 0)
            records = body[at : at + length]
            diverging, at = _diverging(body, at + length)
            fetched_partitions.append(
                FetchedPartition(topic, index, code, high, stable, start, aborted, records, replica, diverging)
            )
        at = skip_tags(body, at)
    return FetchAnswer(throttle_time_ms, error_code, fetched_partitions)


def decode_fixed(body: memoryview) -> FetchAnswer:
    """An answer of version 11, whose lengths are numbers of two and four bytes, without its response header.

    Raises:
        ValueError: a topic has no name, or records are cut off.
    """
    throttle_time_ms, error_code, _session = _HEAD.unpack_from(body, 0)
    (topics,) = _COUNT.unpack_from(body, _HEAD.size)
    at = _HEAD.size + _COUNT.size
    fetched_partitions: list[FetchedPartition] = []
    for _ in range(topics):
        (size,) = _LENGTH.unpack_from(body, at)
        if size < 0:
            raise ValueError("a topic of a Fetch response has no name")
        at += _LENGTH.size
        topic = bytes(body[at : at + size]).decode()
        (partitions,) = _COUNT.unpack_from(body, at + size)
        at += size + _COUNT.size
        for _ in range(partitions):
            index, code, high, stable, start = _PARTITION.unpack_from(body, at)
            (count,) = _COUNT.unpack_from(body, at + _PARTITION.size)
            at += _PARTITION.size + _COUNT.size
            aborted = []
            for _ in range(count):
                aborted.append(_ABORTED.unpack_from(body, at))
                at += _ABORTED.size
            (replica,) = _REPLICA.unpack_from(body, at)
            (size,) = _COUNT.unpack_from(body, at + _REPLICA.size)
            at += _REPLICA.size + _COUNT.size
            records = body[at : at + max(size, 0)]
            if len(records) < size:
                raise ValueError("the records of a Fetch response are cut off")
            at += len(records)
            fetched_partitions.append(
                FetchedPartition(topic, index, code, high, stable, start, aborted, records, replica)
            )
    return FetchAnswer(throttle_time_ms, error_code, fetched_partitions)


def _diverging(body: memoryview, at: int) -> tuple[tuple[int, int] | None, int]:
    """What the tags at ``at`` say of diverging epochs, and the position after them."""
    found = None
    count, at = read_uvarint(body, at)
    for _ in range(count):
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        if tag == _DIVERGING_TAG:
            epoch, end = _EPOCH_END.unpack_from(body, at)
            found = (epoch, end)
        at += size
    return found, at
