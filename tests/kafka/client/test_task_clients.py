"""How many clients of librdkafka a task makes: an admin client of each cluster whose topics it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.kafka.client.librdkafka import admin_client
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import flow_between, write
from tests.slot_worker import here

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
    found = Made()

    def admin(cluster: ClusterSettings, **more: Any) -> Any:
        found[f"admin {cluster.alias}"] += 1
        return admin_client(cluster, **more)

    monkeypatch.setattr("srm_common.kafka.client.links.shared_admin.admin_client", admin)
    return found


def test_only_a_task_that_changes_a_cluster_makes_a_client(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, made: Made
) -> None:
    flow = flow_between(
        source_kafka, target_kafka, name, groups=(name,), emit_heartbeats=True, heartbeats_replication=True
    )
    source_kafka.create_topic(name, 2)
    write(source_kafka, name, [b"v"] * 10)
    with made.counting(flow) as clusters:
        refresh_topics(clusters, at_once=True)
    # It creates the copies there, and state topics on both sides.
    assert set(made.values()) == {1}
    assert f"admin {flow.target.alias}" in made

    def copy(run: str, clusters: FlowClusters) -> RunRecord:
        return replicate(clusters, RunOptions(run), here)

    with FlowClusters(flow) as clusters:
        copy("first", clusters)
    with made.counting(flow) as clusters:
        refresh_topics(clusters, at_once=True)
        emit_heartbeat(clusters)
        assert copy("next", clusters).records
        assert sync_checkpoints(clusters).offset_syncs
        assert make_report(clusters, "next").run is not None
    assert made == {}
