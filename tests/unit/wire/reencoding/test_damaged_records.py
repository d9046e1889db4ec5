"""Damage under a right checksum, as a producer can make it: one sentence, at once, and the same from all loops."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from zlib import crc32

import pytest
from crc32c import crc32c

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import CONTROL, TRANSACTIONAL, SourceBatch, parse_header, split
from srm_common.wire.batches.codec import GZIP, LZ4
from srm_common.wire.batches.records import loose_records, pack
from srm_common.wire.batches.visibility import control_type
from srm_common.wire.reencoding import merging
from srm_common.wire.reencoding.lz4_walk import unlz4
from srm_common.wire.reencoding.merging import merge_row
from srm_common.wire.state.plain_records import newest_of_each_key, read_plain_records, timed_records
from srm_common.wire.varints import read_uvarint, read_varint
from tests.unit.wire.built_batches import Record, batch_bytes, body_of, read, some, stamped, varint

_ENDLESS = b"\xff" * 300_000


def with_body(
    body: bytes, records: int, *, deltas: int | None = None, attributes: int = 0, time: int = 0
) -> SourceBatch:
    """A batch whose checksum and length are right."""
    last = records - 1 if deltas is None else deltas
    tail = struct.pack(">hiqqqhii", attributes, last, time, time, -1, -1, -1, records) + body
    data = struct.pack(">qiibI", 4, len(tail) + 9, 0, 2, crc32c(tail)) + tail
    return SourceBatch(parse_header(data), memoryview(data))


def _record(*parts: bytes) -> bytes:
    whole = b"".join(parts)
    return varint(len(whole)) + whole


READERS: dict[str, Callable[[SourceBatch], object]] = {
    "plain": lambda batch: list(read_plain_records(batch)),
    "timed": lambda batch: list(timed_records(batch)),
    "newest": lambda batch: newest_of_each_key(batch, {}),
    "loose": loose_records,
    "merged": lambda batch: merge_row([batch], 0, 1 << 17),
}
DAMAGED = {
    # Each record ends where it begins, and two billion of them are announced: it took hours.
    "a negative length": with_body(varint(-1), 1 << 30),
    "a negative length of two bytes": with_body(b"\x81\x00" + bytes(30), 1 << 30),
    "no length at all": with_body(b"", 1),
    "a length without end": with_body(_ENDLESS, 1),
    "a time without end": with_body(_record(b"\0", _ENDLESS), 1, deltas=1),
    "a delta without end": with_body(_record(b"\0\0", _ENDLESS), 1, deltas=1),
    "a record that ends beyond the batch": with_body(varint(50) + b"\0\0\0\1\1\0", 1),
    "a record that ends inside its delta": with_body(varint(2) + b"\0\0\0\1\1\0", 1, deltas=1),
    "a key longer than the batch": with_body(_record(b"\0\0\0", varint(1 << 40), b"k"), 1),
    "more bytes than records": with_body(_record(b"\0\0\0\1\1\0") * 2, 1),
}
#: Whose bytes from the key on are passed on as they are.
_BY_SLICES = {("a key longer than the batch", "loose"), ("a key longer than the batch", "merged")}


@pytest.fixture(params=["plain", "compiled"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_looked", True)
    monkeypatch.setattr(merging, "_walked", 0)
    monkeypatch.setattr(merging, "_compiled", None)
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
        compiled = merging._compiled_loops()
        monkeypatch.setattr(merging, "_compiled", compiled)


@pytest.mark.parametrize(
    ("damage", "reader"), [(one, other) for one in DAMAGED for other in READERS if (one, other) not in _BY_SLICES]
)
def test_a_damaged_record_is_named(loops: None, damage: str, reader: str) -> None:
    with pytest.raises(CorruptBatch, match=r"batch at offset 4 (ends inside record|does not end with its last record)"):
        READERS[reader](DAMAGED[damage])


def test_a_row_is_taken_up_to_its_damage(loops: None) -> None:
    """Of snappy too, which the compiled loops leave to the library."""
    for codec in (0, 2):
        good = [SourceBatch(parse_header(one), memoryview(one)) for one in (batch_bytes(some([0]), codec=codec),) * 3]
        packed, taken = merge_row([*good[:1], DAMAGED["more bytes than records"]], 0, 1 << 17)
        assert taken == 1
        assert packed is not None
        assert packed.record_count == 1


@pytest.mark.parametrize("deltas", [[0, 5], [1, 0], [-1, 0]])
def test_offsets_that_a_log_cannot_have(loops: None, deltas: list[int]) -> None:
    """Beyond the batch's last offset, or not ascending: the map of offsets could not be written."""
    body = b"".join(_record(b"\0\0", varint(delta), b"\1\1\0") for delta in deltas)
    with pytest.raises(CorruptBatch, match="batch at offset 4 ends inside record"):
        merge_row([with_body(body, 2, deltas=3)], 0, 1 << 17)


@pytest.mark.parametrize(("offset", "deltas", "records"), [(-1, 0, 1), (1 << 62, 0, 1), (0, -1, 0), (0, 0, -1)])
def test_a_header_that_no_log_has(offset: int, deltas: int, records: int) -> None:
    data = bytearray(batch_bytes(some([0])))
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 23, deltas)
    struct.pack_into(">i", data, 57, records)
    with pytest.raises(CorruptBatch, match="impossible"):
        list(split(memoryview(data)))


def test_times_as_far_apart_as_they_can_be(loops: None) -> None:
    """They wrap around, as in Java: what a consumer adds up is what the producer said."""
    latest, earliest = (1 << 63) - 1, -(1 << 63)
    batches = [
        with_body(body_of([Record(4 + number, time, b"k", b"v")], 4 + number, time), 1, time=time)
        for number, time in enumerate((latest, earliest))
    ]
    batches[1] = batches[1]._replace(header=batches[1].header._replace(base_offset=5))
    packed, taken = merge_row(batches, 0, 1 << 17)
    assert (packed is not None, taken) == (True, 2)
    assert packed is not None
    wrapped = [one.timestamp % (1 << 64) for one in read(stamped(packed))]
    assert wrapped == [latest % (1 << 64), earliest % (1 << 64)]
    again = pack([record for batch in batches for record in loose_records(batch)], 0)
    assert [one.timestamp % (1 << 64) for one in read(stamped(again))] == wrapped


@pytest.mark.parametrize(
    "body", [b"", b"\x0c\0\0\0", b"\x0c\0\0\0\2\0", _ENDLESS, b"\x0c\0\0\0\1\0\0\0\0"], ids=range(5)
)
def test_a_marker_without_a_key(body: bytes) -> None:
    with pytest.raises(CorruptBatch, match="control batch at offset 4 has no readable key"):
        control_type(with_body(body, 1, attributes=CONTROL | TRANSACTIONAL))


@pytest.mark.parametrize("damaged", [_ENDLESS, b"\xff" * 9 + b"\x02"], ids=["endless", "65 bits"])
def test_a_number_of_more_than_64_bits_is_none(damaged: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(damaged, 0)


def test_a_length_of_more_than_32_bits_is_none() -> None:
    with pytest.raises(ValueError, match="more than 5 bytes"):
        read_uvarint(_ENDLESS, 0)
    assert read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == ((1 << 32) - 1, 5)


def _entry(magic: int, value: bytes, attributes: int) -> bytes:
    parts = bytes((magic, attributes)) + struct.pack(">q", 0) * magic + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 4, len(parts) + 4, crc32(parts)) + parts


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (_entry(1, gzip.compress(_entry(1, b"v", 0)), GZIP), "is in another one"),
        (b"", "has no messages"),
        (batch_bytes(some([0])), "has a batch of magic 2 in it"),
    ],
    ids=["a set", "nothing", "a batch"],
)
def test_what_an_old_message_set_cannot_hold(inner: bytes, reason: str) -> None:
    """A frame of gzip that holds itself would never end."""
    (batch,) = split(memoryview(_entry(1, gzip.compress(inner), GZIP)))
    with pytest.raises(CorruptBatch, match=f"compressed message set at offset 4 {reason}"):
        list(timed_records(batch))


@pytest.mark.parametrize("sizes", [0x44, 0x00, 0x30, 0x80])
def test_small_frames_are_held_to_what_consumers_read(sizes: int) -> None:
    """The size of blocks and its reserved bits, as KafkaLZ4BlockInputStream looks at them."""
    np = pytest.importorskip("numpy", reason="numpy is not installed: pip install 'srm-kafka[transforms]'")
    data = bytearray(batch_bytes(some([0]), codec=LZ4)[61:])
    out = np.zeros(1 << 16, np.uint8)
    assert unlz4(np.frombuffer(bytes(data), np.uint8), 0, len(data), out, 0) > 0
    data[5] = sizes
    assert unlz4(np.frombuffer(bytes(data), np.uint8), 0, len(data), out, 0) == -1
