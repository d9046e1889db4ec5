"""Fetch version 12 answers as views into the receive buffer.

kafka-python decodes these too, but copies every partition's records once more (0.1 CPU-seconds per GB); all else of
the Fetch exchange is the library's. Version 12 is the newest that addresses topics by name (KIP-516 came with 13),
and every broker from 2.7 on speaks it. Layout: Kafka's ``FetchResponse.json``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from srm_common.wire.flexible import read_uvarint, skip_tags

VERSION = 12

_HEAD = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


class FetchedPartition(NamedTuple):
    """One partition of an answer. ``aborted`` is (producer id, first offset) pairs; ``records`` is a view."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    records: memoryview


class FetchAnswer(NamedTuple):
    """A whole answer; ``throttle_time_ms`` is what the broker asks us to wait."""

    throttle_time_ms: int
    error_code: int
    partitions: list[FetchedPartition]


def decode(body: memoryview) -> FetchAnswer:
    """An answer without its response header."""
    throttle_time_ms, error_code, _session = _HEAD.unpack_from(body, 0)
    at = _HEAD.size
    topics, at = read_uvarint(body, at)
    found: list[FetchedPartition] = []
    for _ in range(topics - 1):
        size, at = read_uvarint(body, at)
        topic = bytes(body[at : at + size - 1]).decode()
        at += size - 1
        partitions, at = read_uvarint(body, at)
        for _ in range(partitions - 1):
            index, code, high, stable, start = _PARTITION.unpack_from(body, at)
            at += _PARTITION.size
            count, at = read_uvarint(body, at)
            aborted: list[tuple[int, int]] = []
            for _ in range(count - 1):
                aborted.append(_ABORTED.unpack_from(body, at))
                at = skip_tags(body, at + _ABORTED.size)
            at += 4  # preferred read replica
            size, at = read_uvarint(body, at)
            length = max(size - 1, 0)
            found.append(FetchedPartition(topic, index, code, high, stable, start, aborted, body[at : at + length]))
            at = skip_tags(body, at + length)
        at = skip_tags(body, at)
    return FetchAnswer(throttle_time_ms, error_code, found)
