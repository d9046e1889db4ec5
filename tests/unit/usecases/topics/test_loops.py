"""Circles of flows between three clusters: the flows copy ``.*``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.cli.main import run
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import META_TOPIC
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topics.actions import failed
from srm_common.domain.topics.topic_records import TopicState
from srm_common.errors import ConfigError, UnreachableCluster
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import decide_topics, plan_topics
from tests.slot_worker import here

Clusters = Sequence[FakeCluster]
WriteFile = Callable[..., Path]


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with ExitStack() as stack:
        yield [stack.enter_context(FakeCluster(name=f"loops-{number}")) for number in range(3)]


def write(kafka: FakeCluster, topic: str, values: Sequence[bytes]) -> None:
    kafka.write(topic, [(None, value) for value in values])


def refresh(flow: FlowSettings | FlowClusters) -> int:
    """What the task does; the number of actions."""
    with clusters_of(flow) as clusters:
        results = apply_plan(clusters, plan_topics(clusters))
    assert [str(result) for result in failed(results)] == []
    return len(results)


def rounds(flows: Sequence[FlowSettings]) -> int:
    """Refresh and run all flows until there is nothing left to do; returns how often."""
    with ExitStack() as stack:
        # Each client takes a twentieth of a second to connect.
        opened = [stack.enter_context(FlowClusters(flow)) for flow in flows]
        for number in range(1, 8):
            busy = 0
            for clusters in opened:
                busy += refresh(clusters)
                busy += replicate(clusters, RunOptions(f"r{number}"), here).records
            if not busy:
                return number
    raise AssertionError("the flows go on copying for ever")


def flows_of(
    write_file: WriteFile, clusters: Clusters, aliases: str, pairs: Sequence[str], **settings: str
) -> list[FlowSettings]:
    """Flows of a file of these aliases, one for each cluster."""
    kinds = ("offset.storage", "status.storage", "config.storage", "checkpoints.topic", "heartbeats.topic")
    properties: Mapping[str, object] = {
        "clusters": ", ".join(aliases),
        **{
            f"{alias}.bootstrap.servers": kafka.bootstrap_servers
            for alias, kafka in zip(aliases, clusters, strict=True)
        },
        **{f"{pair}.enabled": "true" for pair in pairs},
        **{f"{kind}.replication.factor": "1" for kind in kinds},
        "offset-syncs.topic.replication.factor": "1",
        "replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "tasks.max": "1",
        "topics": ".*",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }
    configuration = load_configuration(write_file(properties))
    return [configuration.flow(FlowName.parse(pair)) for pair in pairs]


def mesh(aliases: str) -> list[str]:
    return [f"{source}->{target}" for source, target in permutations(aliases, 2)]


def counts(kafka: FakeCluster, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in kafka.records(topic))


def test_a_full_mesh_under_the_default_policy(clusters: Clusters, configuration_file: WriteFile) -> None:
    values = {alias: [f"{alias}{number}".encode() for number in range(20)] for alias in "abc"}
    for alias, kafka in zip("abc", clusters, strict=True):
        kafka.create_topic("mesh")
        write(kafka, "mesh", values[alias])
    assert rounds(flows_of(configuration_file, clusters, "abc", mesh("abc"))) <= 4
    for alias, kafka in zip("abc", clusters, strict=True):
        topics = {name for name in kafka.topics() if name.endswith("mesh")}
        x, y = sorted(set("abc") - {alias})
        assert topics == {"mesh", f"{x}.mesh", f"{y}.mesh", f"{x}.{y}.mesh", f"{y}.{x}.mesh"}
        for origin in (x, y):
            assert counts(kafka, f"{origin}.mesh") == Counter(values[origin])


def test_a_full_mesh_under_the_identity_policy(clusters: Clusters, configuration_file: WriteFile) -> None:
    settings = {"replication__policy__class": "IdentityReplicationPolicy", "topics__exclude": r".*mesh"}
    by_alias = dict(zip("xyz", clusters, strict=True))
    values = {alias: [f"{alias}{number}".encode() for number in range(20)] for alias in "xyz"}
    for alias, kafka in by_alias.items():
        kafka.create_topic(f"of-{alias}")
        kafka.create_topic("of-all")
        write(kafka, f"of-{alias}", values[alias])
        write(kafka, "of-all", values[alias])
    flows = flows_of(configuration_file, clusters, "xyz", mesh("xyz"), **settings)
    assert rounds(flows) <= 4
    for kafka in clusters:
        for origin in "xyz":
            assert counts(kafka, f"of-{origin}") == Counter(values[origin])
        # What is on every cluster goes one way only, so that nothing arrives twice.
        assert max(counts(kafka, "of-all").values()) == 1
    decisions = {topic.topic: topic for topic in decide_topics(flows[2])}
    assert flows[2].name == FlowName("y", "x")
    assert (decisions["of-x"].code, decisions["of-x"].reason) == (
        "cycle",
        "it would form a loop: x -> y -> x; it has records of of-x on x",
    )
    assert [topic.upstream for topic in replicated_topics(flows[2]) if topic.upstream.startswith("of-")] == ["of-y"]


def test_a_ring_with_one_cluster_down_keeps_the_other_flow_going(
    clusters: Clusters, configuration_file: WriteFile
) -> None:
    settings = {"replication__policy__class": "IdentityReplicationPolicy", "topics": "ring.*"}
    ring = flows_of(configuration_file, clusters, "efg", ["e->f", "f->g", "g->e"], **settings)
    clusters[0].create_topic("ring")
    write(clusters[0], "ring", [b"early"])
    rounds(ring)
    clusters[2].go_away()
    try:
        clusters[0].create_topic("ring-new")
        write(clusters[0], "ring-new", [b"new"])
        write(clusters[0], "ring", [b"late"])
        refresh(ring[0])
        assert replicate(ring[0], RunOptions("late"), here).records == 2
        for flow in ring[1:]:
            with pytest.raises(UnreachableCluster, match="cluster 'g'"):
                refresh(replace(flow, admin_timeout_ms=2000))
        assert counts(clusters[1], "ring-new") == Counter([b"new"])
        assert counts(clusters[1], "ring") == Counter([b"early", b"late"])
    finally:
        clusters[2].come_back()
    rounds(ring)
    for kafka in clusters:
        assert counts(kafka, "ring") == Counter([b"early", b"late"])
        assert counts(kafka, "ring-new") == Counter([b"new"])


def test_an_alias_that_leads_to_another_cluster_is_refused(
    clusters: Clusters, configuration_file: WriteFile, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"topics": "bound"}
    for kafka in clusters:
        kafka.create_topic("bound")
    (flow,) = flows_of(configuration_file, clusters, "klm", ["k->m"], **settings)
    refresh(flow)
    with TopicRegistry(flow.target) as registry:
        bound = {alias: one.cluster_id for alias, one in registry.read().bindings.items()}
    assert (bound["k"], bound["m"]) == (clusters[0].cluster_id, clusters[2].cluster_id)
    swapped = [clusters[1], clusters[0], clusters[2]]
    (flow,) = flows_of(configuration_file, swapped, "klm", ["k->m"], **settings)
    for doing in (plan_topics, decide_topics, replicated_topics):
        with pytest.raises(ConfigError) as caught:
            doing(flow)
        assert str(caught.value) == (
            f"'k' leads to the Kafka cluster {clusters[1].cluster_id}, but led to {clusters[0].cluster_id} when it "
            "was recorded on 'm'; correct its addresses or, if the alias should stand for the new cluster, run: "
            "srm-control rebind --alias k"
        )
    file = str(configuration_file({"clusters": "k"}))
    (flow,) = flows_of(configuration_file, swapped, "klm", ["k->m"], **settings)
    for options, said in ((["--dry-run"], "'k' would be bound to"), ([], "'k' is bound to"), ([], "Nothing to do")):
        assert run(["--config", file, "rebind", "--alias", "k", *options]) == 0
        assert said in capsys.readouterr().out
    assert plan_topics(flow).accepted
    assert run(["--config", file, "rebind", "--alias", "q"]) == 2
    assert "'q' is not one of the clusters (k, l, m)" in capsys.readouterr().err


def test_another_policy_is_refused_unless_forced(clusters: Clusters, configuration_file: WriteFile) -> None:
    for topic in ("switched-1", "switched-2"):
        clusters[0].create_topic(topic)
    write(clusters[0], "switched-1", [b"1"])
    settings = {"topics": "switched-.*"}
    (flow,) = flows_of(configuration_file, clusters, "uvw", ["u->v"], **settings)
    rounds([flow])
    settings["replication__policy__class"] = "IdentityReplicationPolicy"
    (flow,) = flows_of(configuration_file, clusters, "uvw", ["u->v"], **settings)
    with pytest.raises(ConfigError) as caught:
        plan_topics(flow)
    assert str(caught.value) == (
        "IdentityReplicationPolicy renames 2 topics that flow u->v copies already: switched-1, switched-2 "
        "(switched-1: DefaultReplicationPolicy made its copy u.switched-1, IdentityReplicationPolicy would make "
        "switched-1; set the policy back, or replication.policy.switch = force); their present copies would stay as "
        "they are"
    )
    settings["replication__policy__switch"] = "force"
    (flow,) = flows_of(configuration_file, clusters, "uvw", ["u->v"], **settings)
    refresh(flow)
    assert {replicated_topic.downstream for replicated_topic in replicated_topics(flow)} == {"switched-1", "switched-2"}
    with TopicRegistry(flow.target) as registry:
        record = registry.read().find("u->v", "switched-1")
    assert record is not None
    assert record.former_downstream_topics == ("u.switched-1",)
    assert counts(clusters[1], "u.switched-1") == Counter([b"1"])
    assert refresh(flow) == 0


def meta_deleted(kafka: FakeCluster) -> None:
    kafka.delete_topic(META_TOPIC)


def meta_expired(kafka: FakeCluster) -> None:
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, META_TOPIC, incremental_configs=[entry])
    for answer in kafka.admin().incremental_alter_configs([resource]).values():
        answer.result()
    log = kafka.log(META_TOPIC)
    log.delete_before(log.end)


def record_dropped(kafka: FakeCluster) -> None:
    kafka.write(META_TOPIC, [(b'["topic","e->w","orders"]', None)])


@pytest.mark.parametrize("lose", [meta_deleted, meta_expired, record_dropped])
@pytest.mark.parametrize("first", [0, 1])
def test_records_that_are_lost_turn_no_flow_round(
    clusters: Clusters, configuration_file: WriteFile, lose: Callable[[FakeCluster], None], first: int
) -> None:
    settings = {"replication__policy__class": "IdentityReplicationPolicy"}
    east, west = clusters[:2]
    flows = flows_of(configuration_file, clusters[:2], "ew", ["e->w", "w->e"], **settings)
    east.create_topic("orders")
    write(east, "orders", [b"1", b"2"])
    rounds(flows)
    with TopicRegistry(flows[0].target) as registry:
        before = registry.read().find("e->w", "orders")
    lose(west)
    flows = [flows[first], flows[1 - first]]
    write(east, "orders", [b"3"])
    rounds(flows)
    for kafka in (east, west):
        assert counts(kafka, "orders") == Counter([b"1", b"2", b"3"])
    with TopicRegistry(flows[first].target) as registry:
        assert registry.read().find("e->w", "orders") == before
    assert [topic.upstream for topic in replicated_topics(flows[first])] == ["orders"]


def test_a_third_cluster_that_lost_its_records_is_asked_for_those_that_flows_keep(
    clusters: Clusters, configuration_file: WriteFile
) -> None:
    """``z->y`` would bring to ``y`` what ``x->y`` brings there."""
    settings = {"replication__policy__class": "IdentityReplicationPolicy", "topics": "shared"}
    clusters[0].create_topic("shared")
    write(clusters[0], "shared", [b"1", b"2"])
    flows = flows_of(configuration_file, clusters, "xyz", mesh("xyz"), **settings)
    rounds(flows)
    for kafka in clusters:
        meta_deleted(kafka)
    rounds(list(reversed(flows)))
    for kafka in clusters:
        assert counts(kafka, "shared") == Counter([b"1", b"2"])


def test_a_lost_record_of_a_topic_that_the_filters_dropped_is_restored_when_another_one_is_missing(
    clusters: Clusters, configuration_file: WriteFile
) -> None:
    for topic in ("kept-1", "kept-2"):
        clusters[0].create_topic(topic)
    settings = {"topics": "kept-.*"}
    rounds(flows_of(configuration_file, clusters, "xyz", ["x->y"], **settings))
    flows = flows_of(configuration_file, clusters, "xyz", ["x->y"], topics__exclude="kept-1", **settings)
    refresh(flows[0])
    with TopicRegistry(flows[0].target) as registry:
        before = registry.read().of_flow("x->y")
    meta_deleted(clusters[1])
    refresh(flows[0])
    with TopicRegistry(flows[0].target) as registry:
        assert registry.read().of_flow("x->y") == before
    assert before["kept-1"].state is TopicState.DELISTED
