"""On brokers that create each topic they are asked about, only what is meant to be created comes into being."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from srm_common.cli.main import run
from srm_common.domain.names import CONTROL_TOPIC, META_TOPIC
from srm_common.kafka.link import ClusterLink
from srm_common.testing import LocalKafka
from tests.faults.live_groups import run_once
from tests.kafka.flows import flow_between, properties_of, write
from tests.kafka.groups import commit
from tests.kafka.records import delete_topic, eventually

pytestmark = pytest.mark.kafka

#: The exit codes are not the point: what a command looks for may be missing, which is when brokers are tempted.
READING = [
    "status",
    "plan",
    "topics --all",
    "topics --list",
    "groups",
    "reverse-checkpointed-topics --list",
    "offsets --group g",
    "offsets --all-groups",
    "heartbeats",
    "source-offsets list",
    "check-copies",
    "failover --dry-run --no-last-pass --wait 0",
    "failback --dry-run --no-last-pass --wait 0",
    "switch-direction --dry-run --no-last-pass --wait 0",
    "takeover --dry-run --watch 0",
    "handback --dry-run",
    "top --once --live",
]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """Brokers as Kafka ships them."""
    settings = {"auto.create.topics.enable": "true", "num.partitions": "3"}
    with LocalKafka(name="source", settings=settings) as source, LocalKafka(name="target", settings=settings) as target:
        yield source, target


def topics_of(kafka: LocalKafka) -> set[str]:
    """Without the broker's own."""
    return {topic for topic in kafka.admin().list_topics(timeout=60).topics if not topic.startswith("__")}


def test_commands_and_runs_create_what_is_theirs_and_no_more(
    clusters: tuple[LocalKafka, LocalKafka],
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = clusters
    flow = flow_between(source, target, name)
    file = str(configuration_file(properties_of(flow)))
    source.create_topic(name, 2)
    source.create_topic(f"{name}-gone", 2)
    write(source, name, [b"x"] * 10)
    write(source, f"{name}-gone", [b"x"] * 10)
    commit(source, "g", TopicPartition(name, 0, 5), TopicPartition(f"{name}-gone", 0, 5))

    def look_at_everything(*more: str) -> None:
        before = topics_of(source), topics_of(target)
        for command in [*READING, *more]:
            code = run([*command.split(), "--config", file])
            shown = capsys.readouterr()
            assert code in (0, 1, 2, 4), f"{command}: {shown.out}{shown.err}"
            assert (topics_of(source), topics_of(target)) == before, command

    # Before the flow has anything, and when topics that it copied are gone on both sides.
    look_at_everything()
    run_once(flow)
    alias = flow.name.source
    copies = {f"{alias}.{name}", f"{alias}.{name}-gone"}
    assert topics_of(source) == {name, f"{name}-gone", f"mm2-offset-syncs.{flow.name.target}.internal"}
    state = {f"mm2-{kind}.{alias}.internal" for kind in ("offsets", "configs", "status", "offset-segments")}
    state |= {
        META_TOPIC,
        CONTROL_TOPIC,
        "heartbeats",
        f"srm-flow-state.{alias}.internal",
        f"{alias}.checkpoints.internal",
    }
    assert copies <= topics_of(target) <= copies | state

    delete_topic(source, f"{name}-gone")
    delete_topic(target, f"{alias}.{name}-gone")
    write(source, name, [b"x"] * 10)
    before = topics_of(source), topics_of(target)
    run_once(flow)
    look_at_everything("repair --dry-run")
    assert (topics_of(source), topics_of(target)) == before


def test_connections_ask_without_creating(clusters: tuple[LocalKafka, LocalKafka], name: str) -> None:
    source, _ = clusters
    cluster = flow_between(source, source, name).source
    with ClusterLink(cluster) as link:
        _, faults = link.end_offsets([(name, 0)], timeout_seconds=2.0)
        assert faults
    assert AdminClient(dict(cluster.confluent)).list_topics(name, timeout=60).topics[name].error is not None
    # The broker creates what it is asked for by others, and had the time for it.
    other = f"{name}-other"
    AdminClient({"bootstrap.servers": source.bootstrap_servers}).list_topics(other, timeout=60)
    eventually(lambda: other in topics_of(source), 120, "the broker creates nothing")
    assert name not in topics_of(source)
