"""Compression of batch bodies: what we write, and what other clients write."""

from __future__ import annotations

import gzip
import random
import struct
from functools import partial
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srm_common.wire.batches.codec
from srm_common.errors import CorruptBatch
from srm_common.wire.batches.codec import GZIP, LARGEST_BODY, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress
from tests.examples import examples

CODECS = pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD], ids=NAMES.get)
TEXT = b'{"id":17,"name":"some text that repeats, some text that repeats"}' * 3000


@CODECS
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 300], ids=["empty", "one", "text", "bytes"])
def test_round_trip(codec: int, data: bytes) -> None:
    body = compress(codec, data)
    assert bytes(decompress(codec, body)) == data
    assert bytes(decompress(codec, memoryview(bytes(body)))) == data


@given(codec=st.integers(0, 4), data=st.binary(max_size=70_000))
def test_round_trip_of_anything(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=NAMES.get)
def test_text_becomes_smaller(codec: int) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 5


# ---- what brokers and Java clients insist on


def test_lz4_frames_have_independent_blocks_and_no_content_checksum() -> None:
    body = bytes(compress(LZ4, TEXT))
    assert body[:4] == b"\x04\x22\x4d\x18"
    flags = body[4]
    assert flags >> 6 == 1  # version
    assert flags & 0x20  # blocks are independent
    assert not flags & 0x04  # no content checksum
    assert not flags & 0x01  # no dictionary


def test_a_body_in_flight_holds_no_more_than_itself() -> None:
    body = compress(LZ4, TEXT)
    held: Any = body.obj if isinstance(body, memoryview) else body
    assert len(held) == len(body) < len(TEXT)


def test_snappy_is_framed_as_the_java_client_reads_it() -> None:
    body = bytes(compress(SNAPPY, TEXT))
    assert body[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    at, out = 16, b""
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        block = bytes(cramjam.snappy.decompress_raw(body[at + 4 : at + 4 + size]))
        assert len(block) <= 32 * 1024
        out += block
        at += 4 + size
    assert out == TEXT


# ---- what others write


def test_raw_snappy_as_librdkafka_and_others_write_it() -> None:
    assert bytes(decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)))) == TEXT


def test_xerial_snappy_with_one_large_block() -> None:
    block = bytes(cramjam.snappy.compress_raw(TEXT))
    body = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    assert bytes(decompress(SNAPPY, body)) == TEXT


@given(
    data=st.one_of(st.binary(min_size=1, max_size=3000), st.binary(min_size=1, max_size=9).map(lambda one: one * 5000))
)
def test_lz4_frames_of_one_block_as_librdkafka_and_java_write_them(data: bytes) -> None:
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    head = b"\x04\x22\x4d\x18\x60\x40\x82"
    frame = head + struct.pack("<I", len(block)) + block + bytes(4)
    assert bytes(cramjam.lz4.decompress(frame)) == data  # it is one
    for body in (frame, memoryview(frame)):
        assert bytes(decompress(LZ4, body)) == data
    stored = head + struct.pack("<I", len(data) | 1 << 31) + data + bytes(4)
    assert bytes(decompress(LZ4, stored)) == data


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("noise", [True, False])
def test_lz4_frames_of_several_blocks(size: int, noise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    some = random.Random(size)
    data = some.randbytes(size) if noise else bytes(some.choices(b"0123456789", k=size))
    body = bytes(compress(LZ4, data))
    assert len(body) <= size + 30
    assert bytes(cramjam.lz4.decompress(body)) == data
    checked = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    checked.compress(data)
    theirs = bytes(checked.finish())
    # None of them is left to the library, which takes frames of any kind.
    monkeypatch.setattr(srm_common.wire.batches.codec, "_within", None)
    assert bytes(decompress(LZ4, body)) == data
    assert bytes(decompress(LZ4, theirs)) == data


@pytest.mark.parametrize("size", range(40))
def test_a_damaged_lz4_frame_is_corrupt(size: int) -> None:
    whole = bytes(compress(LZ4, b"some text that repeats, some text that repeats, some text that repeats"))
    with pytest.raises(CorruptBatch, match="lz4"):
        decompress(LZ4, whole[:11] + whole[11:][size + 1 :])


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_any_lz4_frame(linked: bool, checksum: bool) -> None:
    compressor = cramjam.lz4.Compressor(level=9, content_checksum=checksum, block_linked=linked)
    for at in range(0, len(TEXT), 10_000):
        compressor.compress(TEXT[at : at + 10_000])
    assert bytes(decompress(LZ4, bytes(compressor.finish()))) == TEXT


def test_zstd_frame_that_does_not_tell_its_size() -> None:
    compressor = cramjam.zstd.Compressor(level=5)
    for at in range(0, len(TEXT), 10_000):
        compressor.compress(TEXT[at : at + 10_000])
    assert bytes(decompress(ZSTD, bytes(compressor.finish()))) == TEXT


def test_gzip_of_pythons_standard_library() -> None:
    assert bytes(decompress(GZIP, gzip.compress(TEXT, 9))) == TEXT
    assert gzip.decompress(bytes(compress(GZIP, TEXT))) == TEXT


# ---- what is broken


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=NAMES.get)
@pytest.mark.parametrize("damage", ["cut", "nonsense", "empty"])
def test_a_broken_body_is_one_clear_error(codec: int, damage: str) -> None:
    good = bytes(compress(codec, TEXT))
    body = {"cut": good[: len(good) // 2], "nonsense": b"\x00\x01 no such thing" * 9, "empty": b""}[damage]
    with pytest.raises(CorruptBatch, match=f"batch body is not valid {NAMES[codec]}"):
        decompress(codec, body)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=f"unknown compression codec {codec}"):
        decompress(codec, b"x")
    with pytest.raises(CorruptBatch, match=f"unknown compression codec {codec}"):
        compress(codec, b"x")


# ---- what comes to more than a worker has room for


LARGEST = 8 << 20


@pytest.fixture
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests need no hundreds of megabytes."""
    assert LARGEST_BODY == 256 << 20
    monkeypatch.setattr(srm_common.wire.batches.codec, "LARGEST_BODY", LARGEST)


def _zeros(codec: int, size: int) -> bytes:
    """A body of zeros, as a producer may send it: without its length in front, where the codec allows that."""
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(bytes(size)))
    compressors: dict[int, Any] = {
        GZIP: cramjam.gzip.Compressor,
        ZSTD: cramjam.zstd.Compressor,
        LZ4: partial(cramjam.lz4.Compressor, level=1, content_checksum=False, block_linked=False),
    }
    compressor = compressors[codec]()
    compressor.compress(bytes(size))
    return bytes(compressor.finish())


@pytest.mark.usefixtures("_small_limit")
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=NAMES.get)
def test_a_body_that_would_fill_the_memory_is_refused(codec: int) -> None:
    assert bytes(decompress(codec, _zeros(codec, LARGEST))) == bytes(LARGEST)
    with pytest.raises(CorruptBatch, match=f"batch body of {NAMES[codec]} comes to more than 8 MiB"):
        decompress(codec, _zeros(codec, LARGEST + 1))


@pytest.mark.usefixtures("_small_limit")
def test_snappy_blocks_that_together_fill_the_memory_are_refused() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(LARGEST // 2)))
    framed = len(block).to_bytes(4, "big") + block
    body = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed * 2
    assert len(decompress(SNAPPY, body)) == LARGEST
    with pytest.raises(CorruptBatch, match="comes to more than 8 MiB"):
        decompress(SNAPPY, body + framed)


@settings(max_examples=examples(25))
@given(frames=st.integers(1, 3), size=st.integers(0, 300_000), level=st.sampled_from([-5, 1, 3, 19]), seed=st.randoms())
def test_zstd_of_any_blocks_is_read(frames: int, size: int, level: int, seed: random.Random) -> None:
    """Blocks of noise, of text and of zeros, in one frame as in several, with or without its length in front."""
    data = seed.randbytes(size) + TEXT + bytes(size)
    once = bytes(cramjam.zstd.compress(data, level))
    stream = cramjam.zstd.Compressor(level=level)
    stream.compress(data)
    for frame in (once, bytes(stream.finish())):
        assert bytes(decompress(ZSTD, frame * frames)) == data * frames


def test_a_snappy_block_that_says_it_is_larger_than_it_can_be_takes_no_memory() -> None:
    """The library makes room for what is said, 256 MiB here, and ends the process where there is none."""
    with pytest.raises(CorruptBatch, match="60 bytes cannot come to 268435455"):
        decompress(SNAPPY, b"\xff\xff\xff\x7f" + bytes(56))
    with pytest.raises(CorruptBatch, match="its size takes more than 5 bytes"):
        decompress(SNAPPY, b"\x80\x80\x80\x80\x84\x80\x00" + bytes(53))
    zeros = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))  # as little as a block can be
    assert len(decompress(SNAPPY, zeros)) == 1 << 20
