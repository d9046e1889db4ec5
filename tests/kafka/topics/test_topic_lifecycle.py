"""A topic that brokers delete and create again, with another id. The rules are in
``tests/unit/usecases/topics/test_topic_lifecycle.py``."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.plans.plan import Plan
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topics.actions import failed
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import flow_between, read, write
from tests.kafka.topics.test_refresh_topics import settings_shown
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


class Scenario:
    """One flow of one topic, run step by step."""

    def __init__(self, source: LocalKafka, target: LocalKafka, name: str) -> None:
        self.source, self.target, self.topic = source, target, name
        self.flow = flow_between(source, target, name, topics=(name,))
        self.remote = f"{self.flow.name.source}.{name}"
        source.create_topic(name, partitions=2)

    def refresh(self, **options: object) -> Plan:
        done = refresh_topics(self.flow, at_once=True, **options)  # type: ignore[arg-type]
        assert [str(result) for result in failed(done.results)] == []
        assert done.plan is not None
        settings_shown(self.flow)
        return done.plan

    def copy(self) -> RunRecord:
        return replicate(self.flow, RunOptions("r"), here)

    def record(self) -> TopicRecord:
        with TopicRegistry(self.flow.target) as registry:
            record = registry.read().find(self.flow.name, self.topic)
        assert record is not None
        return record

    def begin(self) -> None:
        """Three records are copied."""
        self.refresh()
        write(self.source, self.topic, [b"1", b"2", b"3"])
        assert self.copy().records == 3

    def seen(self) -> list[bytes | None]:
        return [seen.value for seen in read(self.target, self.remote)]


@pytest.fixture
def scenario(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> Scenario:
    return Scenario(source_kafka, target_kafka, name)


def delete(kafka: LocalKafka, topic: str) -> None:
    kafka.admin().delete_topics([topic], operation_timeout=60)[topic].result(60)
    deadline = time.monotonic() + 180
    while topic in kafka.admin().list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_source_topic_deleted_and_made_again(scenario: Scenario) -> None:
    scenario.begin()
    delete(scenario.source, scenario.topic)
    plan = scenario.refresh()
    gone = next(decision for decision in plan.decisions if decision.topic == scenario.topic)
    assert (gone.code, gone.reason) == (
        "source_deleted",
        f"deleted on {scenario.flow.name.source}; its copy {scenario.remote} is kept",
    )
    assert scenario.record().state is TopicState.SOURCE_DELETED
    assert scenario.seen() == [b"1", b"2", b"3"]
    assert plan_topics(scenario.flow).actions == ()

    scenario.source.create_topic(scenario.topic, partitions=2)
    write(scenario.source, scenario.topic, [b"new"])
    former = scenario.record().upstream_topic_id
    plan = scenario.refresh()
    assert any("on.data.loss = fail: its partitions are not copied until" in notice for notice in plan.notices)
    assert (scenario.record().state, scenario.record().upstream_topic_id) == (TopicState.RECREATED, former)
    record = scenario.copy()
    assert (record.records, record.state) == (0, RunState.FAILED)

    scenario.flow = replace(scenario.flow, on_data_loss=OnDataLoss.RESET)
    scenario.refresh()
    assert scenario.record().state is TopicState.REPLICATING
    assert scenario.record().previous_upstream_ids == (former,)
    assert scenario.copy().records == 1
    assert scenario.seen() == [b"1", b"2", b"3", b"new"]
