"""A segment of the offset map that cannot be read: whoever stands elsewhere goes on."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.flow import FlowSettings, OnDataLoss, names
from srm_common.domain.offsets.translation import Translated, Unmapped
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.steady_checkpoints import CheckpointRounds
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import VALUE_HEAD, decode_segment
from tests.kafka.checkpoint_rounds import checkpoints, copy, values
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.kafka.records import delete_topic
from tests.unit.usecases.fakes import Rounds


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    """It has copied twice; the second segment of partition 0 is not damaged yet."""
    source_kafka.create_topic(name, 2)
    flow = flow_between(
        *(source_kafka, target_kafka, name),
        topics=(name,),
        groups=(f"{name}.*",),
        tasks_max=1,
        on_data_loss=OnDataLoss.RESET,
    )
    for start in (0, 10):
        for partition in (0, 1):
            write(source_kafka, name, values(start, start + 10), partition)
        copy(flow)
    return flow


def damage_newest(flow: FlowSettings, partition: int = 0) -> None:
    """What is kept of the segment is its beginning."""
    topic = names.segments_topic(flow.name.source)
    with StateReader(flow.target) as reader:
        found = reader.newest(topic, reader.offsets(topic, range(reader.partitions(topic)), LATEST))
    segments = {key: decode_segment(key, record.value) for key, record in found.items()}
    key = max(
        (key for key, segment in segments.items() if segment.partition == partition),
        key=lambda key: found[key].offset,
    )
    value = found[key].value
    assert value is not None
    record = NewRecord(topic, found[key].partition, key, value[: VALUE_HEAD.size] + b"\xff" * 3)
    StateWriter(flow.target).write("damage the map", [record])


def places(flow: FlowSettings) -> dict[str, tuple[int, int]]:
    return {made.group.rpartition("-")[2]: (made.upstream, made.downstream) for made in checkpoints(flow)}


def test_a_round_is_done_for_all_others(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    damage_newest(flow)
    for group, partition, position in (("before", 0, 5), ("within", 0, 15), ("other", 1, 15)):
        commit(source_kafka, f"{name}-{group}", TopicPartition(name, partition, position))
    write(target_kafka, f"{flow.name.source}.{name}", [b"foreign"] * 3, 1)
    report = sync_checkpoints(flow)
    # What the damaged segment maps is read again.
    assert places(flow) == {"before": (5, 5), "within": (15, 10), "other": (15, 16)}
    (skipped,) = report.skipped
    assert skipped.startswith(f"the segment of {name}-0 from offset 10 ")
    # The other copy was looked at for records of other writers, and the next round has nothing to do again.
    assert "contain records that the flow did not write" in report.notes[0]
    assert sync_checkpoints(flow).segments == 0


def test_a_copy_that_the_map_does_not_tell_of_is_not_checked(flow: FlowSettings) -> None:
    damage_newest(flow)
    checked = check_copies(flow)
    assert (checked.copies, checked.unmapped, checked.found) == (1, 0, ())
    (fault,) = checked.faults
    assert "-0 was not checked: the segment of " in fault


def test_rounds_within_a_run_go_on(flow: FlowSettings, source_kafka: FakeCluster, name: str) -> None:
    """Where the copy ends decides about groups that have a checkpoint."""
    moving, other = f"{name}-moving", f"{name}-other"
    for group, partition in ((moving, 0), (other, 1)):
        commit(source_kafka, group, TopicPartition(name, partition, 2))
    with closing(CheckpointRounds(flow)) as rounds:
        assert rounds.go() == ""
        assert places(flow) == {"moving": (2, 2), "other": (2, 2)}
    damage_newest(flow)
    for group, partition in ((moving, 0), (other, 1)):
        commit(source_kafka, group, TopicPartition(name, partition, 4))
    with closing(CheckpointRounds(flow)) as rounds:
        assert rounds.go() == ""
    # The task judges the first one.
    assert places(flow) == {"moving": (2, 2), "other": (4, 4)}


def test_positions_of_a_topic_that_was_created_again_are_not_known(
    flow: FlowSettings, source_kafka: FakeCluster, name: str
) -> None:
    delete_topic(source_kafka, name)
    source_kafka.create_topic(name, 2)
    for start in (20, 30):
        for partition in (0, 1):
            write(source_kafka, name, values(start, start + 10), partition)
        copy(flow)
    damage_newest(flow)
    with ExactTranslation(flow) as exact:
        answers = exact.translate([(name, 0, 5), (name, 1, 5)])
    assert isinstance(answers[name, 0, 5], Unmapped)
    assert isinstance(answers[name, 1, 5], Translated)
