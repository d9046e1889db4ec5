"""Groups that read copies at the backup have checkpoints, and offsets, on the originals at the primary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import checkpoints_topic
from srm_common.domain.policy import DefaultReplicationPolicy
from srm_common.domain.runs.run_options import RunOptions
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets.resume_points import opposite
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, write
from tests.kafka.group_commits import commit
from tests.slot_worker import here


class Suffixed(DefaultReplicationPolicy):
    """Copies have names that tell nothing of where they came from."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic}-copied"

    def topic_source(self, topic: str) -> str | None:
        return None


def on_originals(back: FlowSettings, group: str) -> dict[tuple[str, int], int]:
    """The places of the group's checkpoints."""
    with StateReader(back.target) as reader:
        found = newest_checkpoints(reader, checkpoints_topic(back)).by_place.values()
    return {
        (checkpoint.topic, checkpoint.partition): checkpoint.downstream
        for checkpoint in found
        if checkpoint.group == group
    }


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy(), Suffixed()], ids=["default", "custom"])
def test_offsets_on_copies_go_back(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, policy: DefaultReplicationPolicy
) -> None:
    made = flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",), policy=policy)
    source_kafka.create_topic(name, 2)
    for partition in range(2):
        write(source_kafka, name, [b"%d" % number for number in range(100)], partition)
    prepare(made)
    replicate(made, RunOptions("r"), here)
    # Another place there than here.
    write(source_kafka, name, [b"%d" % number for number in range(100)], 0)
    replicate(made, RunOptions("r2"), here)

    group, copy = f"{name}-g", policy.format_remote_topic(made.name.source, name)
    back = replace(
        opposite(made),
        topics=(f"{name}-local",),
        sync_group_offsets=True,
        sync_group_offsets_interval_seconds=0.0,
        emit_checkpoints_interval_seconds=0.0,
    )
    commit(target_kafka, group, TopicPartition(copy, 0, 151), TopicPartition(copy, 1, 40))
    report = sync_checkpoints(back)
    assert (report.checkpoints, report.untranslated, report.faults) == (2, (), ())
    # The commit marker of the first chunk takes an offset of the copy.
    assert on_originals(back, group) == {(name, 0): 150, (name, 1): 40}
    offsets, _ = GroupReader(back.target).offsets([group])
    assert {place: at.offset for place, at in offsets[0].offsets.items()} == {(name, 0): 150, (name, 1): 40}
    assert sync_checkpoints(back).checkpoints == 0

    # Lists and the switch leave copies out.
    commit(target_kafka, group, TopicPartition(copy, 1, 60))
    for off in (
        replace(back, reverse_checkpointing=False),
        replace(back, reverse_topics=("x",)),
        replace(back, reverse_topics_exclude=(".*",)),
    ):
        assert sync_checkpoints(off).checkpoints == 0
    assert sync_checkpoints(back).checkpoints == 1
    assert on_originals(back, group)[name, 1] == 60
