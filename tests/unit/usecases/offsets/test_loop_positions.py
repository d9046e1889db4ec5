"""Groups at a flow's source that read what came from its target: nothing of it goes back, and nothing is missing."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka import TopicPartition

from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.runs.run_options import RunOptions
from srm_common.usecases.groups.explain_offsets import explain_offsets
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import raise_if_failed, replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import write
from tests.kafka.group_commits import commit
from tests.slot_worker import here
from tests.unit.usecases.fakes import Sides


def both_ways(sides: Sides) -> tuple[FlowSettings, FlowSettings]:
    there = sides.set(policy=IdentityReplicationPolicy())
    back = replace(there, name=FlowName("b", "a"), source=there.target, target=there.source)
    graph = tuple(GraphFlow.of(flow.name, flow.policy, flow.source, flow.target) for flow in (there, back))
    return replace(there, graph=graph), replace(back, graph=graph)


def copy(flow: FlowSettings) -> None:
    refresh_topics(flow, at_once=True)
    raise_if_failed(replicate(flow, RunOptions("r"), here))


def test_positions_on_a_topic_that_would_go_back_are_no_loss(steady_sides: Sides) -> None:
    there, back = both_ways(steady_sides)
    steady_sides.target.create_topic("orders", 1)
    write(steady_sides.target, "orders", [b"x"] * 10)
    copy(back)
    steady_sides.source.create_topic("orders-of-a", 1)
    write(steady_sides.source, "orders-of-a", [b"x"] * 10)
    copy(there)
    for topic in ("orders", "orders-of-a"):
        commit(steady_sides.source, "readers", TopicPartition(topic, 0, 4))
    report = sync_checkpoints(there, at_once=True)
    assert (report.checkpoints, report.untranslated) == (1, ())
    remarks = {row.topic: row.remark for row in explain_offsets(there, (), ["readers"]).rows}
    assert remarks["orders"].startswith("the topic is not copied: it would form a loop")
