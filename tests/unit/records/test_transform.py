"""Transforms on columns do to each record what Connect's do to one, said once more in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import Compression
from srm_common.domain.flow.settings import PROVENANCE_HEADERS, Provenance
from srm_common.domain.patterns.java_regex import compile_java_regex
from srm_common.domain.transforms.chain import Chain, Predicate, PredicateKind, Step, StepKind, parse_chain
from srm_common.records import transformed as batches_of
from srm_common.records.connect.converters import Converter
from srm_common.records.provenance import ProvenanceHeaders
from srm_common.records.python_function import PythonFunction
from srm_common.records.transform import RecordFault, Transform
from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.batches.codec import ZSTD
from srm_common.wire.reencoding import columns
from srm_common.wire.reencoding.columns import HEADERS_TYPE, decode, parsed_headers, with_headers
from tests.unit.records.slot_transforms import UPSTREAM, come_out
from tests.unit.wire.built_batches import Record, rows, source_batch, without_offsets, written
from tests.unit.wire.reencoding.test_columns import seen

NAMES = st.sampled_from(["", "h", "trace-id", "ü", "absent"])
PREDICATES = st.one_of(
    st.none(),
    st.builds(Predicate, st.just("p"), st.just(PredicateKind.HEADER_KEY), NAMES),
    st.just(Predicate("p", PredicateKind.TOMBSTONE)),
    st.builds(Predicate, st.just("p"), st.just(PredicateKind.TOPIC_NAME), st.sampled_from(["a.orders", "b.*"])),
)
KINDS = st.one_of(
    st.just((StepKind.FILTER, ())),
    st.tuples(st.just(StepKind.INSERT_HEADER), st.tuples(NAMES, st.sampled_from(["", "x" * 200, "é"]))),
    st.tuples(st.just(StepKind.DROP_HEADERS), st.lists(NAMES, min_size=1, max_size=2).map(tuple)),
)
CHAINS = st.lists(
    st.builds(
        lambda kind, predicate, negate: Step("s", kind[0], kind[1], predicate, negate and predicate is not None),
        KINDS,
        PREDICATES,
        st.booleans(),
    ),
    max_size=4,
).map(tuple)


def by_record(chain: Chain, topic: str, record: Record) -> Record | None:
    for step in chain:
        held = True
        match step.predicate:
            case Predicate(kind=PredicateKind.HEADER_KEY, argument=name):
                held = any(name == header for header, _ in record.headers)
            case Predicate(kind=PredicateKind.TOMBSTONE):
                held = record.value is None
            case Predicate(argument=pattern):
                held = compile_java_regex(pattern).matches(topic)
        if held == step.negate:
            continue
        match step.kind:
            case StepKind.FILTER:
                return None
            case StepKind.INSERT_HEADER:
                name, value = step.arguments
                record = record._replace(headers=(*record.headers, (name, value.encode())))
            case StepKind.DROP_HEADERS:
                left = tuple(header for header in record.headers if header[0] not in step.arguments)
                record = record._replace(headers=left)
    return record


def expected(chain: Chain, records: Sequence[Record]) -> list[Record]:
    changed = (by_record(chain, "a.orders", record) for record in records)
    return [record for record in changed if record is not None]


@given(rows(), CHAINS)
def test_columns_and_records_agree(row: tuple[list[SourceBatch], list[Record]], chain: Chain) -> None:
    batches, records = row
    transform = Transform(chain, "a.orders")
    assert seen(transform.apply(columns.decode(batches)).records) == expected(chain, records)
    if not transform.changes:
        assert expected(chain, records) == records


@given(rows(), CHAINS, st.data())
def test_batches_come_out_as_their_records_do(
    row: tuple[list[SourceBatch], list[Record]], chain: Chain, data: st.DataObject
) -> None:
    batches, records = row
    first = data.draw(st.integers(records[0].offset - 2, records[-1].offset))
    end = data.draw(st.integers(first + 1, records[-1].offset + 3))
    compression = data.draw(st.sampled_from([None, Compression("zstd", 3)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_of, "PIECE_BYTES", data.draw(st.sampled_from([40, 300, 4 << 20])))
        dropped: list[int] = []
        packs, missing = [], []
        for packed in come_out(batches, first, end, compression, Transform(chain, "a.orders"), dropped=dropped):
            packs.append(packed)
            reached = sum(first <= record.offset < packed.upstream_end for record in records)
            missing.append(reached - sum(pack.record_count for pack in packs) - sum(dropped))
    assert not any(missing), "dropped records are told with the batch that passes them"
    read = [record for record in records if first <= record.offset < end]
    wanted = expected(chain, read)
    assert sum(dropped) == len(read) - len(wanted)
    assert [offset for packed in packs for offset in without_offsets(written(packed))] == without_offsets(wanted)
    runs = [run for packed in packs for run in packed.runs]
    assert [start + n for start, length, _ in runs for n in range(length)] == [record.offset for record in wanted]
    assert all(length == count for _, length, count in runs)
    ends = [packed.upstream_end for packed in packs]
    assert ends == sorted(ends)
    assert all(upstream_end <= end for upstream_end in ends)
    if compression is not None:
        assert all(packed.attributes == ZSTD for packed in packs)


def test_a_topic_that_no_step_is_for_goes_unopened() -> None:
    step = Step("s", StepKind.FILTER, (), Predicate("p", PredicateKind.TOPIC_NAME, "b.*"))
    assert not Transform((step,), "a.orders").changes
    assert Transform((step,), "b.orders").changes


@given(rows(), CHAINS, st.lists(st.sampled_from(list(PROVENANCE_HEADERS)), unique=True))
def test_what_is_left_says_where_it_came_from(
    row: tuple[list[SourceBatch], list[Record]], chain: Chain, wanted: list[Provenance]
) -> None:
    batches, records = row
    transform = Transform(chain, "a.orders")
    provenance = ProvenanceHeaders(tuple(wanted), "a->b", "a", UPSTREAM)
    first, end = records[0].offset, records[-1].offset + 1
    packs = list(come_out(batches, first, end, None, transform, provenance=provenance))
    arrived = [one for packed in packs for one in written(packed)]
    for record, came in zip(expected(chain, records), arrived, strict=True):
        own = len(record.headers)
        assert came.headers[:own] == record.headers
        said = {
            "srm.flow": b"a->b",
            "srm.source.cluster": b"a",
            "srm.source.topic": b"orders",
            "srm.source.partition": b"3",
            "srm.source.offset": b"%d" % record.offset,
        }
        assert sorted(came.headers[own:]) == sorted(
            (PROVENANCE_HEADERS[one], said[PROVENANCE_HEADERS[one]]) for one in wanted
        )


def json_chain(*steps: tuple[str, dict[str, str]], **more: str) -> Chain:
    values = {"transforms": ",".join(f"s{number}" for number in range(len(steps))), "value.format": "json"}
    for number, (name, settings) in enumerate(steps):
        values[f"transforms.s{number}.type"] = name
        values |= {f"transforms.s{number}.{key}": value for key, value in settings.items()}
    return parse_chain(values | more)


def values_of(chain: Chain, *values: bytes | None) -> tuple[list[bytes | None], list[RecordFault]]:
    records = [Record(number, 0, b"k", value) for number, value in enumerate(values)]
    left, faults = Transform(chain, "t").apply(columns.decode([source_batch(records)]))
    assert left.column("key").to_pylist() == [b"k"] * left.num_rows
    return left.column("value").to_pylist(), faults


MASK = ("MaskField$Value", {"fields": "a"})


def test_values_are_decoded_and_encoded_once_whatever_steps_are_between(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"decode": 0, "encode": 0}
    for name in counts:
        real = getattr(Converter, name)

        def counting(self: Converter, *given: object, _name: str = name, _real: Callable[..., object] = real) -> object:
            counts[_name] += 1
            return _real(self, *given)

        monkeypatch.setattr(Converter, name, counting)
    hoist = ("HoistField$Value", {"field": "a"})
    chain = json_chain(MASK, ("InsertHeader", {"header": "h", "value.literal": "v"}), hoist)
    assert values_of(chain, b'{"a":1}', b'{"a":2}') == ([b'{"a":{"a":0}}'] * 2, [])
    assert counts == {"decode": 2, "encode": 2}


def test_a_record_that_cannot_be_read_or_written_is_refused_by_the_step() -> None:
    chain = json_chain(MASK, ("TimestampConverter$Value", {"field": "b", "target.type": "Timestamp"}))
    left, faults = values_of(chain, b'{"a":1}', b"{", b"[]", b'{"b":5}', b'{"a":2}')
    assert left == [b'{"a":0,"b":null}', b'{"a":0,"b":null}']
    assert [(fault.offset, fault.step) for fault in faults] == [(1, "s0"), (2, "s0"), (3, "s1")]
    assert faults[0].reason.startswith("the value is not JSON: Expecting property name")
    assert faults[1].reason == "MaskField takes objects where there is no schema, but not java.util.ArrayList"
    assert faults[2].reason == "the value cannot be written without a schema: it has a java.util.Date"


def test_records_that_no_step_is_for_keep_their_bytes() -> None:
    tombstones = {"predicates": "gone", "predicates.gone.type": "RecordIsTombstone"}
    step = (MASK[0], MASK[1] | {"predicate": "gone", "negate": "true"})
    assert values_of(json_chain(step, **tombstones), b' {"a" : 1}', None) == ([b'{"a":0}', None], [])
    extract = ("ExtractField$Value", {"field": "b"})
    drop = ("Filter", {"predicate": "gone"})
    assert values_of(json_chain(extract, drop, **tombstones), b'{"a":1}', b'{"b":2}') == ([b"2"], [])


def test_nested_too_deeply() -> None:
    left, faults = values_of(json_chain(MASK), b'{"b":' * 5000 + b"1" + b"}" * 5000, b'{"a":1}')
    assert left == [b'{"a":0}']
    (fault,) = faults
    assert "nested too deeply" in fault.reason


def test_names_of_headers_that_are_not_utf8_matter_only_where_text_is_needed() -> None:
    """Brokers take any bytes; to Kafka's own client such a name is another one, with replacement characters."""
    batch = source_batch(
        [Record(4, 9, b"k", b"v", (("h", b"1"),)), Record(5, 9, b"k", b"v", (("x", b"1"), ("h", b"2")))]
    )
    named = decode([batch])
    structs = parsed_headers(named).flatten()
    strange = pa.array([b"h", b"\xff", b"h"], pa.binary())
    fields = list(structs.type)
    lists = pa.ListArray.from_arrays([0, 1, 3], pa.StructArray.from_arrays([strange, structs.field(1)], fields=fields))
    records = with_headers(named, lists.cast(HEADERS_TYPE))
    drop = Step("drop", StepKind.DROP_HEADERS, ("h",), Predicate("p", PredicateKind.HEADER_KEY, "h"))
    left, faults = Transform((drop,), "orders").apply(records)
    assert (parsed_headers(left).to_pylist(), faults) == ([[], [{"key": b"\xff", "value": b"1"}]], [])
    function = PythonFunction("own.kept", lambda given: given, 60.0, "orders")
    left, faults = Transform((), "orders", [function]).apply(records)
    assert left.column("offset").to_pylist() == [4]
    assert faults == [RecordFault(5, "python", "the name of header b'\\xff' is not UTF-8")]


def test_a_cast_of_what_a_cast_has_made_of_a_date() -> None:
    """The schema of a whole value keeps its name, by which the number would be a date still."""
    name = "org.apache.kafka.connect.data.Timestamp"
    envelope = {"schema": {"type": "int64", "name": name, "version": 1}, "payload": 5}
    steps = {"transforms": "a,b", "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    for alias, spec in (("a", "int64"), ("b", "int32")):
        steps |= {f"transforms.{alias}.type": "Cast$Value", f"transforms.{alias}.spec": spec}
    left, faults = values_of(parse_chain(steps), json.dumps(envelope).encode())
    assert left == []
    assert [str(fault) for fault in faults] == [
        f"offset 0, transforms.b: Cast does not take java.lang.Long for Schema{{{name}:INT64}}"
    ]
