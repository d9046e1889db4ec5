"""Kafka's default key hash (``org.apache.kafka.common.utils.Utils.murmur2``)."""

from __future__ import annotations

from struct import unpack_from

_M = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash of ``data`` as an unsigned number (Java shows the same bits signed)."""
    length = len(data)
    words = length >> 2
    h = 0x9747B28C ^ length
    for k in unpack_from(f"<{words}I", data):
        k = k * _M & _WORD
        h = (h * _M & _WORD) ^ ((k ^ k >> 24) * _M & _WORD)
    tail = data[words << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _WORD
    h = (h ^ h >> 13) * _M & _WORD
    return h ^ h >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition that Kafka's producer picks for ``key`` in a topic of ``partitions`` partitions.

    Costs a few microseconds; keys that come again are worth caching at the caller.
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
