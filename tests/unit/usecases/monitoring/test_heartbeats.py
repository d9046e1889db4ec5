"""Heartbeats of clusters further up, by hop."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from unittest.mock import ANY

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, GraphFlow
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.health.health import HealthState
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.monitoring.flow_history import NO_RUNS
from srm_common.domain.monitoring.folding import fold
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.kafka.state.heartbeat_log import LoggedHeartbeat, newest_heartbeat
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.open_cluster import OpenCluster
from srm_common.usecases.monitoring import heartbeats
from srm_common.usecases.monitoring.heartbeats import heartbeat_report, heartbeats_by_hop
from srm_common.usecases.monitoring.list_flows import status
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.wire.state.mm2 import encode_heartbeat
from tests.kafka.flows import Seen
from tests.kafka.records import plain, produce
from tests.unit.usecases.fakes import Sides

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def third_kafka() -> Iterator[FakeCluster]:
    with closing(FakeCluster().start()) as kafka:
        yield kafka


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters between that are opened."""
    found: list[str] = []

    class Seen(OpenCluster):
        def __init__(self, cluster: ClusterSettings, *, request_seconds: float) -> None:
            found.append(cluster.alias)
            super().__init__(cluster, request_seconds=request_seconds)

    monkeypatch.setattr(heartbeats, "OpenCluster", Seen)
    return found


def write_beat(kafka: FakeCluster, topic: str, source: str, target: str) -> None:
    kafka.create_topic(topic, 1, 1, {"cleanup.policy": "compact"})
    key, value = encode_heartbeat(Heartbeat(source, target, 1_700_000_000_000))
    produce(kafka, topic, 0, [Seen(key, value, (), 1_700_000_000_000)])


def diamond(sides: Sides, x: str, y: str) -> None:
    """``s`` and ``t`` lead to ``a`` by ``x`` and by ``y``, which are at these addresses."""
    at = {"x": ClusterSettings.plaintext("x", x), "y": ClusterSettings.plaintext("y", y)}
    flow = sides.set(emit_heartbeats=True, heartbeats_replication=True, aliases=("s", "t"))
    graph = tuple(GraphFlow.of(FlowName(alias, "a"), flow.policy, at[alias], flow.source) for alias in at)
    sides.set(graph=graph)
    for origin, alias in itertools.product("st", "xy"):
        write_beat(sides.source, f"{alias}.{origin}.heartbeats", origin, alias)
    sides.refresh()
    emit_heartbeat(sides.flow)
    sides.run()


def hops(report: HeartbeatReport) -> dict[str, list[str]]:
    return {one.topic: [str(hop) for hop in one.by_hop] for one in report.copied}


def test_each_cluster_between_is_opened_once_and_the_source_not_again(
    sides: Sides, third_kafka: FakeCluster, opened: list[str]
) -> None:
    diamond(sides, third_kafka.bootstrap_servers, third_kafka.bootstrap_servers)
    with FlowClusters(sides.flow) as clusters:
        assert set(hops(heartbeats_by_hop(clusters))) == {
            "a.heartbeats",
            *(f"a.{alias}.{origin}.heartbeats" for origin, alias in itertools.product("st", "xy")),
        }
    assert sorted(opened) == ["x", "y"]


def test_clusters_that_do_not_respond_are_waited_for_together(
    sides: Sides, third_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    diamond(sides, third_kafka.bootstrap_servers, NOWHERE)
    with FlowClusters(sides.flow) as clusters:
        found = hops(heartbeats_by_hop(clusters))
        assert "s.heartbeats on 'x' no longer has the heartbeat" in found["a.x.s.heartbeats"][0]
        assert all("'y' (127.0.0.1:1) is not reachable" in found[f"a.y.{origin}.heartbeats"][0] for origin in "st")
        monkeypatch.setattr(heartbeats, "_UPSTREAM_SECONDS", 0.0)
        late = hops(heartbeats_by_hop(clusters))
        assert "was not asked in time" in late["a.x.s.heartbeats"][0]
        assert late["a.heartbeats"] == found["a.heartbeats"]


@pytest.mark.usefixtures("impatient")
def test_a_report_does_not_wait_for_the_source_twice(
    sides: Sides, third_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    diamond(sides, third_kafka.bootstrap_servers, third_kafka.bootstrap_servers)
    asked: list[str] = []

    def seen(flow: object, cluster: OpenCluster, stops: list[heartbeats._Stop], deadline: float) -> dict[object, str]:
        asked.append(cluster.alias)
        return dict.fromkeys(stops, "is unknown: test")

    monkeypatch.setattr(heartbeats, "_asked", seen)
    away = replace(sides.flow, source=ClusterSettings.plaintext("a", NOWHERE), admin_timeout_ms=1500)
    with FlowClusters(away) as clusters:
        report = make_report(clusters, "fake")
    assert sorted(asked) == ["x", "y"]
    assert report.heartbeats is not None
    assert "'a' (127.0.0.1:1) is not reachable" in hops(report.heartbeats)["a.x.s.heartbeats"][1]


def test_a_flow_that_copies_nothing_but_heartbeats_is_idle(sides: Sides) -> None:
    sides.set(emit_heartbeats=True, heartbeats_replication=True)
    sides.source.create_topic("orders")
    history = NO_RUNS
    for number in range(3):
        sides.refresh()
        emit_heartbeat(sides.flow)
        record = sides.run(f"r{number}")
        emit_heartbeat(sides.flow)  # a run's is written beside it
        report = make_report(sides.flow, f"r{number}")
        history = fold(history, RunReport.from_json(json.loads(json.dumps(report.to_json()))))
        assert record.records >= 1
        verdict = judge(observe(sides.flow.name, history, sides.flow, None, report.reported_ms))
        assert verdict.health.state is HealthState.IDLE
        assert status(sides.flow).health == replace(verdict.health, cause=ANY)
    produce(sides.source, "orders", 0, plain(3))
    sides.run("r3")
    history = fold(history, make_report(sides.flow, "r3"))
    health = judge(observe(sides.flow.name, history, sides.flow, None, report.reported_ms)).health
    assert (health.state, history.records) == (HealthState.RUNNING, 3)


def test_a_heartbeat_of_a_clock_that_is_ahead_does_not_stand_for_others(sides: Sides) -> None:
    sides.set(heartbeats_replication=True, emit_heartbeats=True)
    now_ms = 1_800_000_000_000
    ahead = now_ms + 86_400_000

    def age_ms(*written_ms: int) -> int | None:
        for timestamp_ms in written_ms:
            key, value = encode_heartbeat(Heartbeat("a", "b", timestamp_ms))
            produce(sides.source, "heartbeats", 0, [Seen(key, value, (), now_ms)])
        sides.refresh()
        sides.run()
        with FlowClusters(sides.flow, clock=lambda: now_ms / 1000) as clusters:
            return heartbeat_report(clusters).age_ms

    sides.source.create_topic("heartbeats", 1, 1, {"cleanup.policy": "compact"})
    assert age_ms(ahead) == -86_400_000
    assert age_ms(now_ms - 300_000) == 300_000
    assert age_ms(now_ms + 60_000, now_ms + 60_001) == -60_000


def test_a_topic_that_is_only_named_like_heartbeats_is_not_read(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def seen(reader: StateReader, topic: str, now_ms: int) -> LoggedHeartbeat | None:
        read.append(topic)
        return newest_heartbeat(reader, topic, now_ms)

    monkeypatch.setattr(heartbeats, "newest_heartbeat", seen)
    sides.set(topics=("device.*",), emit_heartbeats=True, heartbeats_replication=True, aliases=("s",))
    sides.source.create_topic("device.heartbeats")
    write_beat(sides.source, "s.heartbeats", "s", "a")
    sides.refresh()
    emit_heartbeat(sides.flow)
    sides.run()
    copied = [one.topic for one in heartbeat_report(sides.clusters()).copied]
    assert sorted(copied) == sorted(read) == ["a.heartbeats", "a.s.heartbeats"]
