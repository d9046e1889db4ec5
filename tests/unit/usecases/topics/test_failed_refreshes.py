"""Refreshes of which an action fails, in one run after another: what is done again when, and what is said meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topics.actions import Job
from srm_common.kafka.state.flow_state import FlowState
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.topics.refresh_topics import Refreshed, refresh_topics
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides


@dataclass
class Runs:
    """The task ``refresh_topics`` of runs that begin when the test says."""

    sides: Sides
    clusters: FlowClusters
    now: float = 1_700_000_000.0

    def at(self, seconds: float) -> Refreshed:
        """So long after the first run."""
        self.clusters.clock = lambda: self.now + seconds
        return refresh_topics(self.clusters.with_flow(self.sides.flow))

    def copy(self, run_id: str) -> RunRecord:
        return self.sides.run(run_id)


@pytest.fixture
def runs(steady_sides: Sides) -> Iterator[Runs]:
    with closing(FlowClusters(steady_sides.flow)) as clusters:
        yield Runs(steady_sides, clusters)


def plans(source: FakeCluster) -> int:
    """How often the settings of a topic were asked for: once by each refresh that does something."""
    asked = source.asked("DescribeConfigs")
    return sum(any(resource.resource_name == "orders" for resource in request.resources) for request in asked)


def test_the_runs_after_a_failure_say_so_and_do_not_do_everything_again(runs: Runs) -> None:
    source, target = runs.sides.source, runs.sides.target
    for topic in ("orders", "orders-eu"):
        source.create_topic(topic)
        source.write(topic, [(b"k", b"v")])
    refusal = target.refuse("CreateTopics", TOPIC_AUTHORIZATION_FAILED, when="a.orders-eu")
    first = runs.at(0)
    assert str(first.fault).startswith("1 of 4 changes failed, the first: FAILED: create topic a.orders-eu on b: ")
    assert runs.copy("r0").records == 1
    source.forget_requests()
    for seconds in (10, 30, 50):
        waiting = runs.at(seconds)
        assert (waiting.due, waiting.plan) == (frozenset(), None)
        assert str(waiting.fault).startswith(
            f"1 change failed in an earlier run, to be tried again in {60 - seconds} s (srm-control apply: at once), "
            "the first: FAILED: create topic a.orders-eu on b: "
        )
        record = runs.copy(f"r{seconds}")
        assert [note for note in record.notes if "needs the permission Create on topic 'a.orders-eu'" in note]
    assert plans(source) == 0
    again = runs.at(60)
    assert again.due == {Job.TOPICS}
    assert plans(source) == 1
    assert "FAILED: create topic a.orders-eu" in str(again.fault)
    assert runs.at(120).due == frozenset()
    refusal.end()
    last = runs.at(180)
    assert last.due == {Job.TOPICS}
    assert last.fault is None
    assert runs.copy("r180").records == 1
    assert (runs.at(190).due, runs.at(190).fault) == (frozenset(), None)


def test_what_is_done_meanwhile_does_not_hide_it(runs: Runs) -> None:
    sides = runs.sides
    sides.source.create_topic("orders")
    runs.at(0)
    sides.set(sync_topic_configs_interval_seconds=45.0)
    sides.source.grow_topic("orders", 2)
    with sides.target.refuse("CreatePartitions", TOPIC_AUTHORIZATION_FAILED):
        assert "grow topic a.orders" in str(runs.at(1).fault)
        configs = runs.at(50)
    assert configs.due == {Job.CONFIGS}
    assert "1 change failed in an earlier run, to be tried again in 11 s" in str(configs.fault)
    assert configs.plan is not None
    (notice,) = configs.plan.notices
    assert notice.startswith("not tried again yet: FAILED: grow topic a.orders on b from 1 to 2 partitions")
    with FlowState(sides.flow) as state:
        assert notice in (state.read("plan") or {})["notices"]
    assert runs.at(61).fault is None
    assert sides.target.topics()["a.orders"] == 2


def test_a_new_topic_appears_as_soon_as_without_a_failure(runs: Runs) -> None:
    """In each run, where the interval says so; and after an edit of the filters."""
    sides = runs.sides
    sides.set(refresh_topics_interval_seconds=0.0)
    sides.source.create_topic("orders")
    with sides.target.refuse("CreateTopics", TOPIC_AUTHORIZATION_FAILED, when="a.orders"):
        for seconds in (0, 1, 2):
            assert "create topic a.orders on b" in str(runs.at(seconds).fault)
        sides.source.create_topic("orders-eu")
        assert "create topic a.orders on b" in str(runs.at(3).fault)
        assert "a.orders-eu" in sides.target.topics()
        sides.set(refresh_topics_interval_seconds=600.0, topics=("orders.*", "ledger"))
        sides.source.create_topic("ledger")
        assert "create topic a.orders on b" in str(runs.at(4).fault)
        assert "a.ledger" in sides.target.topics()
        assert runs.at(5).due == frozenset()


def test_settings_that_cannot_be_altered_are_no_reason_to_look_for_topics(runs: Runs) -> None:
    sides = runs.sides
    sides.source.create_topic("orders")
    runs.at(0)
    sides.source.topic_config("orders")["retention.ms"] = "5000000"
    with sides.target.refuse("IncrementalAlterConfigs", TOPIC_AUTHORIZATION_FAILED):
        assert "alter topic a.orders on b" in str(runs.at(600).fault)
        assert runs.at(630).due == frozenset()
    assert runs.at(660).due == {Job.CONFIGS}
    assert runs.at(661).fault is None
    assert sides.target.topic_config("a.orders")["retention.ms"] == "5000000"
