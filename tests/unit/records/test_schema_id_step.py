"""Ids of keys and values, rewritten in columns: the same as record by record, whatever part of a column it is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Side
from srm_common.errors import TransformFailed
from srm_common.records.row_faults import RowFaults
from srm_common.records.schema_id_step import SchemaIdStep
from srm_common.wire.reencoding.columns import SCHEMA

#: Ids that have others at the target; the highest and lowest, too.
NEW = {0: 2**31 - 1, 1: 1, 7: 70, 2**31 - 1: 0}


class Ids:
    def __init__(self) -> None:
        self.asked: list[tuple[int, str, Side]] = []

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        self.asked.append((number, topic, side))
        if number == 13:
            raise TransformFailed("silent")
        return NEW.get(number)


def framed(number: int, body: bytes = b"") -> bytes:
    return b"\0" + number.to_bytes(4) + body


def batch(keys: list[bytes | None], values: list[bytes | None]) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array(range(count), pa.int64()),
        pa.array([0] * count, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([0] * count, pa.int32()),
        pa.array([b""] * count, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def expected(data: bytes | None) -> bytes | None:
    if data is None or len(data) < 5 or data[0] != 0:
        return data
    return framed(NEW[int.from_bytes(data[1:5])], data[5:])


texts = st.one_of(
    st.none(),
    st.binary(max_size=4),
    st.binary(min_size=5, max_size=9).filter(lambda data: data[0] != 0),
    st.builds(framed, st.sampled_from(sorted(NEW)), st.binary(max_size=6)),
)


@given(
    st.lists(st.tuples(texts, texts), max_size=20),
    st.integers(0, 20),
    st.sampled_from([(), *((one,) for one in Side), (Side.KEY, Side.VALUE)]),
)
def test_each_id_becomes_the_targets(
    rows: list[tuple[bytes | None, bytes | None]], start: int, sides: tuple[Side, ...]
) -> None:
    records = batch([key for key, _ in rows], [value for _, value in rows]).slice(start)
    left = SchemaIdStep("orders", sides, Ids())(records)
    left.validate(full=True)
    for place, side in ((2, Side.KEY), (3, Side.VALUE)):
        before = records.column(place).to_pylist()
        assert left.column(place).to_pylist() == ([expected(one) for one in before] if side in sides else before)
    assert left.column(0) == records.column(0)


def test_rows_with_an_unknown_id_are_faults_and_the_others_go_on() -> None:
    step = SchemaIdStep("orders", (Side.KEY, Side.VALUE), Ids())
    records = batch([framed(7), framed(99), b"plain"], [framed(99), None, framed(99)])
    with pytest.raises(RowFaults) as caught:
        step(records)
    assert sorted(caught.value.reasons) == [0, 1, 2]
    assert caught.value.reasons[1].startswith("the key has the schema id 99, which the registry of the source does not")
    assert "leave it out of schemas.ids.values" in caught.value.reasons[2]


def test_each_id_of_a_side_is_asked_for_once() -> None:
    ids = Ids()
    step = SchemaIdStep("orders", (Side.KEY, Side.VALUE), ids)
    records = batch([framed(7)] * 3, [framed(7), framed(1), framed(1)])
    for _ in range(2):
        step(records)
    assert ids.asked == [(7, "orders", Side.KEY), (1, "orders", Side.VALUE), (7, "orders", Side.VALUE)]


def test_a_registry_that_does_not_tell_stops_the_batch() -> None:
    with pytest.raises(TransformFailed, match="silent"):
        SchemaIdStep("orders", (Side.VALUE,), Ids())(batch([None], [framed(13)]))
