"""Records that a transform cannot handle, batches that nobody can read: what is copied, and what dead letters say."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.chain import Step, StepKind, parse_chain
from srm_common.domain.transforms.faults import DeadLetterTopic, ErrorHandling
from srm_common.errors import CorruptBatch, RecordTooLarge, TransformFailed
from srm_common.records import transform as module
from srm_common.records import transformed as batches_of
from srm_common.records.python_function import PythonFunction
from srm_common.records.row_faults import RowFaults
from srm_common.records.transform import Mask, RecordFault, Transform
from srm_common.wire.batches.batch import Packed, SourceBatch
from srm_common.wire.reencoding import columns
from tests.unit.records.slot_transforms import come_out
from tests.unit.wire.built_batches import Record, rows, source_batch, take_all, without_offsets, written
from tests.unit.wire.reencoding.test_columns import seen


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_what_comes_before_a_corrupt_batch_is_copied(bad: int) -> None:
    records = [Record(number, 0, b"k", b"%d" % number) for number in range(3)]
    batches = [source_batch([record]) for record in records]
    data = bytearray(batches[bad].data)
    data[-1] ^= 1
    batches[bad] = SourceBatch(batches[bad].header, memoryview(data))
    packs: list[Packed] = []
    step = Step("s", StepKind.INSERT_HEADER, ("h", "v"))
    with pytest.raises(CorruptBatch, match=f"offset {bad} fails its checksum"):
        take_all(come_out(batches, 0, 3, None, Transform((step,), "t")), packs)
    arrived = [record.value for packed in packs for record in written(packed)]
    assert arrived == [record.value for record in records[:bad]]
    assert all(packed.upstream_end <= bad for packed in packs)


def refusing(bad: Collection[int]) -> Transform:
    """A step that cannot handle the records at some offsets, and gives the others a header."""

    def picky(step: Step, columns: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
        offsets = columns.column("offset").to_pylist()
        refused = {number: f"not {offset}" for number, offset in enumerate(offsets) if offset in bad}
        if refused:
            raise RowFaults(refused)
        return insert(step, columns, chosen)

    insert = module._STEPS[StepKind.INSERT_HEADER]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module._STEPS, StepKind.INSERT_HEADER, picky)
        return Transform((Step("picky", StepKind.INSERT_HEADER, ("h", "v")),), "t")


@given(rows(), st.data())
def test_what_fails_is_left_out_with_the_batch_that_passes_it(
    row: tuple[list[SourceBatch], list[Record]], data: st.DataObject
) -> None:
    """Wherever a chunk ends between two batches: what is before its end is in the copy or among the dead letters."""
    batches, records = row
    bad = data.draw(st.sets(st.sampled_from([record.offset for record in records])))
    context = data.draw(st.booleans())
    handling = ErrorHandling(tolerate=True, dead_letters=DeadLetterTopic("dead", 1, 1 << 20, context))
    end = records[-1].offset + 1
    skipped: list[tuple[int, Sequence[Packed]]] = []
    body_bytes = data.draw(st.sampled_from([300, 512 << 10]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_of, "BODY_BYTES", body_bytes)
        patch.setattr(batches_of, "PIECE_BYTES", 2 * body_bytes)
        kept: list[Record] = []
        source = come_out(batches, records[0].offset, end, None, refusing(bad), handling, skipped)
        for packed in source:
            kept += without_offsets(written(packed))
            reached = [one for one in records if one.offset < packed.upstream_end]
            failed = [one for one in reached if one.offset in bad]
            assert sum(count for count, _ in skipped) == len(failed)
            assert len(kept) == len(reached) - len(failed)
    letters = [offset for _, found in skipped for packed in found for offset in without_offsets(written(packed))]
    failed = [one for one in records if one.offset in bad]
    assert sum(count for count, _ in skipped) == len(failed)
    assert kept == without_offsets(
        [one._replace(headers=(*one.headers, ("h", b"v"))) for one in records if one.offset not in bad]
    )
    wanted = [
        one._replace(headers=(*one.headers, *context_of(one.offset)) if context else one.headers) for one in failed
    ]
    assert letters == without_offsets(wanted)


def context_of(offset: int) -> tuple[tuple[str, bytes], ...]:
    said = {
        "topic": "orders",
        "partition": "3",
        "offset": str(offset),
        "connector.name": "a->b",
        "task.id": "7",
        "stage": "TRANSFORMATION",
        "class.name": "org.apache.kafka.connect.transforms.InsertHeader",
        "exception.class.name": "srm_common.errors.TransformFailed",
        "exception.message": f"transforms.picky: not {offset}",
    }
    return tuple((f"__connect.errors.{name}", text.encode()) for name, text in said.items())


def test_a_failed_record_that_the_dead_letter_topic_cannot_hold_stops_the_partition() -> None:
    records = [Record(number, 0, b"k", b"v" * 500 * number) for number in range(3)]
    batches = [source_batch([record]) for record in records]
    handling = ErrorHandling(tolerate=True, dead_letters=DeadLetterTopic("dead", 1, 800))
    skipped: list[tuple[int, Sequence[Packed]]] = []
    with pytest.raises(RecordTooLarge, match="not fit into dead letter topic dead: the record at offset 2 needs"):
        list(come_out(batches, 0, 3, None, refusing({1, 2}), handling, skipped))
    assert skipped == []


def test_all_batches_before_a_record_that_is_too_large_are_copied() -> None:
    batch = source_batch(
        [Record(number, 0, b"k", b"v" * size) for number, size in enumerate((400_000, 400_000, 2_000_000))]
    )
    taken: list[Packed] = []
    skipped: list[tuple[int, Sequence[Packed]]] = []
    handling = ErrorHandling(tolerate=True)
    with pytest.raises(RecordTooLarge, match="the record at offset 2 needs"):
        take_all(come_out([batch], 0, 3, None, refusing(set()), handling, skipped), taken)
    assert [packed.upstream_end for packed in taken] == [1, 2]


@given(rows(), st.data())
def test_records_that_a_step_cannot_take(row: tuple[list[SourceBatch], list[Record]], data: st.DataObject) -> None:
    batches, records = row
    bad = data.draw(st.sets(st.sampled_from([record.offset for record in records]), min_size=1))
    header = ("h", b"v")
    transform = refusing(bad)
    left, faults = transform.apply(columns.decode(batches))
    taken = [one._replace(headers=(*one.headers, header)) for one in records]
    assert seen(left) == [one for one in taken if one.offset not in bad]
    assert faults == [RecordFault(offset, "picky", f"not {offset}") for offset in sorted(bad)]
    packs: list[Packed] = []
    end = records[-1].offset + 1
    with pytest.raises(TransformFailed, match=f"offset {min(bad)}, transforms.picky: not {min(bad)}"):
        take_all(come_out(batches, records[0].offset, end, None, transform), packs)
    arrived = [without_offset for packed in packs for without_offset in without_offsets(written(packed))]
    assert arrived == without_offsets([one for one in taken if one.offset < min(bad)])
    assert all(packed.upstream_end <= min(bad) for packed in packs)


def test_what_a_step_says_of_a_record_fits_into_the_headers_of_its_dead_letter() -> None:
    """A function may quote half of a surrogate pair, which is no text in UTF-8, or a text as long as the record."""

    def quotes(records: pa.RecordBatch) -> pa.RecordBatch:
        texts = {row: json.loads(value) for row, value in enumerate(records.column("value").to_pylist())}
        if any(texts.values()):
            raise RowFaults({row: f"'{text}' is no number" for row, text in texts.items() if text})
        return records

    step = PythonFunction("m:quotes", quotes, 100.0, "t")
    values = (b'"\\ud800"', b'"%s"' % (b"x" * 600_000), b'""')
    batch = source_batch([Record(number, 0, b"k", value) for number, value in enumerate(values)])
    handling = ErrorHandling(tolerate=True, dead_letters=DeadLetterTopic("dead", 1, 1 << 20, True))
    skipped: list[tuple[int, Sequence[Packed]]] = []
    kept = [
        record.value
        for packed in come_out([batch], 0, 3, None, Transform((), "t", [step]), handling, skipped)
        for record in written(packed)
    ]
    assert kept == [b'""']
    letters = [record for _, packs in skipped for packed in packs for record in written(packed)]
    assert [letter.value for letter in letters] == [*values[:2]]
    short, long = (dict(letter.headers)["__connect.errors.exception.message"] for letter in letters)
    assert short == b"transforms.python: '\\ud800' is no number"
    assert long == b"transforms.python: '" + b"x" * 499 + b"..."


@pytest.mark.parametrize(
    ("spec", "value", "reason"),
    [
        ("a:int64", b'{"a":"4111-1111"}', "field 'a': text of 9 characters is not an integer"),
        ("a:int8", b'{"a":"4111"}', "field 'a': text of 4 characters is an integer out of range for int8"),
        ("a:float64", b'{"a":"x"}', "field 'a': text of 1 character is not a number"),
        ("int64", b'"4111-1111"', "text of 9 characters is not an integer"),
    ],
)
def test_a_cast_that_fails_does_not_quote_the_record(spec: str, value: bytes, reason: str) -> None:
    """What it says is in run records, alarms and logs."""
    steps = {"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": spec, "value.format": "json"}
    batch = source_batch([Record(0, 0, b"k", value)])
    _, faults = Transform(parse_chain(steps), "t").apply(columns.decode([batch]))
    assert [fault.reason for fault in faults] == [reason]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("MaskField$Value", {"fields": "a"}),
        ("HeaderFrom$Value", {"fields": "a", "headers": "a", "operation": "copy"}),
        ("ValueToKey", {"fields": "a"}),
    ],
)
def test_a_step_that_takes_no_tombstones_says_what_to_do(name: str, settings: dict[str, str]) -> None:
    steps = {"transforms": "s", "transforms.s.type": name, "value.format": "json", "key.format": "json"}
    steps |= {f"transforms.s.{key}": value for key, value in settings.items()}
    records = columns.decode([source_batch([Record(0, 0, b"{}", None), Record(1, 0, b"{}", b"[]")])])
    _, (tombstone, other) = Transform(parse_chain(steps), "t").apply(records)
    told = "null; if it is a tombstone, give the step a predicate RecordIsTombstone and negate = true"
    assert tombstone.reason.endswith(told)
    assert "tombstone" not in other.reason
    avoids = {"transforms.s.predicate": "p", "transforms.s.negate": "true", "predicates": "p"}
    steps |= avoids | {"predicates.p.type": "RecordIsTombstone"}
    assert [fault.offset for fault in Transform(parse_chain(steps), "t").apply(records).faults] == [1]
