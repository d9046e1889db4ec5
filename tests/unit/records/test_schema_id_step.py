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
from srm_common.wire.reencoding.columns import SCHEMA, encoded_header

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

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        return (number, topic) == (0, "orders")


def framed(number: int, body: bytes = b"") -> bytes:
    return b"\0" + number.to_bytes(4) + body


def batch(
    keys: list[bytes | None], values: list[bytes | None], headers: list[list[tuple[str, bytes]]] | None = None
) -> pa.RecordBatch:
    count = len(values)
    headers = headers or [[]] * count
    columns = [
        pa.array(range(count), pa.int64()),
        pa.array([0] * count, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(map(len, headers), pa.int32()),
        pa.array([b"".join(encoded_header(*one) for one in of_record) for of_record in headers], pa.binary()),
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


def test_long_integers_are_not_taken_for_ids_where_nobody_named_the_topic() -> None:
    """20,000,000 begins like a value with the id 1, and so on; here 7 is one that has another id at the target."""
    number = (7 << 24 | 1234).to_bytes(8)
    records = batch([None] * 3, [b"plain", framed(7, b"more than a number"), number])
    with pytest.raises(TransformFailed, match=r"values of totals are 8 bytes .* id 7, .* of no subject of this topic"):
        SchemaIdStep("totals", (Side.VALUE,), Ids(), unnamed=(Side.VALUE,))(records)
    others = records.slice(0, 2)
    step = SchemaIdStep("totals", (Side.VALUE,), Ids(), unnamed=(Side.VALUE,))
    assert step(others).column("value").to_pylist() == [b"plain", framed(70, b"more than a number")]
    named = SchemaIdStep("totals", (Side.VALUE,), Ids())(records)
    assert named.column("value").to_pylist()[2] == framed(70, number[5:])


def test_values_of_eight_bytes_with_an_id_of_the_topic_itself_are_mapped() -> None:
    step = SchemaIdStep("orders", (Side.VALUE,), Ids(), unnamed=(Side.VALUE,))
    mapped = step(batch([None, None], [framed(0, b"abc"), framed(1, b"abc")])).column("value").to_pylist()
    assert mapped == [framed(NEW[0], b"abc"), framed(1, b"abc")]


def test_values_whose_id_is_in_a_header_stay_as_they_are() -> None:
    """As Confluent's HeaderSchemaIdSerializer writes them: the value is the bare encoding, here of four nulls and 2."""
    bare = b"\0\0\0\0\7abc"
    headers = [[("x", b""), ("__value_schema_id", b"\1" + bytes(16))], [("__key_schema_id", b"__value_schema_id")], []]
    step = SchemaIdStep("orders", (Side.VALUE, Side.KEY), Ids())
    mapped = step(batch([bare] * 3, [bare] * 3, headers))
    assert mapped.column("value").to_pylist() == [bare, framed(70, b"abc"), framed(70, b"abc")]
    assert mapped.column("key").to_pylist() == [framed(70, b"abc"), bare, framed(70, b"abc")]
