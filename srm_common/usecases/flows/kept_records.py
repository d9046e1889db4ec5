"""The second copy of a flow's records of ``srm-meta.internal``, in the flow's own state: what is lost there is restored
from here, before a topic that was copied all along is taken for a new one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from srm_common.domain.flow.names import META_TOPIC, StateKey, source_of_state
from srm_common.domain.topics.state_topics import flow_state_topic
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState
from srm_common.errors import AccessDenied
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.open_cluster import OpenCluster

_LOG = logging.getLogger(__name__)


def keep_records(clusters: FlowClusters) -> None:
    """Bring the second copy up to date; what is not in ``srm-meta.internal`` any more stays in it.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    records = clusters.target.registry.read().readable.of_flow(clusters.flow.name)
    now = {
        f"{StateKey.RECORD}{topic}": record.to_json()
        for topic, record in records.items()
        if record.state is not TopicState.CLAIMED
    }
    kept = clusters.state.read_all(prefix=StateKey.RECORD)
    if changed := {key: record for key, record in now.items() if kept.get(key) != record}:
        if not kept:
            clusters.target.ensure([flow_state_topic(clusters.flow)])
        clusters.state.write_all(changed)


def with_kept(cluster: OpenCluster, topics: Iterable[str], records: TopicRecords) -> TopicRecords:
    """``records`` of a cluster, with those that its ``srm-meta.internal`` has lost. State that must not be read, or
    that cannot be, is reported to the log; what else is known decides then.

    Args:
        topics: of the cluster.

    Raises:
        UnreachableCluster, ClusterError: as the cluster answers.
    """
    kept: list[TopicRecord] = []
    for source in filter(None, map(source_of_state, sorted(topics))):
        try:
            kept += cluster.kept_by_flow(source, StateKey.RECORD, TopicRecord.from_json)
        except AccessDenied as error:
            _LOG.warning("records of flows from '%s' are known from %s only: %s", source, META_TOPIC, error)
    return records.completed(kept)
