"""Schemas and the records that need them, between Karapaces, which give ids themselves, or what stands in for them."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.schemas.schemas import Reference
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import LocalKafka, LocalRegistry
from srm_common.testing.local_karapace import LocalKarapace
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.contract.registry_contract import LOGIN, Server, client
from tests.kafka.flows import Seen, read
from tests.kafka.records import produce
from tests.slot_worker import here

pytestmark = pytest.mark.kafka

Flow = Callable[..., FlowSettings]
#: Within the retention of every topic.
NOW_MS = int(time.time() * 1000)
PROTOBUF = 'syntax = "proto3";\nimport "{0}";\nmessage  Order {{ int32 x = 1; }}\n'


@pytest.fixture
def alias(name: str) -> str:
    return name.replace("-", "")


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, alias: str, tmp_path: Path) -> Flow:
    """The flow to ``t`` with schemas; more keys without dots before them are of the flow."""

    def made(source: Server, target: Server, more: Mapping[str, str] | None = None, login: str = "") -> FlowSettings:
        lines = {
            "clusters": f"{alias}, t",
            f"{alias}.bootstrap.servers": source_kafka.bootstrap_servers,
            f"{alias}.schema.registry.url": source.url,
            "t.bootstrap.servers": target_kafka.bootstrap_servers,
            "t.schema.registry.url": target.url,
            **({"t.basic.auth.user.info": login} if login else {}),
            f"{alias}->t.enabled": "true",
            f"{alias}->t.topics": f"{name}-.*",
            f"{alias}->t.sync.schemas.enabled": "true",
            f"{alias}->t.schemas.subjects": f"{name}-.*",
            "replication.factor": "1",
            "emit.heartbeats.enabled": "false",
            **{f"{alias}->t.{key}": value for key, value in (more or {}).items()},
        }
        file = tmp_path / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        return load_configuration(file).flow(f"{alias}->t")

    return made


@pytest.fixture
def registry(source_registry: Server) -> Iterator[SchemaRegistry]:
    with client(source_registry) as registry:
        yield registry


def order(name: str, *fields: str) -> dict[str, Any]:
    listed = [{"name": field, "type": "long", "default": 0} for field in fields]
    return {"type": "record", "name": f"Order_{name.replace('-', '_')}", "fields": listed}


def avro(schema: Mapping[str, Any], **row: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, dict(schema), row)
    return out.getvalue()


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + body


def copy(flow: FlowSettings) -> RunRecord:
    """A refresh without a fault, and a run."""
    refreshed = refresh_topics(flow, at_once=True)
    assert [result.error for result in refreshed.results if result.error is not None] == []
    return replicate(flow, RunOptions("karapace"), here)


def planned(flow: FlowSettings) -> list[str]:
    return [text for text in map(str, plan_topics(flow).actions) if " subject " in text]


def test_records_are_read_by_the_targets_ids(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    guarded_registry: Server,
    source_registry: Server,
    registry: SchemaRegistry,
    flow: Flow,
    name: str,
    alias: str,
) -> None:
    """Avro in two versions, JSON Schema and Protobuf with references, behind a login; a second run has only news."""
    topic = f"{name}-orders"
    source_kafka.create_topic(topic, 1)
    with client(guarded_registry, *LOGIN) as there:
        for number in range(30):
            there.add(f"{name}-own", "AVRO", json.dumps({"type": "fixed", "name": "F", "size": 100 + number}))
            there.set_level(f"{name}-own", "NONE")
    schemas = [order(name, *fields) for fields in ("a", "ab")]
    numbers = [registry.add(f"{topic}-value", "AVRO", json.dumps(schema)) for schema in schemas]
    key = registry.add(f"{topic}-key", "JSON", json.dumps({"type": "object", "title": name}))
    common = f"{name}-common.proto"
    registry.add(common, "PROTOBUF", f'syntax = "proto3";\nmessage C_{alias} {{ int32 y = 1; }}\n')
    proto = registry.add(f"{name}-p", "PROTOBUF", PROTOBUF.format(common), (Reference(common, common, 1),))
    values = [
        framed(numbers[0], avro(schemas[0], a=1)),
        framed(numbers[1], avro(schemas[1], a=1, b=2)),
        framed(proto, b"\0\x08\x01"),
        None,
    ]
    records = [Seen(framed(key, b"{}"), value, (("h", b"v"),), NOW_MS) for value in values]
    produce(source_kafka, topic, 0, records, compression_type="zstd")
    # Named, since the value of 8 bytes has a subject of another name.
    mapped = {"schemas.ids": "map", "schemas.ids.keys": topic, "schemas.ids.values": topic}
    settings = flow(source_registry, guarded_registry, mapped, login=":".join(LOGIN))
    assert len(planned(settings)) == 5
    assert copy(settings).state is RunState.DONE
    assert planned(settings) == []

    with client(guarded_registry, *LOGIN) as there:
        copied = read(target_kafka, f"{alias}.{topic}", 0)
        assert [seen.headers for seen in copied] == [seen.headers for seen in records]
        assert [seen.timestamp_ms for seen in copied] == [seen.timestamp_ms for seen in records]
        assert copied[3].value is None
        found = []
        for one, before in zip(copied[:3], values, strict=False):
            assert one.value is not None
            assert before is not None
            assert one.value[5:] == before[5:]
            body = there.by_id(int.from_bytes(one.value[1:5]))
            assert body is not None
            found.append(body)
        assert (
            [
                fastavro.schemaless_reader(io.BytesIO(one.value[5:]), json.loads(body["schema"]), None)  # type: ignore[index]
                for one, body in zip(copied[:2], found, strict=False)
            ]
            == [{"a": 1}, {"a": 1, "b": 2}]
        )
        assert found[2]["references"] == [{"name": common, "subject": common, "version": 1}]
        assert {there.by_id(int.from_bytes(seen.key[1:5]))["schemaType"] for seen in copied} == {"JSON"}  # type: ignore[index]

        # One that comes while the flow runs: nothing was planned for it.
        third = order(name, "a", "b", "c")
        number = registry.add(f"{topic}-value", "AVRO", json.dumps(third))
        produce(source_kafka, topic, 0, [replace(records[0], value=framed(number, avro(third, a=1, b=2, c=3)))])
        record = replicate(settings, RunOptions("again"), here)
        assert record.state is RunState.DONE
        newest = read(target_kafka, f"{alias}.{topic}", 0)[-1].value
        assert newest is not None
        body = there.by_id(int.from_bytes(newest[1:5]))
        assert body is not None
        assert json.loads(body["schema"]) == third


def json_order(name: str, *fields: str) -> dict[str, Any]:
    properties = {one: {"type": "integer", "connect.index": place} for place, one in enumerate(fields)}
    return {"type": "object", "title": order(name)["name"], "properties": properties}


def proto_order(name: str, *fields: str) -> str:
    listed = "".join(f"  int64 {one} = {number};\n" for number, one in enumerate(fields, 1))
    return f'syntax = "proto3";\n\nmessage {order(name)["name"]} {{\n{listed}}}\n'


def proto_bytes(schema: str, **row: int) -> bytes:
    """Small numbers; behind the place of the message, the first one."""
    numbers = _numbers(schema)
    return b"\0" + b"".join(bytes((numbers[one] << 3, value)) for one, value in row.items())


def of_proto(schema: str, data: bytes) -> dict[str, int]:
    names = {number: one for one, number in _numbers(schema).items()}
    assert data[0] == 0
    return {names[data[at] >> 3]: data[at + 1] for at in range(1, len(data), 2)}


def _numbers(schema: str) -> dict[str, int]:
    return {one: int(number) for one, number in re.findall(r"int64 (\w+) = (\d+);", schema)}


def json_bytes(schema: Mapping[str, Any], **row: int) -> bytes:
    return json.dumps(row).encode()


def of_avro(schema: Mapping[str, Any], data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), dict(schema), None)


def of_json(schema: Mapping[str, Any], data: bytes) -> Any:
    loads = json.loads(data)
    assert set(schema["properties"]) == set(loads)
    return loads


@pytest.mark.parametrize("ids", ["keep", "map"])
@pytest.mark.parametrize(
    ("kind", "format_", "schema_of", "written", "read_by"),
    [
        ("AVRO", "avro", order, avro, of_avro),
        ("JSON", "json-schema", json_order, json_bytes, of_json),
        ("PROTOBUF", "protobuf", proto_order, proto_bytes, of_proto),
    ],
)
def test_transforms_read_and_write_by_karapace(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    source_registry: Server,
    target_registry: Server,
    registry: SchemaRegistry,
    flow: Flow,
    name: str,
    alias: str,
    ids: str,
    kind: str,
    format_: str,
    schema_of: Callable[..., Any],
    written: Callable[..., bytes],
    read_by: Callable[[Any, bytes], Any],
) -> None:
    topic = f"{name}-orders"
    source_kafka.create_topic(topic, 1)
    schema = schema_of(name, "b", "a")
    number = registry.add(f"{topic}-value", kind, schema if isinstance(schema, str) else json.dumps(schema))
    produce(source_kafka, topic, 0, [Seen(None, framed(number, written(schema, b=2, a=7)), (), NOW_MS)])
    renamed = {
        "sync.schemas.enabled": str(ids == "map").lower(),
        **({"schemas.ids": "map"} if ids == "map" else {}),
        "transforms": "names",
        "transforms.names.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.names.renames": "a:amount",
        "value.format": format_,
    }
    with client(target_registry) as there:
        there.add(f"{name}-own", "AVRO", json.dumps({"type": "fixed", "name": f"F_{alias}", "size": 7}))
        assert copy(flow(source_registry, target_registry, renamed)).state is RunState.DONE
        (copied,) = read(target_kafka, f"{alias}.{topic}", 0)
        assert copied.value is not None
        body = there.by_id(int.from_bytes(copied.value[1:5]))
        assert body is not None
        assert body.get("schemaType", "AVRO") == kind
        made = body["schema"] if kind == "PROTOBUF" else json.loads(body["schema"])
        assert read_by(made, copied.value[5:]) == {"amount": 7, "b": 2}
        assert there.places_of(int.from_bytes(copied.value[1:5])) == [(f"{alias}.{topic}-value", 1)]


def test_a_version_that_karapace_refuses_stops_its_partition_until_it_is_taken(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    source_karapace: Server,
    target_karapace: Server,
    registry: SchemaRegistry,
    flow: Flow,
    name: str,
    alias: str,
) -> None:
    topic = f"{name}-orders"
    source_kafka.create_topic(topic, 1)
    registry.set_level(f"{topic}-value", "NONE")
    schemas: list[dict[str, Any]] = [order(name, "a"), order(name, "a")]
    schemas[1]["fields"] = [{"name": "s", "type": "string"}]
    numbers = [registry.add(f"{topic}-value", "AVRO", json.dumps(one)) for one in schemas]
    values = [framed(numbers[0], avro(schemas[0], a=1)), framed(numbers[1], b"\x02x")]
    produce(source_kafka, topic, 0, [Seen(None, value, (), NOW_MS) for value in values])
    mapped = {"schemas.ids": "map", "schemas.compatibility": "none"}
    settings = flow(source_karapace, target_karapace, mapped)
    (refused,) = [
        str(result.error) for result in refresh_topics(settings, at_once=True).results if result.error is not None
    ]
    assert f"refuses to register a schema for subject {topic}-value (HTTP 409" in refused
    record = replicate(settings, RunOptions("refused"), here)
    (failed,) = record.failed_partitions
    # What comes before it in the same piece waits, too.
    assert failed.position == 0
    assert read(target_kafka, f"{alias}.{topic}", 0) == []
    assert f"partition {topic}-0: schema id {numbers[1]} of the values of {topic} has no id" in str(failed.error)
    assert f"subject {topic}-value (HTTP 409" in str(failed.error)
    assert copy(flow(source_karapace, target_karapace, {"schemas.ids": "map"})).state is RunState.DONE
    with client(target_karapace) as there:
        assert there.level(f"{topic}-value") == "NONE"
        for one, schema in zip(read(target_kafka, f"{alias}.{topic}", 0), schemas, strict=True):
            assert one.value is not None
            body = there.by_id(int.from_bytes(one.value[1:5]))
            assert body is not None
            assert json.loads(body["schema"])["fields"][0]["name"] == schema["fields"][0]["name"]


def test_karapace_is_a_source_for_ids_that_are_kept(
    source_registry: Server, registry: SchemaRegistry, flow: Flow, name: str
) -> None:
    with LocalRegistry() as target:
        registry.add(f"{name}-inner", "AVRO", json.dumps(order(f"{name}_i", "a")))
        outer = {"type": "record", "name": "O", "fields": [{"name": "i", "type": order(f"{name}_i")["name"]}]}
        references = (Reference(order(f"{name}_i")["name"], f"{name}-inner", 1),)
        registry.add(f"{name}-outer", "AVRO", json.dumps(outer), references)
        registry.add(f"{name}-p", "PROTOBUF", 'syntax = "proto3";\nmessage  P {  }\n')
        registry.add(f"{name}-gone", "AVRO", json.dumps(order(f"{name}_g", "a")))
        registry.delete_version(f"{name}-gone", 1)
        registry.set_level(f"{name}-inner", "FULL")
        settings = flow(source_registry, target)
        results = refresh_topics(settings, at_once=True).results
        assert [result.error for result in results if result.error is not None] == []
        view = registry.view()
        for subject in (f"{name}-inner", f"{name}-outer", f"{name}-p", f"{name}-gone"):
            one = view.schemas[subject, 1]
            assert target.versions(subject) == {1: (one.id, one.deleted)}
        assert view.schemas[f"{name}-gone", 1].deleted
        assert target.levels == {"": "BACKWARD", f"{name}-inner": "FULL"}
        assert planned(settings) == []


def test_karapace_as_a_target_for_ids_that_are_kept_is_refused_with_the_remedy(
    source_registry: Server, target_registry: Server, registry: SchemaRegistry, flow: Flow, name: str
) -> None:
    registry.add(f"{name}-value", "AVRO", json.dumps(order(name, "a")))
    results = refresh_topics(flow(source_registry, target_registry), at_once=True).results
    (fault,) = [str(result.error) for result in results if result.error is not None]
    assert "schemas.ids = map" in fault
    with client(target_registry) as there:
        assert not any(name in subject for subject in there.view().subjects)


def test_a_karapace_that_is_paused_is_a_fault_that_passes(
    karapace_python: Path, source_kafka: LocalKafka, source_karapace: Server, registry: SchemaRegistry, name: str
) -> None:
    registry.add(f"{name}-value", "AVRO", json.dumps(order(name, "a")))
    with LocalKarapace(karapace_python, source_kafka.bootstrap_servers, topic=f"_schemas-{name}") as paused:
        cluster = ClusterSettings.plaintext("b", "localhost:9092")
        urls = (paused.url, source_karapace.url)
        paused.pause()
        both = replace(cluster, schema_registry=RegistrySettings(urls))
        with closing(SchemaRegistry(both, timeout_seconds=1)) as asked:
            assert (f"{name}-value", 1) in asked.view().schemas
        paused.resume()
        with client(paused) as again:
            assert again.view().schemas == {}
