"""Connect's transforms of one file, carried out by the real MirrorMaker 2 and here, on the same topics."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import LocalKafka, LocalMirrorMaker, LocalRegistry
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import Seen, read
from tests.kafka.records import eventually, mixed_records, produce
from tests.slot_worker import here
from tests.unit.records.connect import protoc

pytestmark = pytest.mark.kafka

KAFKA = "org.apache.kafka.connect.transforms"
INSERTED = {"number": "007", "time": "12:30", "nothing": "null", "map": '{"a": 1.50, 2: [true]}'}
TRANSFORMS = {
    "transforms": "traced, gone, clean, number, time, nothing, map",
    "transforms.traced.type": f"{KAFKA}.Filter",
    "transforms.traced.predicate": "traced",
    "transforms.gone.type": f"{KAFKA}.Filter",
    "transforms.gone.predicate": "gone",
    "transforms.clean.type": f"{KAFKA}.DropHeaders",
    # Java reads the file as Latin-1.
    "transforms.clean.headers": r"h, \u00fcn\u00ef",
    "transforms.clean.predicate": "kept",
    "transforms.clean.negate": "true",
    # Literals that Connect does not write as they stand here.
    **{
        f"transforms.{alias}.{key}": value
        for alias, literal in INSERTED.items()
        for key, value in (("type", f"{KAFKA}.InsertHeader"), ("header", "of"), ("value.literal", literal))
    },
    "transforms.map.predicate": "kept",
    "predicates": "traced, gone, kept",
    "predicates.traced.type": f"{KAFKA}.predicates.HasHeaderKey",
    "predicates.traced.name": "trace",
    "predicates.gone.type": f"{KAFKA}.predicates.RecordIsTombstone",
    "predicates.kept.type": f"{KAFKA}.predicates.TopicNameMatches",
    # The copy's name: what the source's topic is called matches nothing.
    "predicates.kept.pattern": r"(mm|own)[0-9a-z]*\\..*-kept",
}
STORES = ("offset.storage", "config.storage", "status.storage", "offset-syncs.topic", "checkpoints.topic")


def test_the_same_file_gives_the_same_records(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, tmp_path: Path
) -> None:
    topics = [f"{name}-kept", f"{name}-other"]
    for number, topic in enumerate(topics):
        source_kafka.create_topic(topic, 2)
        for partition in range(2):
            records = mixed_records(400, seed=2 * number + partition)
            produce(source_kafka, topic, partition, records, compression_type="lz4", batch_num_messages=37)
    alias = name.replace("-", "")
    theirs, ours = f"mm{alias}", f"own{alias}"
    properties = {
        "clusters": f"{theirs}, {ours}, t",
        f"{theirs}.bootstrap.servers": source_kafka.bootstrap_servers,
        f"{ours}.bootstrap.servers": source_kafka.bootstrap_servers,
        "t.bootstrap.servers": target_kafka.bootstrap_servers,
        "topics": f"{name}-.*",
        "emit.heartbeats.enabled": "false",
        # Other tests' ones, which MirrorMaker 2 would change, too.
        "heartbeats.replication.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "replication.factor": "1",
        **{f"{store}.replication.factor": "1" for store in (*STORES, "heartbeats.topic")},
        # Without it, InsertHeader fails there; with it, the headers that records have become Base64 there alone.
        "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        # MirrorMaker 2 takes them at the level of flows and below only.
        **{f"{one}->t.{key}": value for one in (theirs, ours) for key, value in TRANSFORMS.items()},
    }
    file = tmp_path / "mm2.properties"
    file.write_text(
        "".join(f"{key} = {value}\n" for key, value in (properties | {f"{ours}->t.enabled": "true"}).items())
    )
    flow = load_configuration(file).flow(f"{ours}->t")
    refresh_topics(flow, at_once=True)
    record = replicate(flow, RunOptions("first"), here)
    assert record.state is RunState.DONE
    copied = {(topic, n): read(target_kafka, f"{ours}.{topic}", n) for topic in topics for n in range(2)}
    assert record.records == sum(len(records) for records in copied.values())
    assert all(0 < len(records) < 400 for records in copied.values())

    places = [TopicPartition(f"{theirs}.{topic}", n) for topic in topics for n in range(2)]

    def arrived() -> bool:
        if not {place.topic for place in places} <= target_kafka.admin().list_topics(timeout=60).topics.keys():
            return False
        try:
            return sum(reader.get_watermark_offsets(place, timeout=60)[1] for place in places) >= record.records
        except KafkaException:  # its brokers name leaders before these have made the logs
            return False

    reader = Consumer({"bootstrap.servers": target_kafka.bootstrap_servers, "group.id": "ends"})
    with LocalMirrorMaker(properties | {f"{theirs}->t.enabled": "true"}):
        eventually(arrived, 300, "MirrorMaker 2 has not copied as many records")
    reader.close()
    inserted = [("of", b"7"), ("of", b"12"), ("of", None), ("of", b'{"a":1.5,2:[true]}')]
    for (topic, partition), records in copied.items():
        made = inserted if topic == topics[0] else inserted[:-1]
        assert all(seen.headers[-len(made) :] == tuple(made) for seen in records)
        before = [replace(seen, headers=seen.headers[: -len(made)]) for seen in records]
        in_base64 = [
            replace(seen, headers=(*((name, value and base64.b64encode(value)) for name, value in seen.headers), *made))
            for seen in before
        ]
        assert in_base64 == read(target_kafka, f"{theirs}.{topic}", partition), topic
    assert any(len(seen.headers) > len(inserted) for seen in copied[topics[0], 0])
    assert {header for seen in copied[topics[1], 0] for header, _ in seen.headers} == {"", "of"}


def test_fields_of_json_as_mirror_maker_is_configured(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, tmp_path: Path
) -> None:
    topic, alias = f"{name}-orders", name.replace("-", "")
    source_kafka.create_topic(topic, 2)
    now = int(time.time() * 1000)
    orders = [b'{"card": "4111", "cust_id": %d, "at": 1.50}' % number for number in range(300)]
    for partition, bad in ((0, None), (1, 170)):
        values = [b'{"card": "4111"' if number == bad else order for number, order in enumerate(orders)]
        records = [Seen(b"key %d" % number, value, (("h", b"\xff"),), now) for number, value in enumerate(values)]
        produce(source_kafka, topic, partition, [*records, Seen(b"gone", None, (), now)], batch_num_messages=40)
    lines = {
        "clusters": f"{alias}, t",
        f"{alias}.bootstrap.servers": source_kafka.bootstrap_servers,
        "t.bootstrap.servers": target_kafka.bootstrap_servers,
        f"{alias}->t.enabled": "true",
        f"{alias}->t.topics": topic,
        "replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        f"{alias}->t.transforms": "card, names",
        f"{alias}->t.transforms.card.type": f"{KAFKA}.MaskField$Value",
        f"{alias}->t.transforms.card.fields": "card",
        f"{alias}->t.transforms.card.replacement": "****",
        f"{alias}->t.transforms.card.predicate": "tombstone",
        f"{alias}->t.transforms.card.negate": "true",
        f"{alias}->t.transforms.names.type": f"{KAFKA}.ReplaceField$Value",
        f"{alias}->t.transforms.names.renames": "cust_id:customer",
        f"{alias}->t.predicates": "tombstone",
        f"{alias}->t.predicates.tombstone.type": f"{KAFKA}.predicates.RecordIsTombstone",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        f"{alias}->t.value.converter.schemas.enable": "false",
    }
    file = tmp_path / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    configuration = load_configuration(file)
    flow = configuration.flow(f"{alias}->t")
    refresh_topics(flow, at_once=True)
    record = replicate(flow, RunOptions("first"), here)
    masked = [b'{"card":"****","at":1.5,"customer":%d}' % number for number in range(300)]
    whole, hurt = (read(target_kafka, f"{alias}.{topic}", partition) for partition in range(2))
    assert [seen.value for seen in whole] == [*masked, None]
    assert {seen.headers for seen in whole[:-1]} == {(("h", b"\xff"),)}
    assert [seen.key for seen in whole] == [*(b"key %d" % number for number in range(300)), b"gone"]
    assert [seen.value for seen in hurt] == [seen.value for seen in whole[:170]]
    (failed,) = record.failed_partitions
    assert (failed.upstream_topic, failed.partition, failed.position, failed.error_kind) == (
        topic,
        1,
        170,
        "TransformFailed",
    )
    assert str(failed.error).endswith(
        "offset 170, transforms.card: the value is not JSON: Expecting ',' delimiter at character 15"
    )


AVRO_ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "card", "type": "string"},
        {"name": "cust_id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
}
JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "title": "Order",
    "properties": {
        "card": {"type": "string", "connect.index": 0},
        "cust_id": {"type": "integer", "connect.index": 1},
        "at": {
            "oneOf": [
                {"type": "null"},
                {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp", "connect.type": "int64"},
            ],
            "connect.index": 2,
        },
    },
}


PROTOBUF_ORDER = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other { string card = 1; }
message Order { string card = 1; int64 cust_id = 2; google.protobuf.Timestamp at = 3; }
"""


def avro_bytes(value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO_ORDER, value)
    return out.getvalue()


def avro_value(schema: str, data: bytes) -> Any:
    # Without logical types, a number comes as it is written.
    plain = json.loads(schema.replace('"logicalType"', '"was"'))
    return fastavro.schemaless_reader(io.BytesIO(data), plain, None)


def json_bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def json_value(schema: str, data: bytes) -> Any:
    value = json.loads(data)
    assert list(json.loads(schema)["properties"]) == list(value)
    return value


#: What is said of a value that ends in the middle of its first field.
CUT = {
    "AVRO": "does not match its schema",
    "JSON": "is not JSON: Unterminated string starting at at character 9",
    "PROTOBUF": "does not match its schema: it ends in the middle of a field",
}


message_class = lru_cache(protoc.message_class)


def protobuf_bytes(value: dict[str, Any]) -> bytes:
    order = message_class(PROTOBUF_ORDER, "shop.Order")(card=value["card"], cust_id=value["cust_id"])
    if value["at"] is not None:
        order.at.FromMilliseconds(value["at"])
    data: bytes = order.SerializeToString()
    return b"\x02\x02" + data  # the second message of the file


def protobuf_value(schema: str, data: bytes) -> Any:
    order = message_class(schema, "Order").FromString(data.removeprefix(b"\x00"))
    at = order.at.ToMilliseconds() if order.HasField("at") else None
    return {"card": order.card, "customer": order.customer, "at": at}


@pytest.mark.parametrize(
    ("kind", "converter", "order", "written", "read_by"),
    [
        ("AVRO", "io.confluent.connect.avro.AvroConverter", json.dumps(AVRO_ORDER), avro_bytes, avro_value),
        ("JSON", "io.confluent.connect.json.JsonSchemaConverter", json.dumps(JSON_ORDER), json_bytes, json_value),
        (
            "PROTOBUF",
            "io.confluent.connect.protobuf.ProtobufConverter",
            PROTOBUF_ORDER,
            protobuf_bytes,
            protobuf_value,
        ),
    ],
)
def test_fields_by_schemas_of_registries_as_mirror_maker_is_configured(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    tmp_path: Path,
    kind: str,
    converter: str,
    order: str,
    written: Callable[[dict[str, Any]], bytes],
    read_by: Callable[[str, bytes], Any],
) -> None:
    """fastavro, json and Google's runtime read the copies by what the registries have."""
    topic, alias = f"{name}-orders", name.replace("-", "")
    source_kafka.create_topic(topic, 3)
    with LocalRegistry() as ours, LocalRegistry(login="srm:geheim") as theirs:
        number = ours.register(f"{topic}-value", order, kind=kind)
        # Nothing of the copy has the source's id by chance.
        for other in range(40):
            theirs.register(f"other-{other}", json.dumps({"type": "fixed", "name": "F", "size": other + 1}))
        for partition in range(3):
            rows = [{"card": "4111", "cust_id": n, "at": None if n % 3 else n} for n in range(100)]
            values = [b"\0" + number.to_bytes(4) + written(row) for row in rows]
            if partition == 1:
                values[70] = b"\0" + (999).to_bytes(4) + values[70][5:]
            if partition == 2:
                # In the middle of the card's number.
                values[40] = values[40][: values[40].index(b"4111") + 2]
            records = [Seen(b"key", value, (), int(time.time() * 1000)) for value in values]
            produce(source_kafka, topic, partition, [*records, Seen(b"gone", None, (), records[0].timestamp_ms)])
        lines = {
            "clusters": f"{alias}, t",
            f"{alias}.bootstrap.servers": source_kafka.bootstrap_servers,
            f"{alias}.schema.registry.url": ours.url,
            "t.bootstrap.servers": target_kafka.bootstrap_servers,
            "t.schema.registry.url": theirs.url,
            "t.basic.auth.user.info": "srm:geheim",
            f"{alias}->t.enabled": "true",
            f"{alias}->t.topics": topic,
            "replication.factor": "1",
            "emit.heartbeats.enabled": "false",
            f"{alias}->t.transforms": "card, names",
            f"{alias}->t.transforms.card.type": f"{KAFKA}.MaskField$Value",
            f"{alias}->t.transforms.card.fields": "card",
            f"{alias}->t.transforms.card.replacement": "****",
            f"{alias}->t.transforms.card.predicate": "tombstone",
            f"{alias}->t.transforms.card.negate": "true",
            f"{alias}->t.transforms.names.type": f"{KAFKA}.ReplaceField$Value",
            f"{alias}->t.transforms.names.renames": "cust_id:customer",
            f"{alias}->t.predicates": "tombstone",
            f"{alias}->t.predicates.tombstone.type": f"{KAFKA}.predicates.RecordIsTombstone",
            "value.converter": converter,
            "value.converter.schema.registry.url": "http://of-connect:8081",
        }
        file = tmp_path / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        flow = load_configuration(file).flow(f"{alias}->t")
        assert "geheim" not in repr(flow)
        refresh_topics(flow, at_once=True)
        record = replicate(flow, RunOptions("registry"), here)

        subject = f"{alias}.{topic}-value"
        assert [id_ for id_, _ in theirs.versions(subject).values()] == [41]
        assert theirs.changes()[-1:] == [("POST", f"/subjects/{subject}/versions")]
        body = theirs.answer("GET", "/schemas/ids/41")
        assert body.get("schemaType", "AVRO") == kind
        made = body["schema"]
        copied = {n: read(target_kafka, f"{alias}.{topic}", n) for n in range(3)}
        assert [len(one) for one in copied.values()] == [101, 70, 40]
        assert copied[0][-1].value is None
        for one in copied.values():
            for n, seen in enumerate(one[:100]):
                assert seen.value is not None
                assert seen.value[:5] == b"\0" + (41).to_bytes(4)
                assert read_by(made, seen.value[5:]) == {
                    "card": "****",
                    "customer": n,
                    "at": None if n % 3 else n,
                }
        unknown, cut = record.failed_partitions
        assert (unknown.partition, cut.partition) == (1, 2)
        assert str(unknown.error).endswith(
            "offset 70, transforms.card: the value has the schema id 999, which the registry of the source does not "
            "know"
        )
        assert str(cut.error).endswith(f"offset 40, transforms.card: the value {CUT[kind]}")
