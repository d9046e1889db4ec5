"""Produce requests as a list of buffers: our headers, and bodies that stay where they were received.

kafka-python encodes Produce into one contiguous buffer, which would copy every record batch; that encoding is replaced,
and the decoding of its answer, which comes once per few batches and so must cost little. Versions 9 to 12 share this
layout (Kafka's ``ProduceRequest.json``): 9 is the first flexible one, 12 may skip AddPartitionsToTxn (KIP-890), 13
wants topic ids.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from srm_common.wire.protocol.flexible import read_compact_string, skip_tags
from srm_common.wire.varints import Buffer, read_uvarint, write_uvarint

OLDEST_VERSION, NEWEST_VERSION = 9, 12
API_KEY = 0

_HEAD = struct.Struct(">hhih")
#: After length, key and version.
_CORRELATION_AT = 8
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">i")
_FRAME = struct.Struct(">i")
_NO_TAGS = b"\x00"
#: To copy so little costs less than one more buffer in a system call.
_SMALL_BYTES = 128
_ANSWERED = struct.Struct(">ihqqq")
#: After the numbers of a stored batch: no records with errors, no message, no tags.
_STORED, _NOTHING_ELSE = struct.Struct(">ihqqq3s"), b"\x01\x00\x00"
#: Of an answer: length, number, throttle time, count of topics and tags; of each partition.
_ANSWER_BYTES, _ANSWER_PART_BYTES = 15, _STORED.size
_tuple = tuple.__new__  # as in batch.py


def encode(
    *,
    version: int,
    correlation_id: int,
    client_id: str,
    transactional_id: str | None,
    timeout_ms: int,
    topics: Mapping[str, Sequence[tuple[int, Sequence[Buffer]]]],
) -> list[Buffer]:
    """The framed request. ``topics``: name -> (partition, buffers that make up one record batch), acks=all."""
    out: list[Buffer] = []
    start = head = bytearray(_beginning(version, client_id, transactional_id, timeout_ms))
    head += write_uvarint(len(topics) + 1)
    for topic, partitions in topics.items():
        head += _compact_string(topic)
        head += write_uvarint(len(partitions) + 1)
        for partition, buffers in partitions:
            head += _PARTITION.pack(partition) + write_uvarint(sum(map(len, buffers)) + 1)
            for buffer in buffers:
                if len(buffer) <= _SMALL_BYTES:
                    head += buffer
                else:
                    out += (head, buffer)
                    head = bytearray()
            head += _NO_TAGS
        head += _NO_TAGS
    head += _NO_TAGS
    out.append(head)
    _FRAME.pack_into(start, 0, sum(map(len, out)) - _FRAME.size)
    _PARTITION.pack_into(start, _CORRELATION_AT, correlation_id)
    return out


@lru_cache(64)
def _beginning(version: int, client_id: str, transactional_id: str | None, timeout_ms: int) -> bytes:
    """Of a request: the same for all but for its length and number, up to the topics."""
    client = client_id.encode()
    return (
        bytes(_FRAME.size)
        + _HEAD.pack(API_KEY, version, 0, len(client))
        + client
        + _NO_TAGS
        + _compact_string(transactional_id)
        + _ACKS_TIMEOUT.pack(-1, timeout_ms)
    )


def answer_bytes(topics: Mapping[str, Sequence[object]]) -> int:
    """The framed answer to a request with these ``topics`` (see :func:`encode`) is no smaller."""
    return _ANSWER_BYTES + sum([3 + len(topic) + _ANSWER_PART_BYTES * len(parts) for topic, parts in topics.items()])


class StoredPartition(NamedTuple):
    """One partition of an answer: where its batch begins on the target, or why it was refused."""

    topic: str
    partition: int
    error_code: int
    base_offset: int
    error_message: str | None


class ProduceAnswer(NamedTuple):
    """A whole response; ``throttle_time_ms`` is how long the broker asks us to wait."""

    throttle_time_ms: int
    partitions: list[StoredPartition]


def decode(body: Buffer) -> ProduceAnswer:
    """An answer of version 9 to 12 without its response header (Kafka's ``ProduceResponse.json``)."""
    topics, at = read_uvarint(body, 0)
    stored_partitions: list[StoredPartition] = []
    unpack, size = _STORED.unpack_from, _STORED.size
    for _ in range(topics - 1):
        topic, at = read_compact_string(body, at)
        partitions, at = read_uvarint(body, at)
        for _ in range(partitions - 1):
            index, code, base_offset, _append_time, _start, rest = unpack(body, at)
            if rest == _NOTHING_ELSE:
                stored_partitions.append(_tuple(StoredPartition, (topic or "", index, code, base_offset, None)))
                at += size
                continue
            at += _ANSWERED.size
            records, at = read_uvarint(body, at)
            for _ in range(records - 1):
                _message, at = read_compact_string(body, at + 4)  # after the index of the record
                at = skip_tags(body, at)
            message, at = read_compact_string(body, at)
            at = skip_tags(body, at)
            stored_partitions.append(StoredPartition(topic or "", index, code, base_offset, message))
        at = skip_tags(body, at)
    return _tuple(ProduceAnswer, (int.from_bytes(body[at : at + 4], "big"), stored_partitions))


@lru_cache(4096)
def _compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    data = text.encode()
    return write_uvarint(len(data) + 1) + data
