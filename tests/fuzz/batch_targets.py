"""Record batches, and everything that is made of them, with checksums that fit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from zlib import crc32

import numpy as np
from crc32c import crc32c

from srm_common.domain.flow import Compression
from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, MAGIC, SourceBatch, parse_header, split, verify
from srm_common.wire.batches.batch_terms import batch_row, copy_batch
from srm_common.wire.batches.codec import LARGEST_BODY, compress, decompress
from srm_common.wire.batches.compared_batches import compared_batch, keyed_records
from srm_common.wire.batches.records import loose_records
from srm_common.wire.batches.visibility import control_type, visible
from srm_common.wire.reencoding import columns, lz4_walk, machine_code, merging, record_walk, row_sums
from srm_common.wire.reencoding.repack import recompress, repack
from srm_common.wire.state.plain_records import newest_of_each_key, read_headers, read_plain_records, timed_records
from tests.fuzz.limits import MOST_BYTES
from tests.fuzz.target import Target
from tests.unit.wire.built_batches import (
    ABORT,
    COMMIT,
    CONTROL,
    TRANSACTIONAL,
    Record,
    batch_bytes,
    marker,
    some,
    stamped,
    varint,
)

_MOST = 1 << 20
_LAST = (1 << 62) - 1
_LENGTH_AT, _CRC_AT = 8, 17
_HEADERS = (("trace-id", b"abc"), ("ü", None), ("", b""))
_ROW = [*some(range(7, 12)), Record(12, 1_700_000_000_000, None, b"", _HEADERS), Record(13, 5, b"", None)]


def legacy(offset: int, magic: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    """An entry of magic 0 or 1."""
    parts = bytes((magic, attributes)) + (struct.pack(">q", 1_700_000_000_000) if magic else b"")
    for part in (key, value):
        parts += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(parts) + 4, crc32(parts)) + parts


def _wrapped(codec: int, magic: int = 1) -> bytes:
    inner = b"".join(legacy(offset, magic, b"k", b"v%d" % offset) for offset in range(3))
    return legacy(9, magic, None, bytes(compress(codec, inner)), codec)


#: Bodies are not compressed: :func:`_fit` does that.
BATCHES: Sequence[bytes] = (
    batch_bytes(_ROW),
    batch_bytes(_ROW, attributes=TRANSACTIONAL, producer_id=5),
    batch_bytes(some([3, 5, 900]), base_offset=1, next_offset=1000),
    batch_bytes(some(range(40), size=300)),
    batch_bytes(some(range(3)), append_time=1_700_000_000_500),
    bytes(marker(20, 5, COMMIT).data),
    bytes(marker(20, 5, ABORT).data),
    batch_bytes([], base_offset=4, next_offset=9),
    legacy(3, 0, b"k", b"v"),
    legacy(3, 1, None, b"v" * 300),
    _wrapped(1),
    _wrapped(2),
    _wrapped(3, 0),
    batch_bytes(some(range(3)), attributes=CONTROL),
    b"".join(batch_bytes(some([offset]), producer_id=7) for offset in range(9)),
    batch_bytes(some(range(4))) + bytes(marker(4, 5, COMMIT).data) + legacy(5, 1, b"k", None),
)


def fit(data: bytes, chance: Random) -> bytes:
    """Entries whose lengths and checksums fit, mostly, and whose bodies are compressed as their attributes say."""
    out, at = bytearray(), 0
    while len(data) - at > MAGIC + 5:
        length = int.from_bytes(data[at + _LENGTH_AT : at + _LENGTH_AT + 4], "big", signed=True)
        end = at + length + 12
        # The last one takes what was added.
        follows = length >= 14 and len(data) - end > MAGIC and data[end + MAGIC] <= 2
        entry = bytearray(data[at : end if follows else len(data)])
        at += len(entry)
        if entry[MAGIC] == 2 and len(entry) >= HEADER_SIZE:
            if chance.random() < 0.4:
                codec = chance.randrange(1, 5)
                entry[22] = entry[22] & ~CODEC_MASK | codec
                packed = bytearray(compress(codec, entry[HEADER_SIZE:]))
                if chance.random() < 0.3 and packed:
                    packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
                entry[HEADER_SIZE:] = packed
            if chance.random() < 0.95:
                entry[_LENGTH_AT : _LENGTH_AT + 4] = struct.pack(">i", len(entry) - 12)
            if chance.random() < 0.97:
                entry[_CRC_AT : _CRC_AT + 4] = struct.pack(">I", crc32c(entry[_CRC_AT + 4 :]))
        elif chance.random() < 0.95:
            entry[_LENGTH_AT : _LENGTH_AT + 4] = struct.pack(">i", len(entry) - 12)
            entry[12:16] = struct.pack(">I", crc32(entry[MAGIC:]))
        out += entry
    return bytes(out + data[at:])


def _each(reads: Callable[[SourceBatch], object]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for batch in split(memoryview(data)):
            reads(batch)

    return read


def _see(data: bytes) -> None:
    seen = visible(split(memoryview(data)), [(5, 0), (7, 3)])
    seen.decide(dict.fromkeys(seen.unproved, True))
    if seen.fault is not None:
        raise seen.fault


def _marker(batch: SourceBatch) -> None:
    verify(batch)
    if batch.header.magic == 2:
        control_type(batch)


class _Plain:
    """Rows are merged in plain Python."""

    def __enter__(self) -> None:
        self._before = merging._compiled, merging._walked, merging._looked
        merging._compiled, merging._walked, merging._looked = None, 0, True

    def __exit__(self, *_: object) -> None:
        merging._compiled, merging._walked, merging._looked = self._before


class _Compiled(_Plain):
    """Rows are merged by compiled loops."""

    def __enter__(self) -> None:
        super().__enter__()
        merging._compiled = merging._compiled_loops()


def _packs(data: bytes, loops: _Plain) -> list[object]:
    """The records that become of a row, with their offsets at the source, and why it ends."""
    batches = [
        batch for batch in split(memoryview(data)) if batch.header.magic < 2 or not batch.header.attributes & CONTROL
    ]
    found: list[object] = []
    with loops:
        try:
            for packed in repack(batches, 1, _LAST, _MOST):
                offsets = [start + number for start, _, records in packed.runs for number in range(records)]
                # What is copied unopened is not looked at.
                if packed.reencoded:
                    body = decompress(packed.attributes & CODEC_MASK, packed.body)
                    header = parse_header(stamped(packed._replace(body=b"")))
                    read = loose_records(SourceBatch(header, memoryview(stamped(packed))))
                    assert [record.offset for record in read] == list(range(len(offsets)))
                    found += zip(offsets, [record._replace(offset=0) for record in read], strict=True)
                    assert len(body) <= LARGEST_BODY
                else:
                    found.append((offsets, bytes(packed.body)))
        except (CorruptBatch, RecordTooLarge) as error:
            found.append(type(error))
    return found


def _repacked(data: bytes) -> None:
    """Plain and compiled loops come to the same."""
    plain, compiled = _packs(data, _Plain()), _packs(data, _Compiled())
    assert plain == compiled, f"plain loops make {plain} of it, compiled ones {compiled}"


def _recompressed(data: bytes) -> None:
    batches = [
        batch for batch in split(memoryview(data)) if batch.header.magic < 2 or not batch.header.attributes & CONTROL
    ]
    for _ in recompress(batches, 1, _LAST, 600, Compression("zstd", 1)):
        pass


def _as_columns(data: bytes) -> None:
    batches = list(split(memoryview(data)))
    if not batches:
        return
    found = columns.decode(batches)
    with suppress(CorruptBatch):
        columns.with_headers(found, columns.parsed_headers(found))
    if found.num_rows:
        for _ in columns.encode(found, 3, 1 << 16, _MOST):
            pass


def _newest(batch: SourceBatch) -> None:
    newest_of_each_key(batch, {}, {})


def _decompressed(data: bytes) -> None:
    body = decompress(data[:1][0] % 6 if data else 0, data[1:])
    assert len(body) <= LARGEST_BODY


_BODY = bytes(compress(0, batch_bytes(some(range(30), size=50))[HEADER_SIZE:]))
BODIES = [bytes((codec,)) + bytes(compress(codec, body)) for codec in range(5) for body in (_BODY, b"", b"a" * 200_000)]


def _unlz4(data: bytes) -> None:
    """Compiled loops read nothing behind the end, and write nothing behind their room."""
    guard, room = b"\xa5" * 64, 4096
    inner = np.frombuffer(data + guard, np.uint8)[: len(data)]
    whole = np.frombuffer(bytearray(guard + bytes(room) + guard), np.uint8)
    out = whole[64 : 64 + room]
    far = lz4_walk.ANYWHERE
    _, place, _ = lz4_walk.unlz4_block(inner, 0, len(data), out, 10, 10, far, far, None, None, 0)
    for end in (place, lz4_walk.unlz4(inner, 0, len(data), out, 10)):
        assert -1 <= end <= room
        assert bytes(whole[:64]) == bytes(whole[-64:]) == guard, "it writes outside its room"


def _walked(data: bytes) -> None:
    """Compiled and plain loops find the same fields, all of them within the body."""
    count = data[0] if data else 0
    body = data[1:]
    fields = np.full((2, record_walk.FIELDS, count), -7, np.int64)
    plain = getattr(record_walk.walk, "py_func", record_walk.walk)
    fault = record_walk.walk(np.frombuffer(body, np.uint8), count, fields[0])
    assert fault == plain(body, count, fields[1])
    assert (fields[0] == fields[1]).all()
    if fault < 0:
        for at, length in ((2, 3), (4, 5), (6, 7)):
            assert (fields[0][at] >= 0).all()
            assert (fields[0][at] + fields[0][length] <= len(body)).all()


def _renumbered(data: bytes) -> None:
    body = np.frombuffer(data[1:], np.uint8)
    count = min(data[0] if data else 0, len(body) // record_walk.LEAST_RECORD)
    out = np.full(len(body) + count * record_walk.MOST_GROWTH + 64, 0xA5, np.uint8)
    room = out[:-64]
    runs = np.zeros((count, 2), np.int64)
    row = np.array([[0, len(body), 7, 5000, 3, 0, 0, count]], np.int64)
    plain = getattr(record_walk.renumber, "py_func", record_walk.renumber)
    found = record_walk.renumber(body, row, 8, 1000, room, runs)
    assert (out[-64:] == 0xA5).all(), "it writes outside its room"
    again = np.zeros((count, 2), np.int64)
    second = np.zeros_like(room)
    with np.errstate(all="ignore"):
        assert found == plain(body, row, 8, 1000, second, again)
    if found[0] > 0:
        assert bytes(room[: found[0]]) == bytes(second[: found[0]])
        assert (runs[: found[2]] == again[: found[2]]).all()


def _headers(data: bytes) -> None:
    read_headers(data)
    count = data[0] if data else 0
    raw = np.frombuffer(data[1:], np.uint8)
    at = np.array([0, len(raw)], np.int32)
    if 2 * count <= len(raw):
        fields = np.zeros((record_walk.HEADER_FIELDS, count), np.int64)
        record_walk.walk_headers(raw, at, np.array([count], np.int64), fields)


def _terms(data: bytes) -> None:
    """One by one, as a row, and by their records."""
    row = batch_row(memoryview(data), 0, _LAST)
    if machine_code.HAS_CRC32C and record_walk.COMPILED and len(data) >= HEADER_SIZE:
        assert row_sums.compiled_row(memoryview(data), 0, _LAST).size in (0, row.size)
    for batch in split(memoryview(data)):
        copy_batch(batch)
        for same_times in (True, False):
            for _ in keyed_records(compared_batch(batch).records(), same_times=same_times):
                pass


_RECORDS = [bytes((len(rows),)) + batch_bytes(rows)[HEADER_SIZE:] for rows in (_ROW, some(range(40)), [])]
_SIZED = [b"\4\2h\2v\2a\1", b"\0", b"\2" + varint(8) + b"trace-id" + varint(3) + b"abc"]

_NAMED = (CorruptBatch,)
#: A body that is read record by record may come to as much, and what is made of it too.
_BODY_BYTES = 2 * LARGEST_BODY + MOST_BYTES
_OF_BODIES = (
    Target("visible", BATCHES, _see, _NAMED, fit),
    Target("control", BATCHES, _each(_marker), _NAMED, fit),
    Target("repack", BATCHES, _repacked, _NAMED, fit),
    Target("recompress", BATCHES, _recompressed, (*_NAMED, RecordTooLarge), fit),
    Target("columns", BATCHES, _as_columns, (*_NAMED, RecordTooLarge), fit),
    Target("plain-records", BATCHES, _each(lambda batch: list(read_plain_records(batch))), _NAMED, fit),
    Target("timed-records", BATCHES, _each(lambda batch: list(timed_records(batch))), _NAMED, fit),
    Target("newest", BATCHES, _each(_newest), _NAMED, fit),
    Target("batch-terms", BATCHES, _terms, _NAMED, fit),
    Target("codec", BODIES, _decompressed, _NAMED, keep=1),
)
TARGETS = (
    *(replace(target, most_bytes=_BODY_BYTES) for target in _OF_BODIES),
    Target("lz4-loop", [one[1:] for one in BODIES if one[0] == 3], _unlz4, ()),
    Target("walk", _RECORDS, _walked, (), keep=1),
    Target("renumber", _RECORDS, _renumbered, (), keep=1),
    Target("headers", _SIZED, _headers, _NAMED, keep=1),
)
