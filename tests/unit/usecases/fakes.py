"""Two fake clusters and a flow between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.checkpoint_report import CheckpointReport
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import Refreshed, refresh_topics
from tests.flow_settings import small_flow
from tests.slot_worker import here

TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED = 29, 30, 31


@dataclass
class Sides:
    """The clusters of a flow ``a->b``. What is asked of a cluster that is gone fails after five seconds."""

    source: FakeCluster
    target: FakeCluster
    flow: FlowSettings = field(init=False)
    _open: FlowClusters | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.flow = small_flow(
            ClusterSettings.plaintext("a", self.source.bootstrap_servers),
            ClusterSettings.plaintext("b", self.target.bootstrap_servers),
            "orders.*",
            groups=(".*",),
            emit_heartbeats=False,
            sync_topic_acls=False,
            emit_checkpoints_interval_seconds=0.0,
            admin_timeout_ms=5000,
            retry_timeout_seconds=1.0,
        )

    def set(self, **settings: Any) -> FlowSettings:
        """Change the flow."""
        self.flow = replace(self.flow, **settings)
        return self.flow

    def impatient(self) -> FlowSettings:
        """What is asked of a cluster that is gone fails after seconds from now on; whoever is there has
        that long to answer on a busy machine."""
        return self.set(admin_timeout_ms=2000)

    def clusters(self) -> FlowClusters:
        """The clusters with the flow as it is now. Its clients are the same for all steps of a test: each takes a
        twentieth of a second to connect."""
        if self._open is None:
            self._open = FlowClusters(self.flow)
        return self._open.with_flow(self.flow)

    def close(self) -> None:
        """End the clients; the next step begins with new ones, as each task does."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def refresh(self) -> Refreshed:
        return refresh_topics(self.clusters(), at_once=True)

    def run(self, run_id: str = "r", **options: Any) -> RunRecord:
        """A run whose slots are copied in this process, one after the other."""
        return replicate(self.clusters(), RunOptions(run_id, **options), here)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """What lies in a topic of the target, committed."""
        return [record.value for record in self.target.records(topic, partition)]


def properties_of(flow: FlowSettings) -> dict[str, object]:
    """A configuration file's content that gives this flow."""
    source, target = flow.name.source, flow.name.target
    replicas = (
        *("replication.factor", "offset-syncs.topic.replication.factor"),
        *(f"{kind}.storage.replication.factor" for kind in ("offset", "status", "config")),
        *(f"{kind}.topic.replication.factor" for kind in ("checkpoints", "heartbeats")),
    )
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": flow.source.bootstrap_servers,
        f"{target}.bootstrap.servers": flow.target.bootstrap_servers,
        f"{flow.name}.enabled": "true",
        f"{flow.name}.topics": ", ".join(flow.topics),
        f"{flow.name}.emit.heartbeats.enabled": "false",
        f"{flow.name}.heartbeats.replication.enabled": "false",
        f"{flow.name}.sync.topic.acls.enabled": "false",
        f"{flow.name}.retry.timeout.seconds": 1,
        **{f"{flow.name}.{key}": -1 for key in replicas},
    }


class Rounds:
    """Rounds of checkpoints with the same clients as long as the flow is the same: each takes a twentieth of a second
    to connect."""

    def __init__(self) -> None:
        self._clusters: FlowClusters | None = None

    def __call__(self, flow: FlowSettings, *, at_once: bool = False) -> CheckpointReport:
        if self._clusters is None or self._clusters.flow != flow:
            self.close()
            self._clusters = FlowClusters(flow)
        return sync_checkpoints(self._clusters, at_once=at_once)

    def close(self) -> None:
        if self._clusters is not None:
            self._clusters.close()
