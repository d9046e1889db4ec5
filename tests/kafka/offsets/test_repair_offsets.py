from __future__ import annotations

import pytest

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import StateTopicInvalid
from srm_common.kafka.client.librdkafka import LATEST
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import NewRecord, StateWriter
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.repair_offsets import repair_offsets
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.segments import VALUE_HEAD, decode_segment
from tests.kafka.flows import flow_between, prepare, read, write
from tests.kafka.markers import wait_for_markers

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


def run(flow: FlowSettings) -> RunRecord:
    prepare(flow)
    return replicate(flow, RunOptions("r"), lambda job, tasks: [copy_slot(job, task) for task in tasks])


def test_lost_offsets_are_refused_rebuilt_and_gone_on_from(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name, 2)
    remote = f"{flow.name.source}.{name}"
    for partition in (0, 1):
        write(source_kafka, name, [b"%d" % number for number in range(40)], partition)
    run(flow)
    assert repair_offsets(flow) == []
    (answer,) = target_kafka.admin().delete_topics([names.offsets_topic(flow.name.source)]).values()
    answer.result()
    for partition in (0, 1):
        write(source_kafka, name, [b"later"] * 3, partition)
    with pytest.raises(StateTopicInvalid, match=f"srm-control repair --flow '{flow.name}'"):
        run(flow)
    # Something else wrote to one copy: what it is cannot be known from the map.
    write(target_kafka, remote, [b"foreign"], 1)
    planned = repair_offsets(flow, dry_run=True)
    assert [(action.partition, action.next_offset) for action in planned] == [(0, 40), (1, None)]
    assert "1 or more records after" in planned[1].proof
    with pytest.raises(StateTopicInvalid):
        run(flow)
    assert repair_offsets(flow) == planned
    assert [action.partition for action in repair_offsets(flow)] == [1]
    run(flow)
    assert read(target_kafka, remote, 0) == read(source_kafka, name, 0)


def test_a_map_that_was_dropped_or_cannot_be_read_proves_nothing(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
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


def test_records_that_the_flow_did_not_write_are_found(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """Between two runs, and behind the last; a copy that only the flow writes to stays without a word."""
    source_kafka.create_topic(name, 2)
    remote = f"{flow.name.source}.{name}"
    for _ in range(2):
        for partition in (0, 1):
            write(source_kafka, name, [b"x"] * 20, partition)
        run(flow)
        checked = check_copies(flow)
        assert (checked.copies, [str(one) for one in checked.found if one.partition]) == (2, [])
        write(target_kafka, remote, [b"foreign"] * 3)
    found = check_copies(flow).found
    assert [(one.partition, one.records, one.unmapped) for one in found] == [(0, 3, False), (0, 3, True)]
    (note,) = sync_checkpoints(flow, at_once=True).notes
    assert f"1 of 2 partitions contain records that the flow did not write, the first: {remote}-0" in note
    # The report of the next run has it, for the alarm.
    run(flow)
    assert make_report(flow, "next").foreign_writers == note
    assert found[0].first >= 20
    assert found[1].first >= 43
