"""Writes records again without taking them apart: of one batch that cannot stay as it is, or of a row of tiny ones.

Each record's varints are walked and everything from the key on is copied as one slice; no record becomes a Python
object. Offset deltas are renumbered to 0..n-1 (a copied hole would be refused, and a header patched to hide one poisons
an uncompressed target partition), and timestamp deltas are shifted where batches with different base times are merged.
A LogAppendTime batch becomes CreateTime with every record at the append time, which is what a consumer of the source
sees.

The walk is plain Python at first. A process that has walked many records, or has many before it, goes on with loops
that numba has compiled (:mod:`srm_common.wire.reencoding.batch_walk`), where it is installed: to load them takes as
long as they save on those records. Where nothing can be kept of what is compiled, as in read-only containers, it stays
with plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    Header,
    Packed,
    SourceBatch,
    UpstreamRun,
    split,
    stamp,
    verify,
)
from srm_common.wire.batches.codec import LZ4, NONE, compress, decompress
from srm_common.wire.batches.records import ends_inside, packed_records, start_time
from srm_common.wire.reencoding.small_batches import SmallBatches
from srm_common.wire.state.plain_records import plain_records
from srm_common.wire.varints import MOST_VARINT_BYTES, Buffer, read_varint, signed64, write_varint

#: Of so many small records each process that copies them loads the compiled loops.
MANY_RECORDS = 400_000

_VARINTS = [write_varint(value) for value in range(1 << 15)]
#: So much is done in plain Python, for about half a second, before the compiled loops are loaded; with so much left of
#: a partition they are at once. Two units are what they save on a small record; where LZ4 need not be compressed again,
#: they save one on so many compressed bytes.
_PLAIN_WORK, _MUCH_WORK, _LZ4_BYTES = 500_000, 2 * MANY_RECORDS, 40

#: Bodies with their headers, wanted offsets (the last one exclusive), and the time to count from -> the records of all
#: of them as one body, how many there are, and which offsets they had.
Renumber = Callable[[Sequence[tuple[Header, Buffer]], int, int | None, int], tuple[Buffer, int, list[UpstreamRun]]]


class _Loops(NamedTuple):
    """What is compiled in :mod:`srm_common.wire.reencoding.batch_walk`, :mod:`srm_common.wire.reencoding.holes` and
    :mod:`srm_common.wire.reencoding.holed_rows`."""

    merge_small: Callable[[Sequence[SourceBatch], int, int, int | None], tuple[Packed | None, int]]
    renumber: Renumber
    close_holes: Callable[[SourceBatch], Packed | None]
    small_batches: Callable[[memoryview], SmallBatches | None]
    close_row: Callable[[SmallBatches, int, int, int, int], list[Packed]]


_compiled: _Loops | None = None
_walked = 0
#: Whether they were looked for: where numba is not installed, that is asked every so many records only.
_looked = False


def _loops(first: Header | None = None, last_offset: int | None = None) -> _Loops | None:
    """The compiled loops; None for plain Python.

    Args:
        first: of the batch that is at hand.
        last_offset: where the wanted offsets of its partition end (exclusive), if they do.
    """
    global _compiled, _walked, _looked
    if _compiled is None and (_walked >= _PLAIN_WORK or (not _looked and _left(first, last_offset) >= _MUCH_WORK)):
        _walked, _looked = 0, True
        _compiled = _kept_loops()
    return _compiled


def load() -> None:
    """Load the compiled loops into a process from which workers are forked, and take batches through them, which loads
    what numba has compiled. Where they are not kept nothing happens."""
    global _compiled
    _compiled = _kept_loops()
    if _compiled is None:
        return
    count = 4
    records = bytearray(plain_records([(b"key", b"value")] * count))
    for number in range(count):
        # Its length, attributes and time delta are a byte each; then comes the offset delta, with a hole after each.
        records[number * len(records) // count + 3] = 2 * 2 * number
    for codec in (LZ4, NONE):
        body = compress(codec, bytes(records))
        data = memoryview(stamp(codec, 2 * count, 0, 0, count, body, -1, -1, -1) + body)
        batches = list(split(data))
        row = _compiled.small_batches(data)
        if row is not None:
            _compiled.close_row(row, 0, 0, 2 * count, 1 << 20)
        _compiled.merge_small(batches, 0, 1 << 20, None)
        _compiled.close_holes(batches[0])
        merge(batches, 1, 1 << 20)


def _kept_loops() -> _Loops | None:
    if find_spec("numba") is None:
        return None
    from srm_common.wire.reencoding import record_walk

    return _compiled_loops() if record_walk.KEPT else None


def _compiled_loops() -> _Loops:
    from srm_common.wire.reencoding import batch_walk, holed_rows, holes

    return _Loops(
        batch_walk.merge_small,
        batch_walk.renumber_bodies,
        holes.close_holes,
        batch_walk.small_batches,
        holed_rows.close_row,
    )


def _left(first: Header | None, last_offset: int | None) -> int:
    """The work that is left of a partition. The log of a compacted topic has the more holes the older it is, and none
    at its end: on the way there, half of those that this batch has are in it."""
    if first is None or last_offset is None or first.record_count < 1:
        return 0
    offsets = max(1, first.last_offset_delta + 1)
    records = (last_offset - first.base_offset) * (offsets + first.record_count) // (2 * offsets)
    return records * _work(first) // first.record_count


def _work(header: Header) -> int:
    """What the compiled loops save on a batch."""
    # A small record is one for itself and one for its bytes, in whatever codec.
    lz4 = header.attributes & CODEC_MASK == LZ4
    return header.record_count + max(header.record_count, header.length // _LZ4_BYTES if lz4 else 0)


def small_batches(records: memoryview) -> SmallBatches | None:
    """The batches of an answer as a row, where the loops are loaded and take all of them."""
    return None if _compiled is None else _compiled.small_batches(records)


def close_row(
    batches: SmallBatches, start: int, first_offset: int, end_offset: int, max_message_bytes: int
) -> list[Packed]:
    """Batches from the one of the number ``start`` on without their holes, checksums verified; none where the first one
    has to go another way, or the loops are not loaded."""
    if _compiled is None:
        return []
    return _compiled.close_row(batches, start, first_offset, end_offset, max_message_bytes)


def merge_row(
    batches: Sequence[SourceBatch], first_offset: int, target_bytes: int, last_offset: int | None = None
) -> tuple[Packed | None, int]:
    """As :func:`merge` of batches of magic 2 whose checksums were not looked at yet; stops before a corrupt one.

    Raises:
        CorruptBatch: the first batch is corrupt.
    """
    loops = _loops(batches[0].header, last_offset)
    if loops is not None:
        packed, taken = loops.merge_small(batches, first_offset, target_bytes, last_offset)
        if taken:
            return packed, taken
    verify(batches[0])
    end = 1
    while end < len(batches):
        try:
            verify(batches[end])
        except CorruptBatch:
            break
        end += 1
    return merge(batches[:end], first_offset, target_bytes, last_offset)


def rewrite(batch: SourceBatch, first_offset: int, last_offset: int | None = None) -> Packed | None:
    """One batch of magic 2, whose checksum is right, as :func:`merge` makes it.

    Raises:
        CorruptBatch: a body that cannot be walked.
    """
    header = batch.header
    loops = _loops(header, last_offset)
    if (
        loops is not None
        and first_offset <= header.base_offset
        and (last_offset is None or header.next_offset <= last_offset)
    ):
        packed = loops.close_holes(batch)
        if packed is not None:
            return packed
    return merge((batch,), first_offset, 0, last_offset)[0]


def merge(
    batches: Sequence[SourceBatch], first_offset: int, target_bytes: int, last_offset: int | None = None
) -> tuple[Packed | None, int]:
    """One new batch from the first of ``batches``, and how many of them it took.

    Stops after the batch that brings the uncompressed size to ``target_bytes``, and before one with another codec;
    uncompressed ones join (producers leave batches uncompressed that would not shrink). Records before
    ``first_offset`` and from ``last_offset`` (exclusive) on are left out; None when nothing remains. Stops
    before a body that cannot be walked.

    Raises:
        CorruptBatch: that is the first one.
    """
    codec = NONE
    bodies: list[tuple[Header, Buffer]] = []
    size = 0
    for header, data in batches:
        own = header.attributes & CODEC_MASK
        if bodies and (size >= target_bytes or (own and codec and own != codec)):
            break
        try:
            body = decompress(own, data[HEADER_SIZE:])
        except CorruptBatch:
            if bodies:
                break
            raise
        codec = codec or own
        bodies.append((header, body))
        size += len(body)
    loops = _loops(bodies[0][0], last_offset)
    base_timestamp = start_time(bodies[0][0])
    renumber = _renumber if loops is None else loops.renumber
    try:
        out, count, runs = renumber(bodies, first_offset, last_offset, base_timestamp)
    except CorruptBatch:
        if len(bodies) > 1:
            return merge(batches[: len(bodies) // 2], first_offset, target_bytes, last_offset)
        raise
    taken = len(bodies)
    if not count:
        return None, taken
    end = bodies[-1][0].next_offset
    return (
        packed_records(
            codec,
            base_timestamp,
            max(header.max_timestamp for header, _ in bodies),
            count,
            out,
            runs,
            end if last_offset is None else min(end, last_offset),
        ),
        taken,
    )


def _renumber(
    bodies: Sequence[tuple[Header, Buffer]], first_offset: int, last_offset: int | None, base_timestamp: int
) -> tuple[Buffer, int, list[UpstreamRun]]:
    global _walked
    pieces: list[bytes] = []
    runs: list[UpstreamRun] = []
    count = 0
    for header, body in bodies:
        try:
            count = _walk(bytes(body), header, first_offset, last_offset, base_timestamp, count, pieces, runs)
        except IndexError as error:
            raise ends_inside(header, count) from error
    _walked += sum([_work(header) for header, _ in bodies])
    return b"".join(pieces), count, runs


def _walk(
    body: bytes,
    header: Header,
    first_offset: int,
    last_offset: int | None,
    base_timestamp: int,
    count: int,
    pieces: list[bytes],
    runs: list[UpstreamRun],
) -> int:
    """Append the wanted records of one body to ``pieces``; returns the new count.

    A record is: length, attributes (1 byte), timestamp delta, offset delta, key, value, headers; all but the
    attributes start with varints (Kafka's ``DefaultRecord``).
    """
    varints, known, put = _VARINTS, len(_VARINTS), pieces.extend
    base_offset = header.base_offset
    append_time = header.attributes & LOG_APPEND_TIME
    shift = signed64(start_time(header) - base_timestamp)
    fixed_time = write_varint(shift) if append_time else b""
    trims = first_offset > base_offset or (last_offset is not None and last_offset < header.next_offset)
    next_offset = header.next_offset
    stop = next_offset if last_offset is None else last_offset
    run_start = run_next = -1
    at, size = 0, len(body)
    if header.dense and not trims:
        run_start, run_next = base_offset, header.next_offset
    tracks = run_start < 0
    for _ in range(header.record_count):
        length = body[at]
        at += 1
        if length > 127:
            shift_bits, length = 7, length & 127
            while True:
                byte = body[at]
                at += 1
                length |= (byte & 127) << shift_bits
                if byte < 128:
                    break
                shift_bits += 7
                if shift_bits > 63:
                    raise IndexError
        end = at + (length >> 1)
        time_at = at + 1
        delta_at = time_at
        while body[delta_at] > 127:
            delta_at += 1
        delta_at += 1
        rest = delta_at
        if tracks:
            delta = body[rest]
            rest += 1
            if delta > 127:
                shift_bits, delta = 7, delta & 127
                while True:
                    byte = body[rest]
                    rest += 1
                    delta |= (byte & 127) << shift_bits
                    if byte < 128:
                        break
                    shift_bits += 7
                    if shift_bits > 63:
                        raise IndexError
            offset = base_offset + (delta >> 1)
            if length & 1 or delta & 1 or offset >= next_offset or not rest <= end <= size:
                raise IndexError
            if rest - time_at > MOST_VARINT_BYTES:  # then one of them may take too many
                read_varint(body, time_at), read_varint(body, delta_at)
            if offset < first_offset or offset >= stop:
                at = end
                continue
            if offset != run_next:
                if offset < run_next:
                    raise IndexError
                if run_start >= 0:
                    runs.append((run_start, run_next - run_start, run_next - run_start))
                run_start = offset
            run_next = offset + 1
        else:
            while body[rest] > 127:
                rest += 1
            rest += 1
            if length & 1 or not rest <= end <= size:
                raise IndexError
            if rest - time_at > MOST_VARINT_BYTES:
                read_varint(body, time_at), read_varint(body, delta_at)
        number = varints[count] if count < known else write_varint(count)
        if append_time:
            head = body[at:time_at] + fixed_time
        elif shift:
            raw = body[time_at]
            time = ((raw >> 1) ^ -(raw & 1) if raw < 128 else read_varint(body, time_at)[0]) + shift
            head = body[at:time_at] + (varints[time] if 0 <= time < known else write_varint(signed64(time)))
        else:
            head = body[at:delta_at]
        new_length = len(head) + len(number) + end - rest
        prefix = varints[new_length] if new_length < known else write_varint(new_length)
        put((prefix, head, number, body[rest:end]))
        count += 1
        at = end
    if at != len(body):
        raise IndexError
    if run_start >= 0 and run_next > run_start:
        runs.append((run_start, run_next - run_start, run_next - run_start))
    return count
