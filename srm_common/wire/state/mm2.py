"""MirrorMaker 2's own records, byte for byte.

Source offsets are Kafka Connect's JSON (``JsonConverter`` without schemas); heartbeats, checkpoints and
offset syncs are Kafka protocol structs, big-endian: INT16, INT32, INT64, and STRING as an INT16 length and
UTF-8 bytes (``org.apache.kafka.connect.mirror.{Heartbeat,Checkpoint,OffsetSync}``).
"""

from __future__ import annotations

import json
import struct
from struct import unpack_from

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.errors import CorruptRecord
from srm_common.wire.state.plain_records import Headers, read_headers

# Kafka's default key hash (``org.apache.kafka.common.utils.Utils.murmur2``).


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


# Headers of the record of a source offset: the leader epoch of the last offset copied, where the copy ends, and a
# position of 0.
#
# MirrorMaker 2 and Kafka Connect read the keys and values of these records only, which stay as they write them. So
# records written by them, by an operator or by software without these headers have no epoch, and nothing is
# checked then; nor do they say where the copy ends.
#
# A value names the last offset copied, so it cannot say that offset 0 is the next one: without an offset it means "no
# position", for which a rule says where to begin. The last header makes that difference.


EPOCH_HEADER = b"srm.leader.epoch"
COPIED_TO_HEADER = b"srm.copied.to"
_FIRST = b"srm.first.offset"
#: To a value without an offset: copying continues at offset 0, and what is missing there is lost data.
FROM_ZERO: Headers = ((_FIRST, b"0"),)
_LARGEST = (1 << 31) - 1


def epoch_headers(epoch: int) -> Headers:
    """The headers to write; none where the epoch is not known (-1)."""
    return ((EPOCH_HEADER, b"%d" % epoch),) if epoch >= 0 else ()


def copied_to_headers(copied_to: CopiedTo | None, position: int) -> Headers:
    """The header to write with a ``position``; none if it is unknown. The upstream end is left out if it equals the
    position, as after nearly every commit."""
    if copied_to is None:
        return ()
    upstream, downstream = copied_to
    value = b"%d" % downstream if upstream == position else b"%d,%d" % (downstream, upstream)
    return ((COPIED_TO_HEADER, value),)


def epoch_in(headers: bytes) -> int:
    """The epoch in a record's headers; -1 if they have none.

    Raises:
        CorruptBatch: they cannot be read.
    """
    text = read_headers(headers).get(EPOCH_HEADER, b"")
    return int(text) if text.isdigit() and int(text) <= _LARGEST else -1


def copied_to_in(headers: bytes, position: int) -> CopiedTo | None:
    """The inverse of :func:`copied_to_headers`; None where the headers do not tell.

    Raises:
        CorruptBatch: they cannot be read.
    """
    downstream, comma, upstream = read_headers(headers).get(COPIED_TO_HEADER, b"").partition(b",")
    if not _is_offset(downstream) or (comma and not _is_offset(upstream)):
        return None
    return CopiedTo(int(upstream) if comma else position, int(downstream))


def _is_offset(text: bytes) -> bool:
    return text.isdigit() and len(text) < 20


def from_zero(headers: bytes) -> bool:
    """Whether a record's headers are :data:`FROM_ZERO`.

    Raises:
        CorruptBatch: they cannot be read.
    """
    return read_headers(headers).get(_FIRST) == b"0"


SOURCE_CONNECTOR = "MirrorSourceConnector"

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_VERSION = 0
#: Longest text in a record, in UTF-8.
MAX_STRING_BYTES = 32767


def _json_string(text: str) -> str:
    """As Jackson writes it: upper-case hex below U+0020, surrogate pairs above U+FFFF, the rest raw."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:  # as all names of topics
        return f'"{text}"'
    out = []
    for char in text:
        number = ord(char)
        if char in _SHORT_ESCAPES:
            out.append(_SHORT_ESCAPES[char])
        elif number < 0x20:
            out.append(f"\\u{number:04X}")
        elif number > 0xFFFF:
            number -= 0x10000
            out.append(f"\\u{0xD800 + (number >> 10):04X}\\u{0xDC00 + (number & 0x3FF):04X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def source_offset_key(source_alias: str, topic: str, partition: int, connector: str = SOURCE_CONNECTOR) -> bytes:
    """The key of one source partition in ``mm2-offsets.<source>.internal``.

    MirrorMaker 2 compares raw bytes, so the order of the object's keys (that of Java's ``HashMap``) and the
    absence of white space matter.
    """
    return (
        f'[{_json_string(connector)},{{"cluster":{_json_string(source_alias)},'
        f'"partition":{partition:d},"topic":{_json_string(topic)}}}]'
    ).encode()


def source_offset_value(offset: int) -> bytes:
    """The value of one source partition: ``offset`` is the last one copied, not the next one to read."""
    return b'{"offset":%d}' % offset


def parse_source_offset_key(key: bytes | None) -> tuple[str, str, str, int] | None:
    """(connector, alias, topic, partition), or None when MirrorMaker 2's source connector would not find it.

    That is so for the entries of its other connectors, for every other order or spacing, and for text that is not in
    Unicode.
    """
    try:
        match json.loads((key or b"").decode()):
            case [str(connector), {"cluster": str(alias), "partition": int(partition), "topic": str(topic)}]:
                if source_offset_key(alias, topic, partition, connector) == key:
                    return connector, alias, topic, partition
    except (ValueError, RecursionError):
        pass
    return None


def parse_source_offset_value(value: bytes | None) -> int | None:
    """The offset of the last record copied, or None for "no position".

    A tombstone, a missing or null ``offset`` and a negative number mean "no position", as in MirrorMaker 2.

    Raises:
        CorruptRecord: the bytes are not a JSON object, or ``offset`` is not a 64-bit integer.
    """
    if value is None:
        return None
    try:
        parsed = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptRecord(f"{_shown(value)} is not JSON") from error
    if parsed is None:
        return None
    if not isinstance(parsed, dict):
        raise CorruptRecord(f"{_shown(value)} is not a JSON object")
    offset = parsed.get("offset")
    if offset is None:
        return None
    if not isinstance(offset, int) or isinstance(offset, bool) or offset >= 1 << 63:
        raise CorruptRecord(f"the offset in {_shown(value)} is not a 64-bit integer")
    return offset if offset >= 0 else None


def encode_heartbeat(beat: Heartbeat) -> tuple[bytes, bytes]:
    """Key and value; the record's own timestamp must be ``beat.timestamp_ms`` too."""
    return _string(beat.source) + _string(beat.target), struct.pack(">hq", _VERSION, beat.timestamp_ms)


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat:
    """Raises: CorruptRecord."""
    k, v = _Reader("heartbeat key", key), _Reader("heartbeat value", value)
    v.version()
    return Heartbeat(k.string(), k.string(), v.int64())


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Key and value of a record of ``<source>.checkpoints.internal``."""
    key = _string(checkpoint.group) + _string(checkpoint.topic) + struct.pack(">i", checkpoint.partition)
    value = struct.pack(">hqq", _VERSION, checkpoint.upstream, checkpoint.downstream)
    return key, value + _string(checkpoint.metadata)


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    """Raises: CorruptRecord."""
    k, v = _Reader("checkpoint key", key), _Reader("checkpoint value", value)
    v.version()
    return Checkpoint(k.string(), k.string(), k.int32(), v.int64(), v.int64(), v.string())


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Key and value of a record of the offset-syncs topic; neither carries a version."""
    key = _string(sync.topic) + struct.pack(">i", sync.partition)
    return key, struct.pack(">qq", sync.upstream, sync.downstream)


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    """Raises: CorruptRecord."""
    k, v = _Reader("offset-sync key", key), _Reader("offset-sync value", value)
    return OffsetSync(k.string(), k.int32(), v.int64(), v.int64())


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ValueError(f"{text[:40]!r}... has {len(data)} bytes; a STRING takes {MAX_STRING_BYTES}")
    return struct.pack(">h", len(data)) + data


def _shown(data: bytes, limit: int = 120) -> str:
    return repr(data[:limit])[1:] + ("..." if len(data) > limit else "")


class _Reader:
    """Reads fields one after another; trailing bytes are ignored, as Kafka's decoder does."""

    def __init__(self, what: str, data: bytes | None) -> None:
        if data is None:
            raise CorruptRecord(f"the {what} is null")
        self._what = what
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise CorruptRecord(f"the {self._what} {_shown(self._data)} ends too early")
        self._at += count
        return piece

    def version(self) -> None:
        version = int.from_bytes(self._take(2), "big", signed=True)
        if version != _VERSION:
            raise CorruptRecord(f"the {self._what} has version {version}; only {_VERSION} is known")

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def string(self) -> str:
        length = int.from_bytes(self._take(2), "big", signed=True)
        if length < 0:
            raise CorruptRecord(f"the {self._what} {_shown(self._data)} has a string of negative length")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"the {self._what} {_shown(self._data)} is not UTF-8") from error
