"""What Prometheus is told under MirrorMaker 2's names is what a real one has in JMX, in both formats of KIP-1280."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from srm_common.rest.prometheus.families import ServiceFigures, render
from srm_common.testing import LocalKafka, LocalMirrorMaker
from tests.kafka.flows import write
from tests.kafka.group_commits import commit
from tests.kafka.judge import mm2_metrics
from tests.kafka.records import eventually
from tests.unit.rest.figures import figures

pytestmark = pytest.mark.kafka

Named = tuple[str, frozenset[str]]
FORMATS = ("legacy", "new")
#: One of each connector in each format.
WANTED = {
    "kafka_connect_mirror_mirrorsourceconnector_record_count",
    "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms",
    "kafka_connect_plugins_record_count",
    "kafka_connect_plugins_checkpoint_latency_ms",
}
SECONDS = 300.0


def exported(pid: int) -> dict[Named, dict[str, str]]:
    """Names and labels of MirrorMaker 2's own metrics as the JMX exporter's default rule makes them, with one example
    of the labels' values each: domain, first property and attribute are the name, the other properties the labels."""
    found = {}
    for domain, attribute, properties in mm2_metrics(pid):
        kind = properties.pop("type")
        ours = re.fullmatch("(record|byte|replication|checkpoint)-.*", attribute)
        if ours and kind in ("plugins", "MirrorSourceConnector", "MirrorCheckpointConnector"):
            name = re.sub(r"\W", "_", f"{domain}_{kind}_{attribute}").lower()
            found[name, frozenset(properties)] = properties
    return found


def told() -> dict[Named, dict[str, str]]:
    """The same of what ``/metrics`` says of a flow with everything."""
    text = render(ServiceFigures("1", True), [replace(figures(), names_formats=FORMATS)])
    samples = re.findall(r"^(kafka_connect_\w+)\{(.*)\} ", text, re.M)
    labelled = [(name, dict(re.findall(r'(\w+)="([^"]*)"', inside))) for name, inside in samples]
    return {(name, frozenset(labels)): labels for name, labels in labelled}


def test_names_and_labels_are_those_of_a_real_one(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name)
    write(source_kafka, name, [b"x"] * 100)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 100))
    source, target = f"s-{name}", f"t-{name}"
    topics = ("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")
    stores = ("config.storage", "offset.storage", "status.storage")
    properties = {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": source_kafka.bootstrap_servers,
        f"{target}.bootstrap.servers": target_kafka.bootstrap_servers,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": name,
        f"{source}->{target}.groups": f"{name}-g",
        f"{target}->{source}.enabled": "false",
        f"{target}->{source}.emit.heartbeats.enabled": "false",
        "metric.names.formats": ",".join(FORMATS),
        "emit.checkpoints.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "tasks.max": "1",
        "replication.factor": "1",
        **{f"{topic}.replication.factor": "1" for topic in (*topics, *stores)},
        "dedicated.mode.enable.internal.rest": "false",
    }
    theirs: dict[Named, dict[str, str]] = {}
    with LocalMirrorMaker(properties) as mirror_maker:
        mirror_maker.wait_for_log("Kafka MirrorMaker started")

        def all_there() -> bool:
            # They come with a partition, and with the first checkpoint.
            theirs.update(exported(mirror_maker.pid))
            return {name for name, _ in theirs} >= WANTED

        eventually(all_there, SECONDS, "MirrorMaker 2 does not have the metrics of both its connectors")
    own = told()
    # A group has one figure here, there one for each of its partitions.
    expected = {(name, labels - {"topic", "partition"} if "group" in labels else labels) for name, labels in theirs}
    lag = {(name, labels) for name, labels in own if name.endswith("_replication_records_lag")}
    assert len(lag) == len(FORMATS)
    assert set(own) - lag == expected
    for (name, labels), example in own.items():
        if "connector" in labels and (name, labels) not in lag:
            (same,) = [one for (their, _), one in theirs.items() if their == name]
            assert (same["connector"], same["task"]) == (example["connector"], example["task"])
