"""Records of the segments topic ``mm2-offset-segments.<source>.internal``.

Numbers are unsigned varints (LEB128, as protobuf's), strings a varint length and UTF-8 bytes.

    key     version (one byte, 1) | topic | partition | upstream start
    value   upstream end - upstream start | downstream start | number of runs | runs
    run     upstream gap to the end of the run before | head = length << 2 | kind | what the kind says
      kind 0  dense, right after the run before downstream
      kind 1  dense                                        downstream gap
      kind 2  sparse, right after the run before           upstream length - length
      kind 3  sparse                                       downstream gap | upstream length << 1 | foreign

Gaps of the first run count from the segment's starts. All segments of one source partition lie in one
partition of the topic, in the order of their commits, so that a reader sees a later map after the one that it
replaces.
"""

from __future__ import annotations

from srm_common.domain.segments import Run, Segment
from srm_common.errors import CorruptRecord
from srm_common.wire.murmur2 import partition_for

_VERSION = 1


def segment_key_prefix(topic: str, partition: int) -> bytes:
    """What the keys of all segments of one source partition begin with."""
    out = bytearray((_VERSION,))
    name = topic.encode()
    _put(out, len(name))
    out += name
    _put(out, partition)
    return bytes(out)


def segment_partition(topic: str, partition: int, partitions: int) -> int:
    """The partition of the segments topic that takes all segments of one source partition."""
    return partition_for(segment_key_prefix(topic, partition), partitions)


def segment_key(topic: str, partition: int, upstream_start: int) -> bytes:
    """The key alone, for tombstones."""
    out = bytearray(segment_key_prefix(topic, partition))
    _put(out, upstream_start)
    return bytes(out)


def encode_segment(segment: Segment) -> tuple[bytes, bytes]:
    """Key and value of one segment."""
    out = bytearray()
    upstream, downstream = segment.upstream_start, segment.downstream_start
    _put(out, segment.upstream_end - upstream)
    _put(out, downstream)
    _put(out, len(segment.runs))
    for run in segment.runs:
        _put(out, run.upstream - upstream)
        head = run.length << 2
        jumps = run.downstream != downstream
        if run.dense:
            _put(out, head | jumps)
            if jumps:
                _put(out, run.downstream - downstream)
        elif jumps or run.foreign:
            _put(out, head | 3)
            _put(out, run.downstream - downstream)
            _put(out, run.upstream_length << 1 | run.foreign)
        else:
            _put(out, head | 2)
            _put(out, run.upstream_length - run.length)
        upstream, downstream = run.upstream_end, run.downstream_end
    return segment_key(segment.topic, segment.partition, segment.upstream_start), bytes(out)


def decode_segment_key(key: bytes | None) -> tuple[str, int, int]:
    """(topic, partition, upstream start).

    Raises:
        CorruptRecord: the bytes are not such a key, or a newer version wrote it.
    """
    if not key:
        raise CorruptRecord("a segment's key is empty")
    if key[0] != _VERSION:
        raise CorruptRecord(f"a segment's key has version {key[0]}; only {_VERSION} is known")
    try:
        length, at = _take(key, 1)
        topic = key[at : at + length].decode()
        partition, at = _take(key, at + length)
        upstream_start, at = _take(key, at)
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecord(f"the segment key {key[:120].hex()} cannot be read") from error
    if at != len(key):
        raise CorruptRecord(f"the segment key {key[:120].hex()} goes on after its end")
    return topic, partition, upstream_start


def decode_segment(key: bytes | None, value: bytes | None) -> Segment:
    """The segment that ``encode_segment`` was given.

    Raises:
        CorruptRecord: key or value cannot be read (a tombstone is not a segment).
    """
    topic, partition, upstream_start = decode_segment_key(key)
    place = f"the segment of {topic}-{partition} from offset {upstream_start}"
    if value is None:
        raise CorruptRecord(f"{place} is a tombstone")
    try:
        covered, at = _take(value, 0)
        downstream_start, at = _take(value, at)
        count, at = _take(value, at)
        runs = []
        upstream, downstream = upstream_start, downstream_start
        for _ in range(count):
            gap, at = _take(value, at)
            head, at = _take(value, at)
            length = upstream_length = head >> 2
            kind = head & 3
            jump, foreign = 0, False
            if kind == 1:
                jump, at = _take(value, at)
            elif kind == 2:
                extra, at = _take(value, at)
                upstream_length += extra
            elif kind == 3:
                jump, at = _take(value, at)
                both, at = _take(value, at)
                upstream_length, foreign = both >> 1, bool(both & 1)
            run = Run(upstream + gap, upstream_length, downstream + jump, length, foreign)
            runs.append(run)
            upstream, downstream = run.upstream_end, run.downstream_end
    except IndexError:
        raise CorruptRecord(f"{place} ends too early") from None
    if at != len(value):
        raise CorruptRecord(f"{place} goes on after its end")
    if not runs or upstream > upstream_start + covered:
        raise CorruptRecord(f"{place} has no runs, or runs beyond its end")
    return Segment(
        topic, partition, upstream_start, upstream_start + covered, downstream_start, downstream, tuple(runs)
    )


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _take(data: bytes, at: int) -> tuple[int, int]:
    """The varint at ``at`` and the position after it; IndexError where the data end."""
    number = data[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
