"""Holes that are closed in the compressed bytes, beside the way through all records."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from unittest import mock

import cramjam
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import HEADER_SIZE, SourceBatch, parse_header, stamp
from srm_common.wire.batches.codec import LZ4, NONE, ZSTD, compress, decompress
from srm_common.wire.reencoding import holes, lz4_patch, lz4_walk
from srm_common.wire.reencoding.holes import close_holes
from srm_common.wire.reencoding.merging import merge
from tests.unit.wire.built_batches import (
    Record,
    body_of,
    check_runs,
    some,
    source_batch,
    stamped,
    varint,
    without_offsets,
    written,
)

HEAD = b"\x04\x22\x4d\x18\x60\x40\x82"
MODULES = (holes, lz4_patch, lz4_walk)


@contextmanager
def as_plain() -> Iterator[None]:
    """The loops as plain Python runs them."""
    with ExitStack() as stack:
        for module in MODULES:
            plain = {name: loop.py_func for name, loop in vars(module).items() if hasattr(loop, "py_func")}
            stack.enter_context(mock.patch.multiple(module, **plain))
        yield


@pytest.fixture(params=["plain", "compiled"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """The loops in plain Python, and as numba has them."""
    with as_plain() if request.param == "plain" else nullcontext():
        yield


def checked(batch: SourceBatch, records: Sequence[Record]) -> bytes:
    """What becomes of the batch; its records are these, and the map is the other way's."""
    packed = close_holes(batch)
    assert packed is not None
    (other, _) = merge([batch], 0, 0)
    assert other is not None
    assert without_offsets(written(packed)) == without_offsets(records)
    check_runs(packed, [record.offset for record in records])
    assert packed._replace(body=b"", runs=()) == other._replace(body=b"", runs=())
    body = bytes(packed.body)
    # As strict as the library can be about the end of a block, and as Kafka's readers about frames.
    assert body[:7] == bytes(batch.data[HEADER_SIZE : HEADER_SIZE + 7])
    assert bytes(cramjam.lz4.decompress(body)) == bytes(decompress(LZ4, packed.body))
    assert not holes.ROOM.marked.any()
    return body


def holed(keep: float, count: int, seed: int, value: bytes) -> list[Record]:
    choice = random.Random(seed)
    offsets = [n for n in range(count) if choice.random() < keep] or [count - 1]
    return [
        Record(offset, 1000 + choice.randrange(50), b"%016d" % offset, value + choice.randbytes(len(value) // 8))
        for offset in offsets
    ]


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(("keep", "count", "size"), [(0.5, 130, 100), (0.1, 9_000, 30), (0.9, 300, 1000), (0.5, 3, 9)])
def test_holes_are_closed_and_the_compressed_bytes_stay(keep: float, count: int, size: int) -> None:
    records = holed(keep, count, 7, b'{"reading": 17, "unit": "bar"}' * (size // 30))
    batch = source_batch(records, codec=LZ4, base_offset=0, next_offset=count)
    body = checked(batch, records)
    assert len(body) <= len(batch.data) - HEADER_SIZE + len(records)


@pytest.mark.usefixtures("loops")
def test_a_batch_that_only_ends_too_early_keeps_its_body() -> None:
    records = some(range(50))
    batch = source_batch(records, codec=LZ4, next_offset=60)
    assert checked(batch, records) == bytes(batch.data[HEADER_SIZE:])


@pytest.mark.usefixtures("loops")
def test_blocks_that_are_not_compressed() -> None:
    noise = random.Random(5)
    records = [Record(2 * n, 1000, None, noise.randbytes(9_000)) for n in range(30)]
    batch = source_batch(records, codec=LZ4)
    body = checked(batch, records)
    assert len(body) == len(batch.data) - HEADER_SIZE


def lz4_batch(last: int, body: bytes, frame: bytes, records: int) -> SourceBatch:
    """A batch of the offsets from 0 to ``last`` with a frame of our own making."""
    assert bytes(cramjam.lz4.decompress(frame)) == body
    header = stamp(LZ4, last, 1000, 2000, records, frame, -1, -1, -1)
    data = header + frame
    return SourceBatch(parse_header(data), memoryview(data))


def sequence(literals: bytes, match: int, distance: int) -> bytes:
    """A sequence of a block; the last one has no match."""
    rest = match - 4
    out = bytearray([min(len(literals), 15) << 4 | (min(rest, 15) if match else 0)])
    if len(literals) >= 15:
        out += b"\xff" * ((len(literals) - 15) // 255) + bytes([(len(literals) - 15) % 255])
    out += literals
    if match:
        out += distance.to_bytes(2, "little")
        if rest >= 15:
            out += b"\xff" * ((rest - 15) // 255) + bytes([(rest - 15) % 255])
    return bytes(out)


def tight(content: bytes, choice: random.Random) -> bytes:
    """A block that takes repetitions wherever there are any, of any length and distance: more than a compressor would,
    so that they reach over deltas and take bytes from there."""
    out = bytearray()
    at = start = 0
    while at < len(content) - 12:
        here = content[at : at + 4]
        places = [place for place in range(max(0, at - 3000), at) if content[place : place + 4] == here]
        if not places or choice.random() < 0.1:
            at += 1
            continue
        place = choice.choice(places)
        length = 4
        while at + length < len(content) - 5 and content[place + length] == content[at + length]:
            length += 1
        if choice.random() < 0.3:
            length = choice.randint(4, length)
        out += sequence(content[start:at], length, at - place)
        at = start = at + length
    return bytes(out + sequence(content[start:], 0, 0))


def framed(body: bytes, choice: random.Random, block_bytes: int = 64 << 10) -> bytes:
    out = bytearray(HEAD)
    for start in range(0, len(body), block_bytes):
        content = body[start : start + block_bytes]
        block = tight(content, choice)
        plain = len(block) >= len(content)
        out += (len(content) | 1 << 31 if plain else len(block)).to_bytes(4, "little") + (content if plain else block)
    return bytes(out) + bytes(4)


Made = tuple[list[int], bytes, list[tuple[int, bytes]]]


@st.composite
def repetitive(draw: st.DrawFn) -> Made:
    """Records that look like one another and like their deltas: offsets, a body, and times and values."""
    offset = draw(st.integers(0, 70))
    step = draw(st.sampled_from([1, 2, 3, 64, 300]))
    known = st.sampled_from([b"\0\0\0\0", b"\2\4\6\x08\x0a", b"ab", b"\x80\x01", b"", b"x" * 40])
    pieces = draw(st.lists(known, min_size=1))
    offsets, out, values = [], bytearray(), []
    for number in range(draw(st.integers(1, 40))):
        value = b"".join(draw(st.permutations(pieces)) if number % 7 == 0 else pieces)
        time = draw(st.sampled_from([0, 0, 1, 2, 300]))
        head = b"\0" + varint(time) + varint(offset) + varint(-1) + varint(len(value)) + value + varint(0)
        out += varint(len(head)) + head
        offsets.append(offset)
        values.append((1000 + time, value))
        offset += draw(st.integers(1, step))
    return offsets, bytes(out), values


BLOCKS = st.sampled_from([64 << 10, 64 << 10, 700, 64])


@given(repetitive(), st.integers(0, 1 << 30), BLOCKS)
def test_repetitions_that_touch_deltas(made: Made, seed: int, block_bytes: int) -> None:
    offsets, body, values = made
    frame = framed(body, random.Random(seed), block_bytes)
    assume(len(body) <= block_bytes * 128)
    batch = lz4_batch(offsets[-1], body, frame, len(offsets))
    records = [Record(offset, time, None, value) for offset, (time, value) in zip(offsets, values, strict=True)]
    compiled = checked(batch, records)
    with as_plain():
        assert checked(batch, records) == compiled


@given(repetitive(), st.integers(0, 1 << 30), BLOCKS, st.data())
def test_damaged_frames_stay_within_their_bounds(made: Made, seed: int, block_bytes: int, data: st.DataObject) -> None:
    offsets, body, _ = made
    frame = bytearray(framed(body, random.Random(seed), block_bytes))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    content = data.draw(st.integers(0, 2 * len(body)))
    room = data.draw(st.integers(0, 2 * len(frame)))
    found = []
    for plain in (False, True):
        count = len(offsets)
        rooms = [np.full(size + 64, 7, np.uint8) for size in (content, room)]
        marked = np.zeros((content >> 3) + 8, np.uint8)
        with as_plain() if plain else nullcontext():
            size, runs = holes.number_frame(
                np.frombuffer(bytes(frame), np.uint8),
                count,
                0,
                offsets[-1],
                rooms[0][:content],
                np.empty(5, np.int64),
                np.empty(5 * count + 1, np.int64),
                marked,
                np.empty((count, 2), np.int64),
                np.empty(len(frame) // 3 + 2, np.int64),
                np.empty((8, 4), np.int64),
                rooms[1][:room],
            )
        assert size <= room
        assert (rooms[0][content:] == 7).all()
        assert (rooms[1][room:] == 7).all()
        assert not marked.any()
        found.append((size, runs, bytes(rooms[1][: max(size, 0)])))
    assert found[0] == found[1]


@given(repetitive(), st.data())
def test_damaged_bodies_are_left_to_the_other_way(made: Made, data: st.DataObject) -> None:
    offsets, body, _ = made
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    batch = lz4_batch(offsets[-1], bytes(damaged), bytes(compress(LZ4, bytes(damaged))), len(offsets))
    packed = close_holes(batch)
    with as_plain():
        assert close_holes(batch) == packed
    # The other way leaves batches that are dense by their headers as they are.
    if packed is not None and offsets[-1] + 1 != len(offsets):
        try:
            (other, _) = merge([batch], 0, 0)
        except CorruptBatch:
            return  # the damage lies in keys, values and headers, which are passed on here as they are
        assert other is not None
        assert packed.runs == other.runs
        # Numbered once more the other way, which writes numbers as short as they can be.
        whole = stamped(packed)
        (again, _) = merge([SourceBatch(parse_header(whole), memoryview(whole))], 0, 0)
        assert again is not None
        assert bytes(decompress(LZ4, again.body)) == bytes(decompress(LZ4, other.body))


def test_offsets_out_of_order_are_left_to_the_other_way() -> None:
    records = [one._replace(offset=offset) for one, offset in zip(some(range(3)), (0, 7, 5), strict=True)]
    assert close_holes(source_batch(records, codec=LZ4, base_offset=0, next_offset=9)) is None


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_other_codecs_are_left_to_the_other_way(codec: int) -> None:
    assert close_holes(source_batch(some([1, 5]), codec=codec)) is None


def test_a_time_of_appending_is_left_to_the_other_way() -> None:
    assert close_holes(source_batch(some([1, 5]), codec=LZ4, append_time=77)) is None


@pytest.mark.parametrize(("linked", "checksum"), [(True, False), (False, True)])
def test_frames_that_java_does_not_write_are_left_to_the_other_way(linked: bool, checksum: bool) -> None:
    body = body_of(some([1, 5], size=300), 1, 1000)
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=checksum, block_linked=linked)
    compressor.compress(body)
    assert close_holes(lz4_batch(4, body, bytes(compressor.finish()), 2)) is None
