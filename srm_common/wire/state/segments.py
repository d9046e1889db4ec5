"""Records of the segments topic ``mm2-offset-segments.<source>.internal``.

Numbers are unsigned varints (LEB128, as protobuf's) where no width is given, else big-endian; strings a varint length
and UTF-8 bytes. What a reader needs of every record has a fixed width: a flow may have a million of them.

    key     version (one byte, 2) | topic | partition | upstream start (8 bytes)
    value   downstream start (8 bytes) | generation (4 bytes) | upstream end - upstream start | number of runs | runs
    run     upstream gap to the end of the run before | head = length << 2 | kind | what the kind says
      kind 0  dense, right after the run before downstream
      kind 1  dense                                        downstream gap
      kind 2  sparse, right after the run before           upstream length - length
      kind 3  sparse                                       downstream gap | upstream length << 1 | foreign

Gaps of the first run count from the segment's starts. All segments of one source partition lie in one
partition of the topic, in the order of their commits, so that a reader sees a later map after the one that it
replaces.

A joined segment is written long after the chunks that it holds, and belongs where the last of them lay. Its key says
where that was, so that a replacement cannot be mistaken:

    key     version (one byte, 3) | topic | partition | upstream start (8 bytes) | place (8 bytes)
    value   downstream start (8 bytes) | generation (4 bytes) | 0 | size of the body | zlib: body of a value as above

Readers that know version 2 only tell that they cannot read it, and have a gap in their map there.

The fingerprint of either, where it is known, is the record's header ``f``: 12 bytes, as
:mod:`srm_common.domain.offsets.fingerprints` has them. With it, the header ``c`` says what the flow had committed
before (:class:`~srm_common.domain.copied_to.CopiedTo`), where it knows:

    c       downstream start - downstream end before | zigzag of upstream end before - upstream start, unless it is 0

Readers that do not know these headers do not see them. In memory their values lie behind that of the record.
"""

from __future__ import annotations

import struct
import zlib

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.fingerprints import FINGERPRINT_BYTES, Fingerprint
from srm_common.domain.offsets.segments import VALUE_HEAD_BYTES, OffsetSpan, Segment
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptBatch, CorruptRecord
from srm_common.wire.state.mm2 import partition_for
from srm_common.wire.state.plain_records import Headers, read_headers

_VERSION, _JOINED_VERSION = 2, 3
START_BYTES = PLACE_BYTES = 8
#: No segment's body begins with this byte: it covers at least one offset.
_COMPRESSED = 0
#: What a body may at most be unpacked to, before it counts as damaged.
_MOST_BODY_BYTES = 1 << 20
#: The fixed part of a value: downstream start, generation.
VALUE_HEAD = struct.Struct(">QI")
assert VALUE_HEAD.size == VALUE_HEAD_BYTES
_FINGERPRINT_HEADER, _AFTER_HEADER = b"f", b"c"
#: What the headers of nearly all segments begin with: their number, the name of the first, and the length of its value;
#: and the name of the second one, which stands in front of the length of its value.
_ONE_FINGERPRINT = b"\x02\x02f" + bytes((FINGERPRINT_BYTES << 1,))
_BOTH = b"\x04" + _ONE_FINGERPRINT[1:]
_NAMED = b"\x02c"
_AFTER_AT = len(_BOTH) + FINGERPRINT_BYTES
_AFTER_LENGTH_AT = _AFTER_AT + len(_NAMED)


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
    return segment_key_prefix(topic, partition) + upstream_start.to_bytes(START_BYTES, "big")


def joined_key(topic: str, partition: int, upstream_start: int, place: int) -> bytes:
    """The key of a joined segment; ``place`` is the offset, in the segments topic, of the last that it holds."""
    key = segment_key(topic, partition, upstream_start)
    return bytes((_JOINED_VERSION,)) + key[1:] + place.to_bytes(PLACE_BYTES, "big")


def place_of_key(key: bytes) -> int | None:
    """The place that a joined segment's key names, None where the key is another's."""
    joined = key[:1] == bytes((_JOINED_VERSION,))
    return int.from_bytes(key[-PLACE_BYTES:], "big") if joined else None


def plain_key(key: bytes) -> bytes:
    """The key with the same start that a segment of one chunk has; it alone says what a joined one's begins with."""
    return bytes((_VERSION,)) + key[1:-PLACE_BYTES] if place_of_key(key) is not None else key


def segment_headers(segment: Segment) -> Headers:
    """The headers of the segment's record."""
    return headers_of(segment.fingerprint, segment.after, segment.upstream_start, segment.downstream_start)


def headers_of(
    fingerprint: Fingerprint | None, after: CopiedTo | None, upstream_start: int, downstream_start: int
) -> Headers:
    """The headers of the record of a segment that begins there; ``after`` is what had been committed before."""
    if fingerprint is None:
        return ()
    first = (_FINGERPRINT_HEADER, fingerprint.to_bytes())
    if after is None:
        return (first,)
    distances = bytearray()
    _put(distances, downstream_start - after.downstream_end)
    back = after.upstream_end - upstream_start
    if back:
        _put(distances, back << 1 if back > 0 else (-back << 1) - 1)
    return first, (_AFTER_HEADER, bytes(distances))


def header_bytes(headers: bytes) -> bytes:
    """What the headers of a segment's record say, one value behind the other; empty where there is no fingerprint.

    Args:
        headers: from their number on.

    Raises:
        CorruptRecord: they cannot be read, or the fingerprint has another length.
    """
    if headers in (b"", b"\0"):
        return b""
    if len(headers) == _AFTER_AT and headers.startswith(_ONE_FINGERPRINT):
        return headers[len(_ONE_FINGERPRINT) :]
    if headers.startswith(_BOTH) and headers[_AFTER_AT:_AFTER_LENGTH_AT] == _NAMED:
        after = headers[_AFTER_LENGTH_AT + 1 :]
        if headers[_AFTER_LENGTH_AT : _AFTER_LENGTH_AT + 1] == bytes((len(after) << 1,)):
            return headers[len(_BOTH) : _AFTER_AT] + after
    try:
        found = read_headers(headers)
    except CorruptBatch as error:
        raise CorruptRecord(f"the headers of a segment cannot be read: {error}") from error
    fingerprint = found.get(_FINGERPRINT_HEADER, b"")
    return Fingerprint.from_bytes(fingerprint).to_bytes() + found.get(_AFTER_HEADER, b"") if fingerprint else b""


def encode_joined(segment: Segment, place: int) -> tuple[bytes, bytes]:
    """Key and value of a joined segment; ``place`` as :func:`joined_key` takes it."""
    value = encode_segment(segment)[1]
    out = bytearray(value[:VALUE_HEAD_BYTES])
    out.append(_COMPRESSED)
    _put(out, len(value) - VALUE_HEAD_BYTES)
    out += zlib.compress(value[VALUE_HEAD_BYTES:])
    return joined_key(segment.topic, segment.partition, segment.upstream_start, place), bytes(out)


def body_bytes(value: bytes, at: int = 0) -> int:
    """What the runs in a value take before compression, about; the value begins at ``at``."""
    if not is_joined(value, at):
        return len(value) - at - VALUE_HEAD_BYTES
    return _take(value, at + VALUE_HEAD_BYTES + 1)[0]


def is_joined(value: bytes, at: int = 0) -> bool:
    """Whether the value that begins at ``at`` is a joined segment's."""
    return value[at + VALUE_HEAD_BYTES] == _COMPRESSED


def encode_segment(segment: Segment) -> tuple[bytes, bytes]:
    """Key and value of the segment of one chunk."""
    out = bytearray(VALUE_HEAD.pack(segment.downstream_start, segment.generation))
    upstream, downstream = segment.upstream_start, segment.downstream_start
    _put(out, segment.upstream_end - upstream)
    _put(out, len(segment.runs))
    append = out.append
    for start, upstream_length, place, length, foreign in segment.runs:
        gap = start - upstream
        if gap < 128 and length < 32 and upstream_length == length and place == downstream and not foreign:
            # Nearly all runs of a compacted topic.
            append(gap)
            append(length << 2)
            upstream, downstream = start + length, place + length
            continue
        _put(out, gap)
        head = length << 2
        jumps = place != downstream
        if upstream_length == length and not foreign:
            _put(out, head | jumps)
            if jumps:
                _put(out, place - downstream)
        elif jumps or foreign:
            _put(out, head | 3)
            _put(out, place - downstream)
            _put(out, upstream_length << 1 | foreign)
        else:
            _put(out, head | 2)
            _put(out, upstream_length - length)
        upstream, downstream = start + upstream_length, place + length
    return segment_key(segment.topic, segment.partition, segment.upstream_start), bytes(out)


def decode_segment_key(key: bytes | None) -> tuple[str, int, int]:
    """(topic, partition, upstream start).

    Raises:
        CorruptRecord: the bytes are not such a key, or another version wrote it.
    """
    if not key:
        raise CorruptRecord("a segment's key is empty")
    key = plain_key(key)
    topic, partition = decode_segment_key_prefix(key[:-START_BYTES])
    return topic, partition, int.from_bytes(key[-START_BYTES:], "big")


def decode_segment_key_prefix(prefix: bytes) -> TopicPartition:
    """(topic, partition) of a key without its upstream start. Raises as :func:`decode_segment_key`."""
    if prefix and prefix[0] != _VERSION:
        raise CorruptRecord(f"a segment's key has version {prefix[0]}; {_VERSION} and {_JOINED_VERSION} are known")
    try:
        length, at = _take(prefix, 1)
        topic = prefix[at : at + length].decode()
        partition, at = _take(prefix, at + length)
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecord(f"the segment key that begins with {prefix[:120].hex()} cannot be read") from error
    if at != len(prefix):
        raise CorruptRecord(f"the segment key that begins with {prefix[:120].hex()} continues after its end")
    return TopicPartition(topic, partition)


def decode_segment(key: bytes | None, value: bytes | None, headers: bytes = b"") -> Segment:
    """The segment that ``encode_segment`` and ``segment_headers`` were given.

    Raises:
        CorruptRecord: key, value or headers cannot be read (a tombstone is not a segment).
    """
    return decode_segment_value(*decode_segment_key(key), value and value + header_bytes(headers))


def decode_segment_value(topic: str, partition: int, upstream_start: int, value: bytes | None) -> Segment:
    """The segment of a key that was decoded before; :func:`header_bytes` may lie behind the value. Raises as
    :func:`decode_segment`."""
    if value is None:
        raise CorruptRecord(f"{_place(topic, partition, upstream_start)} is a tombstone")
    try:
        downstream_start, generation = VALUE_HEAD.unpack_from(value)
        joined = is_joined(value)
        if joined:
            value = _unpacked(value)
        covered, at = _take(value, VALUE_HEAD_BYTES)
        count, at = _take(value, at)
        runs = []
        upstream, downstream = upstream_start, downstream_start
        for _ in range(count):
            gap = value[at]
            at += 1
            if gap > 0x7F:
                gap, at = _take(value, at - 1)
            head = value[at]
            at += 1
            if head > 0x7F:
                head, at = _take(value, at - 1)
            length = upstream_length = head >> 2
            upstream += gap
            kind = head & 3
            foreign = False
            if kind == 1:
                jump, at = _take(value, at)
                downstream += jump
            elif kind == 2:
                extra, at = _take(value, at)
                upstream_length += extra
            elif kind == 3:
                jump, at = _take(value, at)
                downstream += jump
                both, at = _take(value, at)
                upstream_length, foreign = both >> 1, bool(both & 1)
            runs.append(OffsetSpan(upstream, upstream_length, downstream, length, foreign))
            upstream += upstream_length
            downstream += length
        fingerprint: Fingerprint | None = None
        after: CopiedTo | None = None
        if len(value) - at >= FINGERPRINT_BYTES:
            fingerprint = Fingerprint.from_bytes(value[at : at + FINGERPRINT_BYTES])
            at += FINGERPRINT_BYTES
            if at < len(value):
                after, at = _after(value, at, upstream_start, downstream_start)
    except (IndexError, struct.error, zlib.error):
        raise CorruptRecord(f"{_place(topic, partition, upstream_start)} ends too early") from None
    if at != len(value):
        raise CorruptRecord(f"{_place(topic, partition, upstream_start)} continues after its end")
    if not runs or upstream > upstream_start + covered:
        raise CorruptRecord(f"{_place(topic, partition, upstream_start)} has no runs, or runs beyond its end")
    return Segment(
        topic,
        partition,
        upstream_start,
        upstream_start + covered,
        downstream_start,
        downstream,
        tuple(runs),
        generation,
        joined,
        fingerprint,
        after,
    )


def _after(value: bytes, at: int, upstream_start: int, downstream_start: int) -> tuple[CopiedTo, int]:
    gap, at = _take(value, at)
    back = 0
    if at < len(value):
        zigzag, at = _take(value, at)
        back = -(zigzag + 1 >> 1) if zigzag & 1 else zigzag >> 1
    return CopiedTo(upstream_start + back, downstream_start - gap), at


def _unpacked(value: bytes) -> bytes:
    """The value without compression; a wrong length is detected in its body."""
    size, at = _take(value, VALUE_HEAD_BYTES + 1)
    unpacking = zlib.decompressobj()
    body = unpacking.decompress(value[at:], min(size, _MOST_BODY_BYTES) + 1)
    return value[:VALUE_HEAD_BYTES] + body + unpacking.unused_data


def _place(topic: str, partition: int, upstream_start: int) -> str:
    return f"the segment of {topic}-{partition} from offset {upstream_start}"


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _take(data: bytes, at: int) -> tuple[int, int]:
    """The varint at ``at`` and the position after it; IndexError where the data end, or after ten bytes of a number."""
    number = data[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError
