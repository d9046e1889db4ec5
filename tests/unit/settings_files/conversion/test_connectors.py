"""Connectors of MirrorMaker 2 in a Connect cluster, in each form that somebody has them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings
from srm_common.settings_files.conversion.connectors import connectors_in
from srm_common.settings_files.conversion.conversion import Tool, convert
from tests.unit.settings_files.conversion.conversions import loaded, made_of

_CLASSES = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_COMMON: dict[str, Any] = {
    "source.cluster.alias": "us-west",
    "target.cluster.alias": "us-east",
    "key.converter": _BYTES,
    "value.converter": _BYTES,
}
_ENDS = {
    "source.cluster.bootstrap.servers": "source-cluster-kafka-bootstrap.kafka:9092",
    "target.cluster.bootstrap.servers": "target-cluster-kafka-bootstrap.kafka:9092",
}
SOURCE = {**_COMMON, **_ENDS, "topics": "test", "refresh.topics.interval.seconds": 10}
CHECKPOINT = {
    **_COMMON,
    **_ENDS,
    "topics": "test",
    "groups": "testgroup",
    "refresh.groups.interval.seconds": 10,
    "emit.checkpoints.interval.seconds": 10,
}
#: Where the heartbeats go is its target: the source of the flow.
HEARTBEAT = {
    **_COMMON,
    "target.cluster.bootstrap.servers": "source-cluster-kafka-bootstrap.kafka:9092",
    "producer.override.bootstrap.servers": "source-cluster-kafka-bootstrap.kafka:9092",
}
KINDS = {"Source": SOURCE, "Checkpoint": CHECKPOINT, "Heartbeat": HEARTBEAT}


def resource(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaConnector",
        "metadata": {"name": f"my-{kind.lower()}-connector", "labels": {"strimzi.io/cluster": "my-connect-cluster"}},
        "spec": {"class": f"{_CLASSES}Mirror{kind}Connector", "tasksMax": 2, "config": KINDS[kind], **spec},
    }


def with_class(kind: str) -> dict[str, Any]:
    return {**KINDS[kind], "connector.class": f"{_CLASSES}Mirror{kind}Connector", "tasks.max": "2"}


def test_the_three_resources_of_a_flow(tmp_path: Path) -> None:
    made = made_of(tmp_path, yaml.safe_dump_all([resource(kind) for kind in KINDS]), "connectors.yaml")
    assert made.tool is Tool.CONNECT
    configuration = loaded(made, tmp_path)
    flow = configuration.flow("us-west->us-east")
    assert flow.source.bootstrap_servers == "source-cluster-kafka-bootstrap.kafka:9092"
    assert flow.target.bootstrap_servers == "target-cluster-kafka-bootstrap.kafka:9092"
    assert (flow.enabled, flow.topics, flow.groups, flow.tasks_max) == (True, ("test",), ("testgroup",), 2)
    assert (flow.refresh_topics_interval_seconds, flow.emit_checkpoints_interval_seconds) == (10, 10)
    assert (flow.emit_heartbeats, flow.heartbeats_topic_location) == (True, "source")
    assert findings(configuration) == ()
    assert [sentence.partition(" ")[0] for sentence in made.lost] == [
        "Positions:",
        "us-west->us-east.refresh.groups.interval.seconds",
    ]
    assert (
        "srm-control takeover --flow 'us-west->us-east' --connector my-source-connector --connect-group GROUP "
        "--offsets-topic TOPIC (GROUP is group.id of the Connect workers, TOPIC is offset.storage.topic of"
    ) in made.lost[0]


@pytest.mark.parametrize(
    "document",
    [
        {"name": "s", "config": with_class("Source")},
        {"name": "s", "config": with_class("Source"), "tasks": [{"connector": "s", "task": 0}], "type": "source"},
        {**with_class("Source"), "name": "s"},
        {
            "s": {
                "status": {"name": "s", "connector": {"state": "RUNNING"}},
                "info": {"name": "s", "config": with_class("Source")},
            }
        },
        [{"name": "s", "config": with_class("Source")}],
    ],
    ids=["request", "answer", "configuration", "expanded", "list"],
)
def test_what_the_rest_api_takes_and_answers(tmp_path: Path, document: object) -> None:
    made = made_of(tmp_path, json.dumps(document), "connectors.json")
    flow = loaded(made, tmp_path).flow("us-west->us-east")
    assert (made.tool, flow.enabled, flow.topics) == (Tool.CONNECT, True, ("test",))
    assert (flow.emit_checkpoints, flow.emit_heartbeats) == (False, False)  # no such connectors


def test_the_properties_of_a_standalone_worker(tmp_path: Path) -> None:
    text = "".join(f"{key} = {value}\n" for key, value in {"name": "local", **with_class("Source")}.items())
    made = made_of(tmp_path, text, "connect-mirror-source.properties")
    assert (made.tool, loaded(made, tmp_path).flow("us-west->us-east").topics) == (Tool.CONNECT, ("test",))


def test_settings_of_clusters_and_clients_keep_their_place(tmp_path: Path) -> None:
    config = {
        **with_class("Source"),
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": 'x.PlainLoginModule required username="me" password="hush";',
        "consumer.fetch.max.bytes": 1000,
        "producer.override.client.id": "copier",
        "source.admin.request.timeout.ms": 5000,
    }
    made = made_of(tmp_path, json.dumps({"name": "s", "config": config}), "c.json")
    assert "hush" not in made.text
    assert {line.partition(" = ")[0] for line in made.text.splitlines()} >= {
        "us-west.security.protocol",
        "us-west->us-east.consumer.fetch.max.bytes",
        "us-west->us-east.producer.override.client.id",
        "us-west->us-east.source.admin.request.timeout.ms",
    }


@pytest.mark.parametrize("spec", [{"pause": True}, {"state": "paused"}, {"state": "stopped"}])
def test_a_paused_connector_is_not_enabled(tmp_path: Path, spec: dict[str, Any]) -> None:
    made = made_of(tmp_path, yaml.safe_dump(resource("Source", **spec)), "c.yaml")
    assert not loaded(made, tmp_path).flow("us-west->us-east").enabled


def test_connectors_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    other = {"name": "c", "config": {**with_class("Checkpoint"), "topics": "other"}}
    made = made_of(tmp_path, json.dumps([{"name": "s", "config": with_class("Source")}, other]), "c.json")
    assert "connector c: us-west->us-east.topics = other: another connector says test" in made.lost


@pytest.mark.parametrize(("text", "reason"), [("{", "is not JSON"), ("a: [", "is not YAML"), ("[]", "contains no")])
def test_what_is_no_connector_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        convert(path, Tool.CONNECT)


_OURS = {"class": "MirrorSourceConnector"}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"kind": "KafkaConnector"}, "spec is missing"),
        ({"kind": "KafkaConnector", "spec": 5}, "spec must be a map, but is a number"),
        ({"kind": "KafkaConnector", "spec": {"config": ["a"]}}, "spec.config must be a map, but is a list"),
        ({"kind": "KafkaConnector", "metadata": "m", "spec": _OURS}, "metadata must be a map, but is text"),
        (
            [{"items": [{"kind": "KafkaConnector", "spec": {**_OURS, "tasksMax": "2"}}]}],
            "[0].items[0].spec.tasksMax must be a whole number of 64 bits, but is text",
        ),
        (
            {"kind": "KafkaConnector", "spec": {**_OURS, "config": {"topics": ["a"]}}},
            "spec.config.topics must be text, a number, true or false, but is a list",
        ),
        (
            {"name": 5, "config": {"connector.class": "MirrorSourceConnector"}},
            "name must be text, but is a number; put it in quotes",
        ),
        ({"c": {"info": {"config": "x"}, "status": 1}}, "c.info.config must be a map, but is text"),
        (
            {"c": {"info": {"config": {"connector.class": "MirrorSourceConnector"}}, "status": 1}},
            "c.status must be a map, but is a number",
        ),
    ],
)
def test_parts_of_another_type_are_named(tmp_path: Path, document: object, sentence: str) -> None:
    file = tmp_path / "connectors.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as raised:
        connectors_in(file)
    assert raised.value.reason == sentence


@pytest.mark.parametrize("tool", [Tool.CONNECT, Tool.STRIMZI])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("&a {items: [*a]}", "it is nested too deeply"),
        ("x: 2026-13-01", "cannot be read: month must be in 1..12"),
    ],
)
def test_what_the_parsers_themselves_stumble_over(tmp_path: Path, tool: Tool, text: str, sentence: str) -> None:
    file = tmp_path / "connectors.yaml"
    file.write_text(f"---\n{text}")
    with pytest.raises(ConfigError) as raised:
        convert(file, tool)
    assert raised.value.reason == sentence
