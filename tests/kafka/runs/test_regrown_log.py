"""A source log that lost its end and has grown beyond the copied position again, on a real broker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare
from tests.kafka.records import mixed_records, produce, read_all
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def source() -> Iterator[LocalKafka]:
    with LocalKafka(name="regrown") as kafka:
        yield kafka


def lose_disk(kafka: LocalKafka, topic: str) -> None:
    """The only replica comes back without its log."""
    kafka.kill()
    shutil.rmtree(kafka.directory / "node-1" / "data" / f"{topic}-0")
    kafka.restart()


def run(flow: FlowSettings, run_id: str) -> RunRecord:
    return replicate(flow, RunOptions(run_id=run_id), here)


def test_a_run_says_where_the_logs_part_and_copies_what_is_new_when_told(
    source: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    flow = flow_between(source, target_kafka, name)
    source.create_topic(name)
    produce(source, name, 0, mixed_records(1000))
    prepare(flow)
    assert run(flow, "1").records == 1000
    # A leader that lost nothing is nothing to speak of.
    source.restart()
    produce(source, name, 0, mixed_records(100, seed=2))
    assert run(flow, "2").records == 100

    lose_disk(source, name)
    grown = mixed_records(1500, seed=3)
    produce(source, name, 0, grown)
    record = run(flow, "3")
    assert (record.state, record.records) == (RunState.FAILED, 0)
    (failed,) = record.failed_partitions
    assert "truncated and has grown again" in str(failed.trouble)
    assert "offset 1100 " in str(failed.trouble)
    assert "at offset 0 " in str(failed.trouble)

    assert run(replace(flow, on_data_loss=OnDataLoss.SKIP), "4").records == 1500
    copied = read_all(target_kafka, f"{flow.name.source}.{name}")[0]
    assert [placed.seen for placed in copied[1100:]] == grown
    assert run(flow, "5").state is RunState.DONE
