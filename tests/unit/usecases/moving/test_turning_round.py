"""A flow is turned round twice between two clusters; nothing is copied back."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka import Consumer, TopicPartition

from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.flow.start_position import parse_topic_starts
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest, StepResult
from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.verification.differences import NotProved
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.testing import FakeCluster
from srm_common.usecases.moving.failover import last_move
from srm_common.usecases.moving.switch_direction import SwitchMove
from srm_common.usecases.runs.replicate import raise_if_failed, replicate
from srm_common.usecases.topics.plan_topics import decide_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.kafka.flows import flow_between, read, write
from tests.kafka.group_commits import commit
from tests.slot_worker import here


def verified(flow: FlowSettings, against: Against = Against.MAP) -> tuple[Verdict, int, dict[NotProved, int]]:
    """Of the flow's only partition: the result, records that are proved, and why others are not."""
    (one,) = verify_copies(flow, against=against).partitions
    assert one.fault is None
    return one.verdict, one.findings.proved, one.findings.not_proved


def end_of(kafka: FakeCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "looker"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    finally:
        consumer.close()


def copy(flow: FlowSettings) -> RunRecord:
    refresh_topics(flow, at_once=True)
    record = replicate(flow, RunOptions("r"), here)
    raise_if_failed(record)
    return record


def file_with(enabled: FlowSettings, other: FlowSettings) -> tuple[FlowSettings, FlowSettings]:
    """Both flows, as a file has them in which only the first is enabled."""
    graph = (GraphFlow.of(enabled.name, enabled.policy, enabled.source, enabled.target),)
    return replace(enabled, enabled=True, graph=graph), replace(other, enabled=False, graph=graph)


def switch(flow: FlowSettings, back: FlowSettings, group: str, *, dry_run: bool = False) -> list[StepResult]:
    """All steps as the command does them, until one fails."""
    request = MoveRequest(MoveKind.SWITCH_DIRECTION, MoveMode.CONTROLLED, (group,), dry_run, wait_seconds=60.0)
    move = SwitchMove(flow, back, request, copy if flow.enabled else None)
    results: list[StepResult] = []
    for step in request.steps:
        results.append(move.run(step))
        if results[-1].failed:
            break
    return results


def test_a_disabled_flow_that_is_started_by_hand_copies_nothing_back(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    """Each record of the flow that has taken over would arrive at both clusters a second time."""
    starts = parse_topic_starts(".*=opposite")
    policy = IdentityReplicationPolicy()
    there = flow_between(source_kafka, target_kafka, name, policy=policy, start_positions=starts)
    there = replace(there, name=FlowName(there.name.source, f"{there.name.source}new"))
    back = replace(there, name=FlowName(there.name.target, there.name.source), source=there.target, target=there.source)
    there, back = file_with(there, back)
    source_kafka.create_topic(name)
    write(source_kafka, name, [b"old"])
    assert copy(there).records == 1

    back, there = file_with(back, replace(there, disabled=True))
    write(target_kafka, name, [b"new"])
    assert copy(back).records == 1
    for _ in range(2):
        assert copy(there).records == 0
        assert copy(back).records == 0
    (refused,) = (one for one in decide_topics(there) if one.topic == name)
    assert refused.reason.endswith(f"; {there.name} is disabled in the file"), refused.reason
    values = [one.value for one in read(source_kafka, name)]
    assert values == [one.value for one in read(target_kafka, name)] == [b"old", b"new"]

    # Turned once more, after the other one's last run.
    there, back = file_with(replace(there, disabled=False), replace(back, disabled=True))
    assert [one.accepted for one in decide_topics(there) if one.topic == name] == [True]


def test_a_flow_is_turned_round_and_back(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> None:
    there = flow_between(
        source_kafka,
        target_kafka,
        name,
        policy=IdentityReplicationPolicy(),
        groups=(name,),
        start_positions=parse_topic_starts(".*=opposite"),
    )
    there = replace(there, name=FlowName(there.name.source, f"{there.name.source}new"))
    back = replace(
        there,
        name=FlowName(there.name.target, there.name.source),
        source=there.target,
        target=there.source,
    )
    there, back = file_with(there, back)
    source_kafka.create_topic(name)
    write(source_kafka, name, [b"%d" % number for number in range(40)])
    commit(source_kafka, name, TopicPartition(name, 0, 40))
    assert copy(there).records == 40
    assert verified(there) == (Verdict.PROVED, 40, {})
    write(source_kafka, name, [b"%d" % number for number in range(40, 50)])

    assert [result.render() for result in switch(there, back, name, dry_run=True) if result.failed] == []
    assert len(read(target_kafka, name)) == 40
    # The file still has the first direction: everything but the turn is done.
    refused = switch(there, back, name)[-1]
    assert (refused.step, refused.failed, refused.exit_code) == ("turn", True, 2)
    assert f"'{back.name}.enabled = true'" in refused.sentences[0]
    assert len(read(target_kafka, name)) == 50

    back, there = file_with(back, there)
    done = switch(there, back, name)
    assert [result.render() for result in done if result.failed] == []
    record = last_move(there)
    assert record is not None
    assert record.finished
    assert verified(there) == (Verdict.PROVED, 50, {})
    assert verify_copies(back).partitions == ()
    # Done again, it does nothing.
    assert "nothing to do" in " ".join(switch(there, back, name)[-2].sentences)

    write(target_kafka, name, [b"new %d" % number for number in range(7)])
    assert copy(back).records == 7
    assert len(read(source_kafka, name)) == len(read(target_kafka, name)) == 57
    # What the other direction had copied is not of this one; the source has it all.
    assert verified(back) == (Verdict.PARTLY, 7, {NotProved.BEFORE_MAP: 50})
    assert verified(back, Against.SOURCE) == (Verdict.PROVED, 57, {})

    # And the other way round, when everything has been copied.
    commit(target_kafka, name, TopicPartition(name, 0, end_of(target_kafka, name)))
    there, back = file_with(there, back)
    turned = switch(back, there, name)
    assert [result.render() for result in turned if result.failed] == []
    write(source_kafka, name, [b"again %d" % number for number in range(3)])
    assert copy(there).records == 3
    assert len(read(source_kafka, name)) == len(read(target_kafka, name)) == 60
    # The first direction's own fingerprints are as good as before; in between lies what was written there meanwhile.
    assert verified(there) == (Verdict.PARTLY, 53, {NotProved.NOT_COPIED: 7})
    assert verified(there, Against.SOURCE) == (Verdict.PROVED, 60, {})
