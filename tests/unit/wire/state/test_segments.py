from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.fingerprints import PRIME, Fingerprint
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment, value_bytes
from srm_common.errors import CorruptRecord
from srm_common.wire.state.plain_records import write_headers
from srm_common.wire.state.segments import (
    decode_segment,
    decode_segment_key,
    encode_joined,
    encode_segment,
    segment_headers,
    segment_key,
    segment_key_prefix,
    segment_partition,
)

SEGMENT = Segment("orders", 300, 7, 2000, 1000, 1137, (
    OffsetSpan(10, 6, 1000, 6),
    OffsetSpan(17, 31, 1006, 31),
    OffsetSpan(48, 40, 1050, 40),
    OffsetSpan(100, 50, 1090, 40),
    OffsetSpan(200, 9, 1130, 7, foreign=True),
), 0xBEEF)  # fmt: skip


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    start = upstream = draw(st.integers(0, 1 << 50))
    downstream = draw(st.integers(0, 1 << 50))
    runs = []
    for _ in range(draw(st.integers(1, 30))):
        upstream += draw(st.integers(0, 200))
        downstream += draw(st.sampled_from([0, 0, 1, 500]))
        length = draw(st.integers(1, 40) | st.integers(1, 1 << 30))
        foreign = draw(st.booleans())
        upstream_length = draw(st.integers(0, 1 << 31)) if foreign else length + draw(st.sampled_from([0, 0, 3, 999]))
        runs.append(OffsetSpan(upstream, upstream_length, downstream, length, foreign))
        upstream, downstream = runs[-1].upstream_end, runs[-1].downstream_end
    topic = draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300))
    max_bytes = draw(st.sampled_from([1 << 30, 60]))
    # One that covers nothing stands for a piece that was joined to another.
    end = max(upstream, start + 1) + draw(st.integers(0, 99))
    generation = draw(st.sampled_from([0, 1, 0xFFFFFFFF]))
    fingerprint = draw(st.none() | st.builds(Fingerprint, st.integers(0, PRIME - 1), st.integers(0, (1 << 32) - 1)))
    number = draw(st.integers(0, 100_000))
    segment = build_segment(topic, number, start, end, runs, max_bytes, generation, fingerprint)
    if fingerprint is None or draw(st.booleans()):
        return segment
    before = draw(st.integers(0, 1 << 51)), segment.downstream_start - draw(st.sampled_from([0, 1, 200, 1 << 40]))
    return replace(segment, after=CopiedTo(*before))


def test_layout() -> None:
    key, value = encode_segment(SEGMENT)
    assert key == bytes.fromhex("02 06 6f7264657273 ac02 0000000000000007")
    assert value == bytes.fromhex(
        "00000000000003e8 0000beef c90f 05"  # from 1000, of that generation, 1993 offsets, five runs
        "03 18"  # three dropped, six dense
        "01 7c"  # one hole, 31 dense
        "00 a101 0d"  # 40 dense after 13 foreign offsets downstream
        "0c a201 0a"  # 40 records in 50 offsets
        "32 1f 00 13"  # seven offsets downstream, not all ours, for nine upstream
    )


@given(segments())
def test_round_trip_and_size(segment: Segment) -> None:
    key, value = encode_segment(segment)
    assert decode_segment(key, value, write_headers(segment_headers(segment))) == segment
    assert decode_segment(key, value) == replace(segment, fingerprint=None, after=None)
    assert len(value) == value_bytes(segment.upstream_start, segment.upstream_end, segment.runs)
    assert decode_segment_key(key) == (segment.topic, segment.partition, segment.upstream_start)
    assert key == segment_key(segment.topic, segment.partition, segment.upstream_start)
    assert key.startswith(segment_key_prefix(segment.topic, segment.partition))


def test_a_fingerprint_is_a_header_and_the_value_is_as_it_was_without() -> None:
    proved = replace(SEGMENT, fingerprint=Fingerprint(0x0102030405060708, 0x0A0B0C0D))
    assert encode_segment(proved) == encode_segment(SEGMENT)
    assert segment_headers(SEGMENT) == ()
    assert write_headers(segment_headers(proved)) == bytes.fromhex("02 02 66 18 0102030405060708 0a0b0c0d")


def test_what_was_committed_before_is_a_header_of_few_bytes() -> None:
    proved = replace(SEGMENT, fingerprint=Fingerprint(0x0102030405060708, 0x0A0B0C0D))
    assert encode_segment(replace(proved, after=CopiedTo(7, 999))) == encode_segment(SEGMENT)
    headers = {
        CopiedTo(7, 999): "01",
        CopiedTo(207, 1000): "00 9003",  # offsets were moved back by 200
        CopiedTo(5, 800): "c801 03",  # and on, by two
    }
    for after, value in headers.items():
        found = write_headers(segment_headers(replace(proved, after=after)))
        length = bytes((2 * len(bytes.fromhex(value)),)).hex()
        assert found == bytes.fromhex(f"04 02 66 18 0102030405060708 0a0b0c0d 02 63 {length} {value}")
        assert decode_segment(*encode_segment(SEGMENT), found).after == after
    among = write_headers([(b"c", b"\x01"), (b"x", b"y"), *segment_headers(proved)])
    assert decode_segment(*encode_segment(SEGMENT), among).after == CopiedTo(7, 999)
    for damaged in (b"\x80", b"\x01\x02\x03"):
        with pytest.raises(CorruptRecord, match="orders-300 from offset 7"):
            decode_segment(*encode_segment(SEGMENT), write_headers([*segment_headers(proved), (b"c", damaged)]))


@given(segments(), st.integers(0, 1 << 40))
def test_a_joined_segment_keeps_its_fingerprint(segment: Segment, place: int) -> None:
    key, value = encode_joined(replace(segment, joined=True), place)
    found = decode_segment(key, value, write_headers(segment_headers(segment)))
    assert found == replace(segment, joined=True)


def test_a_fingerprint_among_other_headers_is_found_and_a_damaged_one_is_refused() -> None:
    fingerprint = Fingerprint(7, 9)
    others = write_headers([(b"a", b"1"), (b"f", fingerprint.to_bytes())])
    assert decode_segment(*encode_segment(SEGMENT), others).fingerprint == fingerprint
    for damaged in (fingerprint.to_bytes()[:-1], b"\xff" * 12):
        with pytest.raises(CorruptRecord, match="fingerprint"):
            decode_segment(*encode_segment(SEGMENT), write_headers([(b"f", damaged)]))
    with pytest.raises(CorruptRecord, match="headers"):
        decode_segment(*encode_segment(SEGMENT), others[:-1])


def test_one_partition_of_the_topic_takes_all_of_a_source_partition() -> None:
    homes = {segment_partition("orders", p, 25) for p in range(200)}
    assert homes == set(range(25))


@pytest.mark.parametrize("cut", range(len(encode_segment(SEGMENT)[1])))
def test_truncated_values_are_refused(cut: int) -> None:
    key, value = encode_segment(SEGMENT)
    with pytest.raises(CorruptRecord, match="orders-300 from offset 7"):
        decode_segment(key, value[:cut])


@pytest.mark.parametrize("cut", range(len(encode_segment(SEGMENT)[0])))
def test_truncated_keys_are_refused(cut: int) -> None:
    key, value = encode_segment(SEGMENT)
    with pytest.raises(CorruptRecord):
        decode_segment(key[:cut], value)


def test_longer_ones_newer_ones_and_tombstones_are_refused() -> None:
    key, value = encode_segment(SEGMENT)
    with pytest.raises(CorruptRecord, match="continues"):
        decode_segment(key, value + b"\0")
    with pytest.raises(CorruptRecord, match="continues"):
        decode_segment(key + b"\0", value)
    with pytest.raises(CorruptRecord, match="version 4"):
        decode_segment(b"\4" + key[1:], value)
    with pytest.raises(CorruptRecord, match="tombstone"):
        decode_segment(key, None)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_is_refused_or_read_but_never_crashes(key: bytes, value: bytes) -> None:
    try:
        segment = decode_segment(b"\2" + key, value)
    except CorruptRecord:
        return
    assert segment.upstream_start <= segment.upstream_end


def test_a_number_without_end_is_a_damaged_segment() -> None:
    """Its bits were added up one by one, for minutes where a record has a megabyte of them."""
    key, value = encode_segment(Segment("orders", 0, 0, 10, 0, 10, (OffsetSpan(0, 10, 0, 10),)))
    with pytest.raises(CorruptRecord, match="ends too early"):
        decode_segment(key, value[:12] + b"\xff" * 1_000_000)
