"""``srm-control transform``: what becomes of the newest records, by the transforms of the flow and by others."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from srm_common.cli.main import run
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import ConfigError
from srm_common.records.row_faults import RowFaults
from srm_common.testing import LocalRegistry
from srm_common.usecases.transforms.newest_records import ReadLimits
from srm_common.usecases.transforms.transform_preview import preview_transforms
from tests.unit.usecases.fakes import Sides, properties_of

Control = Callable[..., Any]
FILTER = {
    "transforms": "gone",
    "transforms.gone.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.gone.predicate": "tombstone",
    "predicates": "tombstone",
    "predicates.tombstone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}


def no_odd(records: pa.RecordBatch) -> pa.RecordBatch:
    """A function of the user's."""
    odd = {row: "is odd" for row, value in enumerate(records["value"].to_pylist()) if value and value[-1] % 2}
    if odd:
        raise RowFaults(odd)
    return records


#: Clocks that :func:`slow` moves.
MOVED: list[list[float]] = []


def slow(records: pa.RecordBatch) -> pa.RecordBatch:
    """A function of the user's that takes a minute."""
    for clock in MOVED:
        clock[0] += 60.0
    return records


@pytest.fixture
def control(
    steady_sides: Sides, configuration_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> Control:
    """Calls the command on a flow that drops tombstones; the answer's data, or its text."""
    flow = steady_sides.flow
    file = configuration_file(properties_of(flow) | {f"{flow.name}.{key}": value for key, value in FILTER.items()})

    def call(*arguments: str, output: str = "json", code: int = 0) -> Any:
        assert run(["--config", str(file), "transform", "--flow", "a->b", "--output", output, *arguments]) == code
        said = capsys.readouterr()
        return said.err if code else json.loads(said.out) if output == "json" else said.out

    return call


def write(sides: Sides, count: int, partition: int = 0) -> None:
    values = [None if number % 3 == 2 else b"%d" % number for number in range(count)]
    sides.source.write("orders", [(b"k", value) for value in values], partition)


def test_the_newest_records_before_and_after(steady_sides: Sides, control: Control) -> None:
    steady_sides.source.create_topic("orders", 2)
    steady_sides.source.create_topic("orders-other")
    write(steady_sides, 30)
    before = steady_sides.target.topics()
    found = control("--sample", "4", "--topic", "orders")
    assert found["counts"] == {"unchanged": 2, "changed": 0, "dropped": 2, "failed": 0}
    assert [(one["partition"], one["offset"]) for one in found["records"]] == [(0, 26), (0, 27), (0, 28), (0, 29)]
    assert [one["after"]["result"] for one in found["records"]] == ["dropped", "unchanged", "unchanged", "dropped"]
    last = found["records"][2]
    assert (last["before"]["key"], last["before"]["value"], last["before"]["headers"]) == ("k", "28", [])
    assert last["after"]["record"] == last["before"]
    assert (last["other"], found["other_counts"]) == (None, None)
    assert steady_sides.target.topics() == before


def test_what_other_transforms_would_change(steady_sides: Sides, control: Control) -> None:
    steady_sides.source.create_topic("orders")
    write(steady_sides, 3)
    keys = ("transforms=", "provenance.headers=offset", f"transforms.python={__name__}:no_odd")
    found = control(*(part for key in keys for part in ("--set", key)))
    assert found["counts"] == {"unchanged": 2, "changed": 0, "dropped": 1, "failed": 0}
    assert found["other_counts"] == {"unchanged": 0, "changed": 2, "dropped": 0, "failed": 1}
    zero, one, two = (record["other"] for record in found["records"])
    assert zero["record"]["headers"] == [["srm.source.offset", "0"]]
    assert (one["result"], one["reason"]) == ("failed", "transforms.python: is odd")
    assert (two["result"], two["record"]["value"]) == ("changed", None)
    assert [one["difference"] for one in found["records"]] == [
        "written differently",
        "newly failed",
        "no longer dropped",
    ]
    assert found["differences"] == {"written differently": 1, "newly failed": 1, "no longer dropped": 1}
    text = control("--set", f"transforms.python={__name__}:no_odd", output="table")
    lines = text.splitlines()
    assert lines[0] == "3 records: 2 unchanged, 0 changed, 1 dropped, 0 failed"
    assert lines[1] == "The other transforms: 3 records: 1 unchanged, 0 changed, 1 dropped, 1 failed"
    assert lines[2] == "1 record would come out differently: 1 newly failed."
    assert any("other: failed" in line and "transforms.python: is odd" in line for line in lines)


def test_a_mask_is_tried_before_it_counts(steady_sides: Sides, control: Control) -> None:
    steady_sides.source.create_topic("orders")
    steady_sides.source.write("orders", [(b"k", b'{"card":"4711","n":1}'), (b"k", b"no JSON")])
    mask = {"transforms": "m", "transforms.m.type": "MaskField$Value", "transforms.m.fields": "card"}
    keys = [f"{key}={value}" for key, value in (mask | {"value.format": "json"}).items()]
    found = control(*(part for key in keys for part in ("--set", key)))
    masked, failed = (record["other"] for record in found["records"])
    assert json.loads(masked["record"]["value"]) == {"card": "", "n": 1}
    assert failed["result"] == "failed"
    assert failed["reason"].startswith("transforms.m: ")
    assert found["counts"]["unchanged"] == 2


def test_heartbeats_stay_as_a_run_leaves_them(steady_sides: Sides) -> None:
    steady_sides.set(heartbeats_replication=True, transforms=parse_chain(FILTER))
    steady_sides.source.create_topic("heartbeats")
    steady_sides.source.write("heartbeats", [(b"\0\0\1\x9a", None)])
    (shown,) = preview_transforms(steady_sides.clusters(), ["heartbeats"], 3).records
    assert shown.after.fate(shown.before) == "unchanged"


def test_statements_need_a_way_to_spark(steady_sides: Sides) -> None:
    steady_sides.set(statements=(Statement("transforms.sql", "SELECT upper(key) AS key FROM records"),))
    with pytest.raises(ConfigError, match="is evaluated by Spark, which is not at hand here"):
        preview_transforms(steady_sides.clusters(), [], 10)


def test_plain_statements_are_tried_without_spark(steady_sides: Sides) -> None:
    steady_sides.set(statements=(Statement("transforms.sql", "SELECT * FROM records WHERE value IS NOT NULL"),))
    steady_sides.source.create_topic("orders")
    steady_sides.source.write("orders", [(b"k", b"v"), (b"k", None)])
    shown = preview_transforms(steady_sides.clusters(), ["orders"], 10).records
    assert [previewed.after.fate(previewed.before) for previewed in shown] == ["unchanged", "dropped"]


def test_what_a_terminal_would_obey_is_shown_as_text(steady_sides: Sides, control: Control) -> None:
    steady_sides.source.create_topic("orders")
    steady_sides.source.write("orders", [(b"k", b"\x1b[2J \xc3\xbc \xff \r\n \xe2\x80\xae")])
    shown = r"\x1b[2J ü \xff \r\n \u202e"
    assert shown in control(output="table")
    assert control()["records"][0]["before"]["value"] == shown


def test_long_values_are_cut_and_their_size_is_told(steady_sides: Sides, control: Control) -> None:
    steady_sides.source.create_topic("orders")
    steady_sides.source.write("orders", [(bytes(range(200, 208)), b"x" * 70_000), (b"[1]", b"{")])
    table = control(output="table")
    assert f"{'x' * 60}... (70,000 bytes)" in table
    assert "0xc8c9cacbcccdcecf" in table
    long, short = (one["before"] for one in control()["records"])
    assert (len(long["value"]), long["value_bytes"], long["value_format"]) == (65_536, 70_000, "text")
    assert (long["key"], long["key_bytes"], long["key_format"]) == ("0xc8c9cacbcccdcecf", 8, "hex")
    assert (short["key_format"], short["value_format"]) == ("json", "text")


def avro_order() -> tuple[str, bytes]:
    fields = [{"name": "card", "type": "string"}, {"name": "n", "type": "int"}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), {"card": "4711", "n": 1})
    return json.dumps(schema), data.getvalue()


def protobuf_order() -> tuple[str, bytes]:
    return 'syntax = "proto3"; message Order { string card = 1; int32 n = 2; }', b"\x00\x0a\x044711\x10\x01"


@pytest.mark.parametrize("order", [avro_order, protobuf_order])
def test_binary_formats_are_shown_as_json_and_registered_nowhere(
    steady_sides: Sides,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    order: Callable[[], tuple[str, bytes]],
) -> None:
    schema, data = order()
    kind = order.__name__.removesuffix("_order")
    steady_sides.source.create_topic("orders")
    with LocalRegistry() as registry:
        number = registry.register("orders-value", schema, kind=kind.upper())
        value = b"\0" + number.to_bytes(4) + data
        steady_sides.source.write("orders", [(b"k", value), (b"k", b"\0\0\0\0\x63\x02")])
        keys = {"transforms": "r", "transforms.r.type": "ReplaceField$Value", "value.format": kind}
        keys |= {"transforms.r.renames": "card:number"}
        file = configuration_file(
            properties_of(steady_sides.flow)
            | {f"{alias}.schema.registry.url": registry.url for alias in "ab"}
            | {f"a->b.{key}": text for key, text in keys.items()}
        )
        assert run(["--config", str(file), "transform", "--flow", "a->b", "--output", "json"]) == 0
        renamed, unknown = json.loads(capsys.readouterr().out)["records"]
        assert {method for method, _ in registry.requests} == {"GET"}
    assert (renamed["before"]["value"], renamed["before"]["value_format"]) == ('{"card":"4711","n":1}', kind)
    assert renamed["before"]["value_bytes"] == len(value)
    assert renamed["after"]["record"]["value"] == '{"number":"4711","n":1}'
    assert (unknown["before"]["value"], unknown["before"]["value_format"]) == ("0x000000006302", "hex")
    assert ("schema id 99" if kind == "avro" else "does not say which message") in unknown["after"]["reason"]


def test_json_with_a_schema_is_shown_as_it_stands(
    steady_sides: Sides, configuration_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """With what its schema does not declare, which a transform drops, and without what it does not require."""
    schema = {"properties": {"card": {"type": "string"}, "gone": {"type": "string"}}, "required": ["card"]}
    steady_sides.source.create_topic("orders")
    with LocalRegistry() as registry:
        number = registry.register("orders-value", json.dumps(schema), kind="JSON")
        value = b"\0" + number.to_bytes(4) + b'{"card": "4711", "more": 1}'
        steady_sides.source.write("orders", [(b"k", value)])
        keys = {"transforms": "r", "transforms.r.type": "ReplaceField$Value", "transforms.r.renames": "card:number"}
        keys |= {"value.converter": "io.confluent.connect.json.JsonSchemaConverter"}
        keys["value.converter.use.optional.for.nonrequired"] = "true"
        file = configuration_file(
            properties_of(steady_sides.flow)
            | {f"{alias}.schema.registry.url": registry.url for alias in "ab"}
            | {f"a->b.{key}": text for key, text in keys.items()}
        )
        assert run(["--config", str(file), "transform", "--flow", "a->b", "--output", "json"]) == 0
        (renamed,) = json.loads(capsys.readouterr().out)["records"]
        assert {method for method, _ in registry.requests} == {"GET"}
    before, after = renamed["before"], renamed["after"]["record"]
    assert (before["value"], before["value_format"]) == ('{"card": "4711", "more": 1}', "json-schema")
    assert json.loads(after["value"]) == {"number": "4711", "gone": None}


def test_more_records_than_are_read_at_once(steady_sides: Sides) -> None:
    steady_sides.source.create_topic("orders", 2)
    write(steady_sides, 700)
    write(steady_sides, 5, partition=1)
    preview = preview_transforms(steady_sides.clusters(), ["orders"], 500)
    # The last by their timestamps are those of the other partition.
    places = {(record.partition, record.offset) for record in preview.records}
    assert places == {(1, offset) for offset in range(5)} | {(0, offset) for offset in range(205, 700)}
    assert (preview.wanted, preview.ended, preview.ended_early) == (500, "", "")


def test_a_limit_of_time_leaves_what_was_compared(steady_sides: Sides) -> None:
    """A clock that a hand moves: it stands still until the first records have been compared."""
    for number in range(3):
        steady_sides.source.create_topic(f"orders-{number}")
        steady_sides.source.write(f"orders-{number}", [(b"k", b"%d" % one) for one in range(40)])
    now = [0.0]
    steady_sides.set(transforms_python=f"{__name__}:slow", transforms_python_timeout_seconds=20.0)
    MOVED.append(now)
    try:
        preview = preview_transforms(
            steady_sides.clusters(), [], 20, limits=ReadLimits(seconds=10.0), clock=lambda: now[0]
        )
    finally:
        MOVED.clear()
    assert {record.topic for record in preview.records} == {"orders-0"}
    assert preview.ended_early == "compared 20 of the last 60: the limit of 10 s was reached"


def test_a_limit_of_bytes_leaves_the_newest(steady_sides: Sides) -> None:
    steady_sides.source.create_topic("orders")
    for number in range(200):
        steady_sides.source.write("orders", [(b"k", b"%03d" % number + b"x" * 20_000)])
    preview = preview_transforms(steady_sides.clusters(), [], 200, limits=ReadLimits(read_bytes=2 << 20))
    assert (
        preview.ended_early
        == f"compared {len(preview.records)} of the last 200: the limit of 2 MiB of records was reached"
    )
    offsets = [record.offset for record in preview.records]
    assert set(range(136, 200)) <= set(offsets)
    assert len(offsets) < 120


def test_all_topics_of_a_flow_and_none_that_is_empty(steady_sides: Sides, control: Control) -> None:
    for number in range(12):
        steady_sides.source.create_topic(f"orders-{number:02}")
    steady_sides.source.write("orders-03", [(b"k", b"1")])
    found = control()
    assert [one["topic"] for one in found["records"]] == ["orders-03"]
    assert found["topics_left_out"] == ["orders-10", "orders-11"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--topic", "absent"), "absent is not copied by a->b: there is no such topic"),
        (("--topic", "payments"), "payments is not copied by a->b: "),
        (("--set", "transforms"), "--set takes KEY=VALUE, but is 'transforms'"),
        (("--set", "topics=x"), "--set takes keys that begin with transforms, predicates, key.format, "),
        (("--set", "transforms.gone.type=Mask"), "--set:1: a->b.transforms.gone.type is 'Mask', a Java class that"),
        (("--set", "transforms.sql=DELETE"), "--set:1: a->b.transforms.sql is not a query: it must be like SELECT"),
        (("--set", "transforms.python=absent:f"), "'absent:f' cannot be imported: there is no Python module 'absent'"),
    ],
)
def test_what_cannot_be_shown(steady_sides: Sides, control: Control, arguments: tuple[str, ...], reason: str) -> None:
    steady_sides.source.create_topic("orders")
    steady_sides.source.create_topic("payments")
    write(steady_sides, 3)
    assert reason in control(*arguments, code=2)
