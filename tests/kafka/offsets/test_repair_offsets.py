from __future__ import annotations

import pytest

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import StateTopicInvalid
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.repair_offsets import repair_offsets
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, read, write
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


def run(flow: FlowSettings) -> RunRecord:
    prepare(flow)
    return replicate(flow, RunOptions("r"), here)


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
