from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.run_options import RunOptions
from srm_common.domain.run_record import RunState
from srm_common.errors import UnreachableCluster
from srm_common.replication.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.replicate import replicate
from srm_common.usecases.status import status
from tests.kafka.flows import flow_between, prepare, write

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


def test_status_before_after_and_without_the_source(flow: FlowSettings, source_kafka: LocalKafka, name: str) -> None:
    assert status(flow).run is None
    source_kafka.create_topic(name, 2)
    write(source_kafka, name, [b"x"] * 30)
    prepare(flow)
    replicate(flow, RunOptions("first"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    write(source_kafka, name, [b"x"] * 5)
    report = status(flow)
    assert report.run is not None
    assert (report.run.run_id, report.run.state, report.healthy) == ("first", RunState.DONE, True)
    rows = [(row.partition, row.position, row.end, row.lag, row.live) for row in report.partitions]
    assert rows == [(0, 30, 35, 5, True), (1, 0, 0, 0, True)]
    assert report.partitions[0].age_seconds is not None
    away = replace(flow.source, bootstrap_servers="127.0.0.1:1", confluent={"bootstrap.servers": "127.0.0.1:1"})
    report = status(replace(flow, source=away))
    assert not report.healthy
    assert f"cluster '{flow.source.alias}' (127.0.0.1:1)" in str(report.source_fault)
    assert [(row.end, row.live) for row in report.partitions] == [(30, False), (0, False)]


def test_an_unreachable_target_is_an_error(flow: FlowSettings) -> None:
    away = replace(flow.target, bootstrap_servers="127.0.0.1:1", confluent={"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(UnreachableCluster, match="'target'"):
        status(replace(flow, target=away))
