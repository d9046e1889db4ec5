from __future__ import annotations

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.testing import FakeCluster
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, write
from tests.slot_worker import here


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


def run(flow: FlowSettings) -> RunRecord:
    prepare(flow)
    return replicate(flow, RunOptions("r"), here)


def test_records_that_the_flow_did_not_write_are_found(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    """Between two runs, and behind the last; a copy that only the flow writes to stays without a word."""
    source_kafka.create_topic(name, 2)
    remote = f"{flow.name.source}.{name}"
    for _ in range(2):
        for partition in (0, 1):
            write(source_kafka, name, [b"x"] * 20, partition)
        run(flow)
        checked = check_copies(flow)
        assert (
            checked.copies,
            [str(foreign_records) for foreign_records in checked.found if foreign_records.partition],
        ) == (2, [])
        write(target_kafka, remote, [b"foreign"] * 3)
    records = check_copies(flow).found
    assert [(record.partition, record.records, record.unmapped) for record in records] == [(0, 3, False), (0, 3, True)]
    (note,) = sync_checkpoints(flow, at_once=True).notes
    assert f"1 of 2 partitions contain records that the flow did not write, the first: {remote}-0" in note
    # The report of the next run has it, for the alarm.
    run(flow)
    assert make_report(flow, "next").foreign_writers == note
    assert records[0].first >= 20
    assert records[1].first >= 43
