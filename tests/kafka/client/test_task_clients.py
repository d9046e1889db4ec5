"""How many clients of librdkafka a task makes: an admin client of each cluster that it asks for topics or groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.kafka.client import librdkafka
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import flow_between, write

pytestmark = pytest.mark.kafka


class Made(Counter[str]):
    """Clients that were made, by kind and cluster."""

    @contextmanager
    def counting(self, flow: FlowSettings) -> Iterator[FlowClusters]:
        self.clear()
        with FlowClusters(flow) as clusters:
            yield clusters


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    found, genuine = Made(), librdkafka.admin_client

    def admin(cluster: ClusterSettings, **more: Any) -> Any:
        found[f"admin {cluster.alias}"] += 1
        return genuine(cluster, **more)

    monkeypatch.setattr(librdkafka, "admin_client", admin)
    return found


def test_a_task_makes_one_client_of_each_cluster(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, made: Made
) -> None:
    # Offsets of groups are read by a client of their own; there are none of this flow.
    flow = flow_between(
        source_kafka, target_kafka, name, groups=(name,), emit_heartbeats=True, heartbeats_replication=True
    )
    a, b = flow.name.source, flow.name.target
    source_kafka.create_topic(name, 2)
    write(source_kafka, name, [b"v"] * 10)
    options = RunOptions("first")
    refresh_topics(flow, at_once=True)
    replicate(flow, options, lambda job, tasks: [copy_slot(job, task) for task in tasks])

    with made.counting(flow) as clusters:
        refresh_topics(clusters, at_once=True)
    both = {f"admin {a}": 1, f"admin {b}": 1}
    assert made == both

    with made.counting(flow) as clusters:
        emit_heartbeat(clusters)
    assert made == both

    with made.counting(flow) as clusters:
        record = replicate(clusters, RunOptions("next"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    assert record.records
    assert made == both

    with made.counting(flow) as clusters:
        report = sync_checkpoints(clusters)
    assert report.offset_syncs
    assert made == both

    with made.counting(flow) as clusters:
        assert make_report(clusters, "next").run is not None
    assert made == {f"admin {b}": 1}
