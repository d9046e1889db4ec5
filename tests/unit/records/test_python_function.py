"""Functions of users: what they may return, and the sentence for everything else."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import TransformFailed
from srm_common.records.python_function import SCHEMA, PythonFunction
from srm_common.records.row_faults import RowFaults
from srm_common.records.transform import RecordFault, Transform
from srm_common.wire.reencoding import columns
from tests.unit.wire.built_batches import Record, rows, source_batch
from tests.unit.wire.reencoding.test_columns import seen


@cache
def five() -> pa.RecordBatch:
    """Not made when pytest imports this file, since it takes numba half a second to load what it has compiled."""
    return columns.decode([source_batch([Record(10 + n, 5, b"k", b"%d" % n, (("h", b"v"),)) for n in range(5)])])


def called(function: Callable[[pa.RecordBatch], Any], seconds: float = 60.0) -> PythonFunction:
    return PythonFunction("mine.orders:clean", function, seconds, "orders")


@given(rows(), st.data())
def test_rows_are_kept_dropped_and_changed(row: tuple[list[Any], list[Record]], data: st.DataObject) -> None:
    batches, records = row
    kept = [data.draw(st.booleans()) for _ in records]
    add = data.draw(st.booleans())

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.equals(SCHEMA)
        assert batch.schema.metadata == {b"topic": b"orders"}
        batch = batch.filter(pa.array(kept))
        if add:
            key = pc.binary_join_element_wise(pc.fill_null(batch["key"], b"-"), pa.scalar(b"!"), pa.scalar(b""))
            headers = pa.array(
                [[*one, {"key": "new", "value": None}] for one in batch["headers"].to_pylist()], SCHEMA[4].type
            )
            batch = batch.set_column(2, SCHEMA[2], key).set_column(4, SCHEMA[4], headers)
        return batch

    wanted = [record for record, stays in zip(records, kept, strict=True) if stays]
    if add:
        wanted = [
            one._replace(key=(b"-" if one.key is None else one.key) + b"!", headers=(*one.headers, ("new", None)))
            for one in wanted
        ]
    left, faults = Transform((), "a.orders", [called(function)]).apply(columns.decode(batches))
    assert (seen(left), faults) == (wanted, [])


def test_null_headers_are_none() -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(4, SCHEMA[4], pa.nulls(batch.num_rows, SCHEMA[4].type))

    assert {record.headers for record in seen(called(function)(five()))} == {()}


def test_a_timestamp_before_1970_that_it_was_given_may_stay() -> None:
    """Brokers take them from clients other than Kafka's own."""
    given = columns.decode([source_batch([Record(10, -7, b"k", b"v")])])
    assert [record.timestamp for record in seen(called(lambda batch: batch)(given))] == [-7]


def test_rows_that_it_refuses_are_failed_records_and_it_is_asked_again() -> None:
    asked = []
    odd = pa.array([b"1", b"3"])

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        asked.append(batch.num_rows)
        rows = np.flatnonzero(pc.is_in(batch["value"], odd).to_numpy(zero_copy_only=False))
        bad = {row: f"no {batch['value'][row].as_py().decode()}" for row in rows}
        if bad:
            raise RowFaults(bad)
        return batch

    left, faults = Transform((), "a.orders", [called(function)]).apply(five())
    assert [record.value for record in seen(left)] == [b"0", b"2", b"4"]
    assert faults == [RecordFault(11, "python", "no 1"), RecordFault(13, "python", "no 3")]
    assert asked == [5, 3]


def changed(number: int, values: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Makes an array of a list when it is called only: the first one takes pyarrow to import pandas."""

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = pa.array(values) if isinstance(values, list) else values
        return batch.set_column(number, SCHEMA[number].name, column)

    return function


def changed_headers(values: list[Any]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    return lambda batch: batch.set_column(4, SCHEMA[4].name, pa.array(values, SCHEMA[4].type))


def raising(error: BaseException) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise error

    return function


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (raising(KeyError("id")), "raised KeyError: 'id'"),
        (raising(SystemExit(3)), "raised RuntimeError: SystemExit: 3"),
        (raising(RowFaults({})), "raised RowFaults for no row"),
        (raising(RowFaults({5: "x"})), "raised RowFaults for row 5 of 5"),
        (raising(RowFaults({-1: "x"})), "raised RowFaults for row -1 of 5"),
        (raising(RowFaults({True: "x"})), "raised RowFaults for row True of 5"),
        (raising(ValueError("\ud800")), "raised ValueError: \\ud800"),
        (raising(ValueError("x" * 501)), f"raised ValueError: {'x' * 500}..."),
        (lambda batch: None, "returned NoneType, not a pyarrow.RecordBatch"),
        (changed_headers([[None]] * 5), "returned a header without a name"),
        (lambda batch: pa.table(batch.to_pydict()), "returned Table, not a pyarrow.RecordBatch"),
        (
            lambda batch: batch.drop_columns(["key"]),
            "returned the columns offset, timestamp, value, headers, not offset, timestamp, key, value, headers",
        ),
        (changed(3, ["x"] * 5), "returned column value as string, not binary"),
        (changed(1, [1, None, 3, 4, 5]), "returned column timestamp with nulls"),
        (
            changed(1, [5, -1, 5, -2, 5]),
            "returned timestamp -2 for offset 13; it is milliseconds since 1970, or -1 for none",
        ),
        (changed(0, [10, 11, 12, 13, 15]), "returned offset 15, which it was not given"),
        (changed(0, [10, 11, 13, 12, 14]), "returned offset 12 after 13; the order must not change"),
        (lambda batch: batch.take(pa.array([0, 2, 2, 3])), "returned offset 12 after 12; the order must not change"),
        (lambda batch: batch.take(pa.array([4, 0])), "returned offset 10 after 14; the order must not change"),
        (
            lambda batch: batch.take(pa.array([0, 1, 2, 3, 4, 4])),
            "returned 6 rows for 5; rows can only be changed or left out",
        ),
    ],
)
def test_everything_else_is_one_sentence(function: Callable[[pa.RecordBatch], Any], what: str) -> None:
    with pytest.raises(TransformFailed) as raised:
        called(function)(five())
    assert str(raised.value) == f"offsets 10 to 14, transforms.python: mine.orders:clean {what}"


def test_a_batch_whose_buffers_are_damaged_is_not_used() -> None:
    """Compiled loops read what its offsets point at."""
    wild = pa.Array.from_buffers(
        pa.binary(), 5, [None, pa.array([0, 1 << 30, 2, 3, 4, 4], pa.int32()).buffers()[1], pa.py_buffer(b"abcd")]
    )
    with pytest.raises(TransformFailed, match="returned a batch that is not valid"):
        called(changed(3, wild))(five())


@pytest.mark.parametrize("busy", [True, False])
def test_a_function_that_does_not_come_back_is_left_alone(busy: bool) -> None:
    ended = []

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            while True:
                if not busy:
                    time.sleep(0.01)
        finally:
            ended.append(batch)

    with pytest.raises(TransformFailed, match=r"took longer than transforms\.python\.timeout\.seconds = 0\.1$"):
        called(function, 0.1)(five())
    deadline = time.monotonic() + 60
    while not ended:
        assert time.monotonic() < deadline, "its thread goes on"
        time.sleep(0.01)
