"""ACL sync and missing rights on brokers that check rights: one pair for the file, a principal for each role."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from srm_common.domain.access.acl_bindings import AclBinding
from srm_common.domain.access.acl_changes import CreateAcls, DeleteAcls, UnknownAcls
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.groups.group_offsets import GroupOffset
from srm_common.domain.plans.plan import Plan
from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topics.actions import ActionResult, Job, failed
from srm_common.domain.topics.refresh_memory import EVERYTHING
from srm_common.errors import AccessDenied
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.groups.apply_offsets import apply_offsets
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.acls import read_acl_record, write_acl_record
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.flow_settings import small_flow
from tests.kafka.access.guarded import LOGINS, Sides, can_read, can_write, login
from tests.kafka.acl_commands import documented, grant, revoke
from tests.kafka.group_commits import commit
from tests.kafka.records import eventually, grow
from tests.slot_worker import here
from tests.unit.domain.access.test_acl_bindings import binding

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def sides(broker_jvm: BrokerJvm) -> Iterator[Sides]:
    kafkas = [LocalKafka(name=name, logins=LOGINS, jvm=broker_jvm) for name in ("guarded-source", "guarded-target")]
    with contextlib.ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            list(pool.map(LocalKafka.start, kafkas))
        for kafka in kafkas:
            stack.callback(kafka.close)
        for kafka, variable in zip(kafkas, "AB", strict=True):
            # Tests give the right to set offsets of groups, to one group at a time.
            wanted = [one for one in documented("acls.md", variable) if variable == "A" or "--group" not in one]
            grant(kafka, *wanted)
        yield Sides(*kafkas)


MakeFlow = Callable[..., FlowSettings]


@pytest.fixture
def make_flow(sides: Sides, name: str) -> MakeFlow:
    """A flow ``a->b`` of the documented principal, for the topics of this test alone."""

    def make(**settings: Any) -> FlowSettings:
        ends = login("a", sides.source, "srm"), login("b", sides.target, "srm")
        return small_flow(*ends, f"{name}.*", **{"groups": (f"{name}.*",), **settings})

    return make


def refresh(flow: FlowSettings) -> Plan:
    plan = plan_topics(flow)
    assert [str(result) for result in failed(apply_plan(flow, plan))] == []
    return plan


def acl_actions(plan: Plan) -> list[CreateAcls | DeleteAcls | UnknownAcls]:
    return [action for action in plan.actions if isinstance(action, CreateAcls | DeleteAcls | UnknownAcls)]


def recorded(flow: FlowSettings) -> frozenset[AclBinding]:
    with FlowClusters(flow) as clusters:
        return read_acl_record(clusters)


def settled(flow: FlowSettings) -> None:
    """Until the broker shows what was done: a plan has nothing left to do about ACLs."""
    eventually(lambda: acl_actions(plan_topics(flow)) == [], 300, "there is always something left to do")


def test_a_flow_with_the_documented_rights_and_no_others(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    sides.source.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": sides.source.internal_servers, "log_level": 0})
    for number in range(100):
        producer.produce(name, b"%d" % number, partition=number % 2)
    producer.flush(60)
    commit(sides.source, name, TopicPartition(name, 0, 20))
    sides.change(sides.source, "+", f"ALLOW ALL bob {name}")
    flow = make_flow(tasks_max=1)
    refresh(flow)
    grow(sides.source, name, 4)
    refresh(flow)
    record = replicate(flow, RunOptions("r"), here)
    assert (record.state, record.records) == (RunState.DONE, 100)
    assert [note for note in record.notes if not note.startswith("created state topic")] == []
    report = sync_checkpoints(flow)
    assert report.faults == ()
    emit_heartbeat(flow)
    settled(flow)


def test_missing_rights_for_groups_and_offset_syncs_are_named_and_checkpoints_go_on(
    sides: Sides, make_flow: MakeFlow, name: str
) -> None:
    sides.source.create_topic(name)
    producer = Producer({"bootstrap.servers": sides.source.internal_servers, "log_level": 0})
    for number in range(10):
        producer.produce(name, b"%d" % number)
    producer.flush(60)
    commit(sides.source, name, TopicPartition(name, 0, 4))
    flow = make_flow(tasks_max=1, sync_group_offsets=True, emit_checkpoints_interval_seconds=0.0)
    refresh(flow)
    assert replicate(flow, RunOptions("r"), here).records == 10
    denied = "DENY WRITE srm mm2-offset-syncs.b.internal"
    sides.change(sides.source, "+", denied)
    try:
        report = sync_checkpoints(flow)
    finally:
        sides.change(sides.source, "-", denied)
    assert (report.offset_syncs, report.checkpoints, report.group_positions, len(report.faults)) == (0, 1, 0, 2)
    assert report.faults[0].startswith("no offset syncs are written: cluster 'a' ")
    assert f"refused to commit offsets of group {name}: " in report.faults[1]
    assert f"User:srm needs the permission Read on group '{name}'" in report.faults[1]
    # Made up for by the next round.
    eventually(lambda: sync_checkpoints(flow).offset_syncs == 2, 300, "the right is not seen")
    allowed = (
        f"kafka-acls.sh --bootstrap-server $B --add --allow-principal User:srm --operation Read --operation Describe "
        f"--group {name}"
    )
    grant(sides.target, allowed)
    eventually(lambda: sync_checkpoints(flow).faults == (), 300, "the right is not seen")
    offsets, _ = GroupReader(ClusterSettings.plaintext("b", sides.target.internal_servers)).offsets([name])
    assert [at.offset for at in offsets[0].offsets.values()] == [4]
    revoke(sides.target, allowed)


def test_heartbeats_and_applied_offsets_name_the_right_that_they_lack(
    sides: Sides, make_flow: MakeFlow, name: str
) -> None:
    flow = make_flow(source=login("a", sides.source, "limited"))
    with pytest.raises(
        AccessDenied,
        match=r"limited needs the permission .* on topic 'heartbeats' .* set heartbeats\.topic\.location = target",
    ):
        emit_heartbeat(flow)
    emit_heartbeat(replace(flow, heartbeats_topic_location="target"))
    wanted = GroupOffset(name, "heartbeats", 0, 0)
    (applied,) = apply_offsets(flow.target, [wanted])
    assert applied.problem is not None
    assert f"group {name}" in applied.problem
    assert f"User:srm needs the permission Describe on group '{name}'" in applied.problem
    seen = f"kafka-acls.sh --bootstrap-server $B --add --allow-principal User:srm --operation Describe --group {name}"
    grant(sides.target, seen)

    def refused() -> bool:
        (applied,) = apply_offsets(flow.target, [wanted])
        return "refused to commit offsets" in str(applied.problem)

    eventually(refused, 300, "the right to see the group is not enough to set it")
    revoke(sides.target, seen)


def test_readers_may_read_the_copy_and_nobody_may_write_it(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    for topic in (f"{name}-x", f"{name}-y"):
        sides.source.create_topic(topic)
    sides.change(
        sides.source,
        "+",
        f"ALLOW READ bob {name}*",
        f"ALLOW ALL app {name}-x",
        f"ALLOW READ eve {name}*",
        f"DENY READ eve {name}-y",
    )
    flow = make_flow()
    plan = plan_topics(flow)
    created = [
        acl_binding
        for action in acl_actions(plan)
        if isinstance(action, CreateAcls)
        for acl_binding in action.bindings
        # The first plan of the pair also has those of the flow's own principal.
        if acl_binding.topics.name.startswith(f"a.{name}")
    ]
    assert sorted(created) == sorted(
        map(
            binding,
            [
                f"ALLOW READ bob a.{name}*",
                f"ALLOW READ app a.{name}-x",
                f"ALLOW READ eve a.{name}*",
                f"DENY READ eve a.{name}-y",
            ],
        )
    )
    assert f"create ACL ALLOW on topic a.{name}-x on b: User:app READ ('ALLOW User:app ALL on {name}-x' of a)" in (
        plan.render()
    )
    assert sides.of_readers(f"a.{name}") == set()  # a plan changes nothing
    refresh(flow)
    settled(flow)
    assert sides.of_readers(f"a.{name}") == set(created)
    rights = {
        (user, topic): can_read(login("b", sides.target, user), f"a.{name}-{topic}")
        for user in ("bob", "eve", "app")
        for topic in "xy"
    }
    assert [pair for pair, allowed in rights.items() if not allowed] == [("eve", "y"), ("app", "y")]
    assert not can_write(login("b", sides.target, "app"), f"a.{name}-x")
    assert can_write(login("a", sides.source, "app"), f"{name}-x")


def test_revocation_reaches_the_copy_and_others_bindings_are_left_alone(
    sides: Sides, make_flow: MakeFlow, name: str
) -> None:
    sides.source.create_topic(name)
    sides.change(sides.source, "+", f"ALLOW READ bob {name}", f"ALLOW READ eve {name}", f"DENY READ app {name}*")
    theirs = [f"ALLOW READ eve a.{name}", f"ALLOW WRITE app a.{name}", f"ALLOW DESCRIBE app a.{name}*"]
    sides.change(sides.target, "+", *theirs)
    flow = make_flow()
    plan = refresh(flow)
    assert f"User:app may write to a.{name} on b by 'ALLOW User:app WRITE on a.{name}'" in plan.notices
    settled(flow)
    assert f"a.{name}" not in {
        acl_binding.topics.name for acl_binding in recorded(flow) if acl_binding.principal == "User:eve"
    }
    sides.change(sides.source, "-", f"ALLOW READ bob {name}", f"ALLOW READ eve {name}", f"DENY READ app {name}*")
    deletions = acl_actions(refresh(flow))
    assert [(type(deletion), deletion.topic) for deletion in deletions if name in deletion.topic] == [
        (DeleteAcls, f"a.{name}"),
        (DeleteAcls, f"a.{name} (prefixed)"),
    ]
    settled(flow)
    assert sides.of_readers(f"a.{name}") == set(map(binding, theirs))
    assert not can_read(login("b", sides.target, "bob"), f"a.{name}")
    assert not any(acl_binding.topics.name == f"a.{name}" for acl_binding in recorded(flow))


def test_readers_stay_when_a_topic_is_no_longer_chosen(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    for topic in (f"{name}-x", f"{name}-y"):
        sides.source.create_topic(topic)
    sides.change(sides.source, "+", f"ALLOW READ bob {name}-x", f"ALLOW READ bob {name}-y")
    refresh(make_flow())
    fewer = make_flow(topics_exclude=(f"{name}-x",))
    refresh(fewer)
    settled(fewer)
    assert sides.of_readers(f"a.{name}") == {binding(f"ALLOW READ bob a.{name}-{topic}") for topic in "xy"}
    sides.change(sides.source, "-", f"ALLOW READ bob {name}-x")
    not_due = plan_topics(fewer, due=EVERYTHING - {Job.ACLS})
    assert acl_actions(not_due) == []
    sides.source.create_topic(f"{name}-z")
    with_a_new_topic = plan_topics(fewer, due=EVERYTHING - {Job.ACLS})
    assert [action.topic for action in acl_actions(with_a_new_topic) if name in action.topic] == [f"a.{name}-x"]
    refresh(fewer)
    settled(fewer)
    assert sides.of_readers(f"a.{name}") == {binding(f"ALLOW READ bob a.{name}-y")}


def test_a_crash_between_record_and_creation(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    sides.source.create_topic(name)
    sides.change(sides.source, "+", f"ALLOW READ bob {name}")
    flow = make_flow()
    ours = binding(f"ALLOW READ bob a.{name}")
    with FlowClusters(flow) as clusters:
        write_acl_record(clusters, recorded(flow) | {ours})
    (action,) = acl_actions(refresh(flow))
    assert action.bindings == (ours,)  # type: ignore[union-attr]
    settled(flow)
    sides.change(sides.source, "-", f"ALLOW READ bob {name}")
    sides.change(sides.target, "-", f"ALLOW READ bob a.{name}")  # as after a crash between deletion and record
    (action,) = acl_actions(refresh(flow))
    assert "it is already gone" in str(action)
    assert ours not in recorded(flow)


def test_an_identity_flow_does_not_open_topics_of_the_target(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    grant(sides.target, f"kafka-acls.sh --bootstrap-server b --add --allow-principal User:srm --operation All "
          f"--resource-pattern-type prefixed --topic {name}")  # fmt: skip
    sides.source.create_topic(f"{name}-x")
    sides.source.create_topic(f"{name}-y")
    sides.target.create_topic(f"{name}-local")
    sides.change(sides.source, "+", f"ALLOW READ bob {name}*")
    flow = make_flow(policy=IdentityReplicationPolicy())
    refresh(flow)
    settled(flow)
    assert sides.of_readers(name) == {binding(f"ALLOW READ bob {name}-{topic}") for topic in "xy"}


def test_a_cluster_without_an_authorizer_is_a_note(
    sides: Sides, make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    sides.change(sides.target, "+", f"ALLOW READ srm srm-flow-state.{name}*")
    open_source = ClusterSettings.plaintext("a", source_kafka.bootstrap_servers)
    open_target = ClusterSettings.plaintext("b", target_kafka.bootstrap_servers)
    names = FlowName(f"{name}-a", f"{name}-b")  # in this file a and b mean other clusters
    for settings, who in (
        ({"source": open_source}, "a has"),
        ({"target": open_target}, "b has"),
        ({"source": open_source, "target": open_target}, "a and b have"),
    ):
        plan = plan_topics(make_flow(name=names, emit_heartbeats=False, **settings))
        assert acl_actions(plan) == []
        assert f"no ACLs are synced: {who} no authorizer" in plan.notices
    assert plan_topics(make_flow(name=names, emit_heartbeats=False, sync_topic_acls=False, **settings)).notices == ()


def sentences(results: list[ActionResult]) -> list[str]:
    found = [result.error for result in results if result.error is not None]
    assert all("\n" not in one for one in found)
    return found


def test_without_the_right_to_describe_acls(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    sides.source.create_topic(name)
    sides.change(sides.source, "+", f"ALLOW READ limited {name}*", f"ALLOW DESCRIBE_CONFIGS limited {name}*")
    flow = make_flow(source=login("a", sides.source, "limited"))
    plan = plan_topics(flow)
    assert [action.kind for action in acl_actions(plan)] == ["sync_acls"]
    (error,) = sentences(apply_plan(flow, plan))
    assert "cluster 'a'" in error
    assert "refused to describe its ACLs: User:limited needs the permission Describe on the cluster" in error
    assert error.endswith("or set sync.topic.acls.enabled = false")
    assert sides.of_readers(f"a.{name}") == set()


def test_without_the_right_to_change_acls(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    sides.source.create_topic(name)
    sides.change(sides.source, "+", f"ALLOW READ bob {name}")
    flow = make_flow()
    alter = "kafka-acls.sh --bootstrap-server b --add --allow-principal User:srm --operation Alter --cluster"
    # Which comes with the other, else.
    grant(sides.target, alter.replace("Alter", "Describe"))
    revoke(sides.target, alter)
    try:
        results = apply_plan(flow, plan_topics(flow))
    finally:
        grant(sides.target, alter)
    error = sentences(results)[0]
    assert "refused to create ACLs: User:srm needs the permission Alter on the cluster" in error
    assert not any(acl_binding.topics.name == f"a.{name}" for acl_binding in recorded(flow))
    refresh(flow)  # with the right again
    assert binding(f"ALLOW READ bob a.{name}") in recorded(flow)


def test_without_the_rights_to_create_grow_and_alter_topics(sides: Sides, make_flow: MakeFlow, name: str) -> None:
    topics = [f"{name}-{what}" for what in ("new", "grown", "altered")]
    for topic in topics:
        sides.source.create_topic(topic, 2, config={"retention.ms": "1234567"})
    sides.target.create_topic(f"a.{topics[1]}", 1, config={"retention.ms": "1234567"})
    sides.target.create_topic(f"a.{topics[2]}", 2)
    sides.change(
        sides.target,
        "+",
        *(f"ALLOW {right} limited a.{name}*" for right in ("DESCRIBE", "DESCRIBE_CONFIGS")),
        *(
            f"ALLOW {right} limited {topic}"
            for right in ("READ", "WRITE", "DESCRIBE_CONFIGS")
            for topic in ("srm-flow-state.a.internal", "srm-meta.internal")
        ),
    )
    flow = make_flow(target=login("b", sides.target, "limited"), emit_heartbeats=False, sync_topic_acls=False)
    results = {
        (result.action.kind, result.action.topic): result.error or "" for result in apply_plan(flow, plan_topics(flow))
    }
    for kind, topic, right in (
        ("create_topic", topics[0], "Create on topic"),
        ("grow_partitions", topics[1], "Alter on topic"),
        ("alter_configs", topics[2], "AlterConfigs on topic"),
    ):
        assert f"User:limited needs the permission {right} 'a.{topic}'" in results[kind, f"a.{topic}"]
