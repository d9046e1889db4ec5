"""The two loops that look at every record: the walk over the body of a batch, and the writing of one.

numba compiles them where it is installed (the extra ``transforms``); elsewhere the same functions run as plain Python,
some hundred times slower. Compiled code does not check the bounds of arrays: every read is checked against the end of
the body here, and every array that is written is as long as the caller says.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pkgutil import get_data
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from srm_common.wire.reencoding.machine_code import put

_Function = TypeVar("_Function", bound=Callable[..., Any])
Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Body = Bytes | bytes
"""What is read; plain Python takes bytes much faster."""

#: Rows of what :func:`walk` fills in, a column for each record. ``..._AT`` are places in the body; lengths of -1 are
#: nulls.
TIME_DELTA, OFFSET_DELTA, KEY_AT, KEY_LENGTH, VALUE_AT, VALUE_LENGTH, HEADERS_AT, HEADERS_LENGTH, HEADER_COUNT = range(
    9
)
FIELDS = 9
#: Rows of what :func:`walk_headers` fills in, a column for each header.
NAME_AT, NAME_LENGTH, CONTENT_AT, CONTENT_LENGTH = range(4)
HEADER_FIELDS = 4

#: A row of what :func:`renumber` reads: where a body begins and ends; what its offset deltas count from, and the offset
#: after the batch's last one; what to add to its time deltas, or instead of them where it has a time of appending;
#: whether each offset has its record; records.
BODY_AT, BODY_END, BODY_OFFSET, BODY_NEXT, BODY_SHIFT, BODY_APPEND_TIME, BODY_DENSE, BODY_RECORDS = range(8)
BODY_FIELDS = 8
#: Bytes that a record may grow by: other varints for its length, its time and its number.
MOST_GROWTH = 5 + 10 + 5
#: Bytes of the smallest record: seven varints and bytes.
LEAST_RECORD = 7
#: Bytes of the smallest header: the lengths of its name and its value.
LEAST_HEADER = 2

try:
    from numba import njit
except ImportError:
    COMPILED = False
else:
    COMPILED = True
    """Whether the loops are compiled."""
KEPT = COMPILED
"""Whether what is compiled is kept for other processes; if not, it costs each of them some six seconds."""

#: What is left of 64 bits that are moved to the right by one, and by seven.
_POSITIVE, _SEVEN_LESS = (1 << 63) - 1, (1 << 57) - 1


#: Files with loops, and with constants that are put into them.
_FILES = (
    "batch_walk.py",
    "holed_rows.py",
    "holes.py",
    "lz4_patch.py",
    "lz4_walk.py",
    "machine_code.py",
    "record_walk.py",
    "row_sums.py",
    "small_batches.py",
)


def _text() -> str:
    """Stands for the text of all files with loops. numba looks only at the file of a loop to see whether what it has
    kept is still right, but puts loops, constants and layouts of other files into it as well."""
    digest = sha256()
    for name in _FILES:
        digest.update(get_data("srm_common.wire.reencoding", name) or b"")
    return digest.hexdigest()[:8]


_TEXT = _text() if COMPILED else ""


def compiled(function: _Function) -> _Function:
    """The loop as numba compiles it, kept beside this file, or where NUMBA_CACHE_DIR says, for the processes that come
    later; where neither can be written to, as in read-only containers, each process compiles for itself.

    Loops own no memory, so they go without numba's run-time, which would count the references to each array at each
    call of a function: two atomic additions an array, a third of what it costs to close the holes of a batch."""
    if not COMPILED:
        return function
    global KEPT
    # Under this name numba keeps it.
    function.__qualname__ = f"{function.__name__}_{_TEXT}"
    options: dict[str, Any] = {"nogil": True, "_nrt": False}
    try:
        return cast(_Function, njit(function, cache=True, **options))
    except RuntimeError:
        KEPT = False
        return cast(_Function, njit(function, **options))


@compiled
def varint_at(body: Body, at: int, end: int) -> tuple[int, int]:
    """A zig-zag varint and where it ends; -1 where the body ends before that, or the number has more than 64 bits."""
    value = 0
    shift = 0
    while at < end and shift < 64:
        byte = int(body[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if shift > 56 and byte > 1:
                return 0, -1
            # Compiled, numbers have 64 bits and the shift copies the highest one.
            return (value >> 1 & _POSITIVE) ^ -(value & 1), at
        shift += 7
    return 0, -1


@compiled
def walk(body: Body, count: int, fields: Ints) -> int:
    """Find the fields of ``count`` records (Kafka's ``DefaultRecord``); ``fields`` is FIELDS x count.

    Returns the number of the first record that cannot be read, or -1. ``count`` stands for what follows the last one.
    """
    at = 0
    size = len(body)
    for number in range(count):
        length, at = varint_at(body, at, size)
        if at < 0 or length < 1 or length > size - at:
            return number
        end = at + length
        at += 1
        fields[TIME_DELTA, number], at = varint_at(body, at, end)
        if at < 0:
            return number
        fields[OFFSET_DELTA, number], at = varint_at(body, at, end)
        if at < 0:
            return number
        for row in (KEY_AT, VALUE_AT):
            length, at = varint_at(body, at, end)
            if at < 0 or length < -1 or length > end - at:
                return number
            fields[row, number] = at
            fields[row + 1, number] = length
            if length > 0:
                at += length
        headers, at = varint_at(body, at, end)
        if at < 0 or headers < 0 or headers > (end - at) // LEAST_HEADER:
            return number
        fields[HEADERS_AT, number] = at
        fields[HEADERS_LENGTH, number] = end - at
        fields[HEADER_COUNT, number] = headers
        at = end
    return -1 if at == size else count


@compiled
def _size(value: int) -> int:
    """Bytes of the zig-zag varint."""
    rest = ((value << 1) ^ (value >> 63)) >> 7 & _SEVEN_LESS
    size = 1
    while rest > 0:
        rest >>= 7
        size += 1
    return size


@compiled
def _write(out: Bytes, at: int, value: int) -> int:
    """The zig-zag varint at ``at``; returns where it ends."""
    value = (value << 1) ^ (value >> 63)
    rest = value >> 7 & _SEVEN_LESS
    low = value & 127
    while rest > 0:
        out[at] = low | 128
        at += 1
        low = rest & 127
        rest >>= 7
    out[at] = low
    return at + 1


@compiled
def _write_bytes(out: Bytes, at: int, length: int, data: Bytes, start: int) -> int:
    """A length, -1 for null, and so many bytes of ``data``; returns where they end."""
    at = _write(out, at, length)
    if length > 0:
        put(out, at, data, start, length)
        at += length
    return at


@compiled
def sizes(times: Ints, keys: Ints, values: Ints, headers: Ints, header_counts: Ints, out: Ints) -> None:
    """Bytes of each record without its length and its offset delta, which depend on where in a batch it comes to lie.

    ``times`` are deltas, ``keys``, ``values`` and ``headers`` lengths, -1 for null."""
    for number in range(len(times)):
        size = 1 + _size(times[number]) + _size(header_counts[number]) + headers[number]
        for length in (keys[number], values[number]):
            size += _size(length)
            if length > 0:
                size += length
        out[number] = size


@compiled
def write(
    out: Bytes,
    first: int,
    end: int,
    sizes: Ints,
    times: Ints,
    key_at: Offsets,
    keys: Ints,
    key_bytes: Bytes,
    value_at: Offsets,
    values: Ints,
    value_bytes: Bytes,
    headers_at: Offsets,
    headers: Ints,
    header_bytes: Bytes,
    header_counts: Ints,
) -> int:
    """Write the records ``first`` to ``end`` (exclusive) as the body of one batch; returns its length.

    ``sizes`` and ``times`` as :func:`sizes` has them; of keys, values and headers where each begins, its length (-1 for
    null), and the bytes of all."""
    at = 0
    for number in range(first, end):
        at = _write(out, at, sizes[number] + _size(number - first))
        out[at] = 0
        at = _write(out, at + 1, times[number])
        at = _write(out, at, number - first)
        at = _write_bytes(out, at, keys[number], key_bytes, key_at[number])
        at = _write_bytes(out, at, values[number], value_bytes, value_at[number])
        at = _write(out, at, header_counts[number])
        length = headers[number]
        if length > 0:
            put(out, at, header_bytes, headers_at[number], length)
            at += length
    return at


@compiled
def renumber(data: Bytes, bodies: Ints, first_offset: int, stop: int, out: Bytes, runs: Ints) -> tuple[int, int, int]:
    """Write the wanted records of bodies one after the other, with offset deltas from 0 on, and times that count from
    the base time of the first body.

    Args:
        data: all bodies.
        bodies: a row for each, see :data:`BODY_FIELDS`.
        first_offset, stop: wanted offsets; the last one exclusive.
        out: at least as long as all bodies and MOST_GROWTH bytes for each of their records.
        runs: gets a row of first offset and length for each dense run; as many rows as records.

    Returns the bytes and the records written and the number of runs. Where a record cannot be read: the number of its
    body as a negative number less one, the number of the record in it, and 0.
    """
    size = count = used = 0
    run_next = -1
    for body in range(len(bodies)):
        at = bodies[body, BODY_AT]
        body_end = bodies[body, BODY_END]
        base_offset = bodies[body, BODY_OFFSET]
        shift = bodies[body, BODY_SHIFT]
        dense = bodies[body, BODY_DENSE] != 0
        fixed = bodies[body, BODY_APPEND_TIME] != 0
        for number in range(bodies[body, BODY_RECORDS]):
            length, at = varint_at(data, at, body_end)
            if at < 0 or length < 1 or length > body_end - at:
                return -body - 1, number, 0
            end = at + length
            attributes = data[at]
            time_at = at + 1
            time, delta_at = varint_at(data, time_at, end)
            if delta_at < 0:
                return -body - 1, number, 0
            delta, rest = varint_at(data, delta_at, end)
            if rest < 0:
                return -body - 1, number, 0
            if not dense and (delta < 0 or delta >= bodies[body, BODY_NEXT] - base_offset):
                return -body - 1, number, 0
            offset = base_offset + (number if dense else delta)
            at = end
            if offset < first_offset or offset >= stop:
                continue
            if offset != run_next:
                if offset < run_next:
                    return -body - 1, number, 0
                runs[used, 0] = offset
                runs[used, 1] = 0
                used += 1
            runs[used - 1, 1] += 1
            run_next = offset + 1
            time = shift if fixed else time + shift
            kept = not fixed and shift == 0
            time_size = delta_at - time_at if kept else _size(time)
            size = _write(out, size, 1 + time_size + _size(count) + end - rest)
            out[size] = attributes
            size += 1
            if kept:
                put(out, size, data, time_at, time_size)
                size += time_size
            else:
                size = _write(out, size, time)
            size = _write(out, size, count)
            put(out, size, data, rest, end - rest)
            size += end - rest
            count += 1
        if at != body_end:
            return -body - 1, bodies[body, BODY_RECORDS], 0
    return size, count, used


@compiled
def gather(body: Bytes, at: Ints, lengths: Ints, offsets: Offsets, out: Bytes) -> None:
    """Copy pieces of the body one after the other, each to its place in ``out``."""
    for number in range(len(at)):
        put(out, offsets[number], body, at[number], lengths[number])


@compiled
def walk_headers(data: Body, at: Offsets, counts: Ints, fields: Ints) -> int:
    """Find names and values of the headers of all records: those of one begin at ``at[number]``, and end where those of
    the next begin. ``fields`` is HEADER_FIELDS x the sum of ``counts``.

    Returns the number of the first record whose headers cannot be read, or -1.
    """
    header = 0
    for number in range(len(counts)):
        place = int(at[number])
        end = int(at[number + 1])
        for _ in range(counts[number]):
            for row in (NAME_AT, CONTENT_AT):
                length, place = varint_at(data, place, end)
                if place < 0 or length < -1 or length > end - place or (length < 0 and row == NAME_AT):
                    return number
                fields[row, header] = place
                fields[row + 1, header] = length
                if length > 0:
                    place += length
            header += 1
        if place != end:
            return number
    return -1


@compiled
def header_sizes(names: Ints, contents: Ints, out: Ints) -> None:
    """Bytes of each header; the arguments are lengths, -1 for null."""
    for number in range(len(names)):
        size = _size(names[number]) + names[number] + _size(contents[number])
        if contents[number] > 0:
            size += contents[number]
        out[number] = size


@compiled
def write_headers(
    out: Bytes,
    name_at: Offsets,
    names: Ints,
    name_bytes: Bytes,
    content_at: Offsets,
    contents: Ints,
    content_bytes: Bytes,
) -> None:
    """Write headers one after the other; of names and values where each begins, its length (-1 for null), all bytes."""
    at = 0
    for number in range(len(names)):
        at = _write_bytes(out, at, names[number], name_bytes, name_at[number])
        at = _write_bytes(out, at, contents[number], content_bytes, content_at[number])
