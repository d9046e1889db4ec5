"""Our library against Kafka's own RemoteClusterUtils and MirrorClient."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from srm_common.client import Partition, ReplicationClient, SourceTopic
from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import (
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import UnreachableCluster
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.kafka.markers import wait_for_markers
from tests.kafka.remote_cluster_judge import judged
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


def run(flow: FlowSettings) -> None:
    """What a run does, in its order."""
    refresh_topics(flow, at_once=True)
    record = replicate(flow, RunOptions("r"), here)
    assert record.state is RunState.DONE
    wait_for_markers(flow, record)


@pytest.fixture
def own_target(broker_jvm: BrokerJvm) -> Iterator[LocalKafka]:
    """Nobody else's: some questions are about all topics of a cluster."""
    with LocalKafka(name="library", jvm=broker_jvm) as kafka:
        yield kafka


def test_offsets_and_topics_as_kafkas_library_has_them(
    source_kafka: LocalKafka, own_target: LocalKafka, name: str
) -> None:
    flow = flow_between(source_kafka, own_target, name, groups=(f"{name}.*",))
    alias, remote = flow.name.source, f"{flow.name.source}.{name}"
    source_kafka.create_topic(name, partitions=2)
    write(source_kafka, name, [b"%d" % number for number in range(40)])
    write(source_kafka, name, [b"%d" % number for number in range(20)], partition=1)
    run(flow)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 30, "noted"), TopicPartition(name, 1, 20))
    commit(source_kafka, f"{name}-h", TopicPartition(name, 0, 7))
    sync_checkpoints(flow)

    properties = {"bootstrap.servers": own_target.bootstrap_servers}
    questions = ["remote:", f"remote:{alias}", "checkpoints:", "upstream:", f"group:{alias}/{name}-g",
                 f"group:{alias}/none", f"groups:{alias}/{name}-.*", f"groups:{alias}/{name}"]  # fmt: skip
    ours = judged(properties, *questions)
    assert ours[f"remote:{alias}"] == [[remote]]
    assert sorted(ours[f"group:{alias}/{name}-g"]) == [
        [f"{name}-g", remote, "0", "30", "noted"],
        [f"{name}-g", remote, "1", "20", ""],
    ]
    with ReplicationClient(properties) as client:
        assert client.source_topics(remote) == (SourceTopic(alias, name),)
        assert client.source_topics(name) == ()
        several = client.translated_offsets_of_groups(alias, [f"{name}-g", f"{name}-h", "none"])
        assert list(several) == [f"{name}-g", f"{name}-h"]
        assert several[f"{name}-h"][Partition(remote, 0)].upstream_offset == 7
        assert client.translated_offsets_of_groups("nowhere") == {}
        assert client.translated_offsets_of_groups(alias).keys() == several.keys()


@pytest.mark.parametrize("kind", [IdentityReplicationPolicy, MigratingReplicationPolicy])
def test_copies_that_keep_their_names(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, kind: type[IdentityReplicationPolicy]
) -> None:
    alias = name.replace("-", "")
    policy: ReplicationPolicy = kind(source_alias=alias)
    flow = flow_between(source_kafka, target_kafka, name, groups=(f"{name}.*",), policy=policy, topics=(name,))
    source_kafka.create_topic(name, partitions=1)
    target_kafka.create_topic(f"{name}-local", partitions=1)
    write(source_kafka, name, [b"x"] * 10)
    run(flow)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 4))
    sync_checkpoints(flow)
    properties = {
        "bootstrap.servers": target_kafka.bootstrap_servers,
        "replication.policy.class": kind.__name__,
        "source.cluster.alias": alias,
    }
    with ReplicationClient(properties) as client:
        assert client.remote_topics(alias) == {name}
        assert client.source_topics(name) == (SourceTopic(alias, name),)
        assert f"{name}-local" not in client.remote_topics()
        assert client.translated_offsets(alias, f"{name}-g")[Partition(name, 0)].offset == 4


def test_a_cluster_that_is_away_is_an_error_and_not_an_empty_answer() -> None:
    with ReplicationClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_seconds=2) as client:
        with pytest.raises(UnreachableCluster, match="'local'"):
            client.replication_hops("a")
        with pytest.raises(UnreachableCluster, match="'local'"):
            client.translated_offsets("a", "g")
