"""Checkpoints while a run copies, of groups that real coordinators know."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.partition_track import Progress
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.groups.group_watch import GroupWatch
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.checkpoint_rounds import checkpoints, values
from tests.kafka.flows import flow_between, prepare, write
from tests.kafka.group_commits import commit
from tests.kafka.records import eventually
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    made = flow_between(source_kafka, target_kafka, name, tasks_max=1, groups=(f"{name}.*",))
    source_kafka.create_topic(name, 1)
    return made


def _stands_at(flow: FlowSettings, end: int) -> bool:
    return [upstream for _, upstream, _ in places(flow)][-1:] == [end]


def places(flow: FlowSettings) -> list[tuple[str, int, int]]:
    return [(checkpoint.group, checkpoint.upstream, checkpoint.downstream) for checkpoint in checkpoints(flow)]


def test_many_groups_on_few_requests(source_kafka: LocalKafka, flow: FlowSettings, name: str) -> None:
    groups = [f"{name}-{number:03}" for number in range(60)]
    for number, group in enumerate(groups):
        commit(source_kafka, group, TopicPartition(name, 0, number, metadata=f"n{number}"))
    with GroupWatch(flow.source) as watch:
        for _ in range(2):
            offsets, faults = watch.committed(lambda group: group.startswith(name))
            assert not faults
            assert [offset.group for offset in offsets] == groups
            assert [offset.offsets[Place(name, 0)].offset for offset in offsets] == list(range(60))
            assert offsets[7].offsets[Place(name, 0)].metadata == "n7"
        commit(source_kafka, groups[3], TopicPartition(name, 0, 99))
        offsets, _ = watch.committed(lambda group: group == groups[3])
        assert [offset.offsets[Place(name, 0)].offset for offset in offsets] == [99]


def test_a_long_run_writes_checkpoints_of_what_it_copies(
    flow: FlowSettings, source_kafka: LocalKafka, name: str
) -> None:
    flow = replace(flow, emit_checkpoints_in_runs_interval_seconds=0.2)
    prepare(flow)
    stop = threading.Event()
    ended: list[BaseException | None] = []

    def slots(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        return here(replace(job, tail_until=time.time() + 1), tasks)

    def look(progress: Progress) -> None:
        if stop.is_set() and not progress.copying:
            raise KeyboardInterrupt

    def run() -> None:
        try:
            replicate(flow, RunOptions("r", max_seconds=3600.0), slots, look)
        except BaseException as error:
            ended.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    group = f"{name}-g"
    try:
        for end in (100, 200):
            write(source_kafka, name, values(end - 100, end))
            commit(source_kafka, group, TopicPartition(name, 0, end))
            eventually(partial(_stands_at, flow, end), 300, "no checkpoint")
        assert not ended
    finally:
        stop.set()
        worker.join(300)
    assert [type(one) for one in ended] == [KeyboardInterrupt]
