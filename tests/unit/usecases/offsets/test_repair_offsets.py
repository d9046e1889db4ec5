from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.start_position import StartKind, StartPosition
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import FlowRunning
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets import repair_offsets as repair_module
from srm_common.usecases.offsets.repair_offsets import repair_offsets
from srm_common.usecases.offsets.source_offsets import committed_now
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.state.mm2 import partition_for, source_offset_key
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import VALUE_HEAD, decode_segment
from tests.kafka.flows import flow_between, prepare, write
from tests.kafka.markers import wait_for_markers
from tests.slot_worker import here


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


def run(flow: FlowSettings) -> RunRecord:
    prepare(flow)
    return replicate(flow, RunOptions("r"), here)


def test_a_map_that_was_dropped_or_cannot_be_read_proves_nothing(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    source_kafka.create_topic(name, 3)
    for partition in (0, 1, 2):
        write(source_kafka, name, [b"x"] * 10, partition)
    wait_for_markers(flow, run(flow))
    segments = names.segments_topic(flow.name.source)
    changed = []
    with StateReader(flow.target) as reader:
        ends = reader.offsets(segments, range(reader.partitions(segments)), LATEST)
        for key, record in reader.newest(segments, ends).items():
            assert record.value is not None
            damaged = {0: None, 1: record.value[: VALUE_HEAD.size] + b"\xff" * 3}
            number = decode_segment(key, record.value).partition
            if number in damaged:
                changed.append(NewRecord(segments, record.partition, key, damaged[number]))
    StateWriter(flow.target).write("damage the map", changed)
    (answer,) = target_kafka.admin().delete_topics([names.offsets_topic(flow.name.source)]).values()
    answer.result()
    planned = repair_offsets(flow, dry_run=True)
    assert [(action.partition, action.next_offset) for action in planned] == [(1, None), (2, 10)]
    assert "the end of its map cannot be read" in planned[0].proof


def test_a_run_that_begins_meanwhile_keeps_its_offsets(
    flow: FlowSettings,
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the map proved is older than what that run has committed: written after it, records would come twice."""
    offsets = names.offsets_topic(flow.name.source)

    def home_of(partition: int) -> int:
        return partition_for(source_offset_key(flow.name.source, name, partition), flow.offsets_partitions)

    home = home_of(0)
    elsewhere = next(partition for partition in range(1, 100) if home_of(partition) != home)
    source_kafka.create_topic(name, elsewhere + 1)
    for partition in (0, elsewhere):
        write(source_kafka, name, [b"x"] * 10, partition)
    wait_for_markers(flow, run(flow))
    log = target_kafka.log(offsets, home)
    log.delete_before(log.end)
    known = repair_module._copy_end

    def late(*args: Any) -> Any:
        found = known(*args)
        write(source_kafka, name, [b"y"] * 5, 0)
        prepare(flow)
        # As an operator lets it: without that, a run refuses to copy what the map has.
        replicate(flow, RunOptions("late", start=StartPosition(StartKind.EARLIEST)), here)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(repair_module, "_copy_end", late)
        with pytest.raises(FlowRunning, match="were not repaired: a run took over the flow"):
            repair_offsets(flow)
    assert committed_now(flow)[TopicPartition(name, 0)] == 15
