"""The heartbeats that a flow has copied, and their latency."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat, ancestry
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport, Hop, make_heartbeat_report
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import SrmError
from srm_common.kafka.state.heartbeat_log import LoggedHeartbeat, arrival_ms, find_heartbeat, newest_heartbeat
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.open_cluster import OpenCluster

#: For a cluster upstream, which the report can do without.
_UPSTREAM_SECONDS = 10.0


def heartbeat_report(
    flow: FlowSettings | FlowClusters, *, by_hop: bool = False, run: RunRecord | None = None
) -> HeartbeatReport:
    """The newest heartbeat in each heartbeats topic that the flow has copied; queries only the target, and reports
    topics that it may not read.

    Args:
        by_hop: with what :func:`heartbeats_by_hop` asks of the clusters between.
        run: the newest run of the flow.
    """
    with clusters_of(flow) as clusters:
        try:
            if by_hop:
                return heartbeats_by_hop(clusters, run)
            copied = [one for one, _ in _copied(clusters)]
            return make_heartbeat_report(clusters.flow, clusters.now_ms(), copied, run=run)
        except SrmError as error:
            return make_heartbeat_report(clusters.flow, clusters.now_ms(), fault=str(error))


def heartbeats_by_hop(flow: FlowSettings | FlowClusters, run: RunRecord | None = None) -> HeartbeatReport:
    """The same, with the latency of each hop: queries the clusters in between, if the configuration has them; if one
    cannot answer, its hop has a fault.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        copied = _copied(clusters)
    flow = clusters.flow
    known = _clusters(flow)
    traced = [_traced(flow, known, one, logged) for one, logged in copied]
    return make_heartbeat_report(flow, clusters.now_ms(), traced, run=run)


def _copied(clusters: FlowClusters) -> list[tuple[CopiedHeartbeat, LoggedHeartbeat | None]]:
    flow, target = clusters.flow, clusters.target
    policy, source = flow.policy, flow.name.source
    out = []
    for topic in target.admin.topics().partitions:
        if not policy.is_heartbeats_topic(topic) or policy.topic_source(topic) != source:
            continue
        path = (*reversed(ancestry(policy, topic)), flow.name.target)
        logged = newest_heartbeat(target.reader, topic)
        upstream = policy.upstream_topic(topic)
        arrived = None
        if logged is not None and upstream is not None:
            arrived = arrival_ms(target.reader, source, upstream, logged.offset, logged.beat.timestamp_ms)
        out.append((CopiedHeartbeat(topic, path, None if logged is None else logged.beat, arrived), logged))
    return out


def _traced(
    flow: FlowSettings, known: Mapping[str, ClusterSettings], copied: CopiedHeartbeat, logged: LoggedHeartbeat | None
) -> CopiedHeartbeat:
    """``copied`` with its hops: walks back from the target, looking for the same heartbeat on each cluster."""
    if logged is None:
        return copied
    beat = logged.beat
    # When it came to each cluster of the path, or why that is not known.
    arrivals: dict[str, int | str] = {
        copied.origin: beat.timestamp_ms,
        flow.name.target: "is unknown: the offset map does not have it"
        if copied.arrived_ms is None
        else copied.arrived_ms,
    }
    topic = copied.topic
    for alias, before in zip(copied.path[-2:0:-1], copied.path[-3::-1], strict=False):
        upstream = flow.policy.upstream_topic(topic)
        assert upstream is not None, "a path is as long as its topic's ancestry"
        topic = upstream
        arrivals[alias] = _arrival(flow, known.get(alias), alias, before, topic, beat)
    hops = []
    for source, target in zip(copied.path, copied.path[1:], strict=False):
        left, came = arrivals[source], arrivals[target]
        if isinstance(came, int) and isinstance(left, int):
            hops.append(Hop(source, target, came - left))
        else:
            fault = came if isinstance(came, str) else left
            hops.append(Hop(source, target, fault=str(fault)))
    return CopiedHeartbeat(copied.topic, copied.path, beat, copied.arrived_ms, tuple(hops))


def _arrival(
    flow: FlowSettings, cluster: ClusterSettings | None, alias: str, before: str, topic: str, beat: Heartbeat
) -> int | str:
    """When ``beat`` came from cluster ``before`` into ``topic`` of cluster ``alias``, or why that is not known."""
    upstream = flow.policy.upstream_topic(topic)
    if cluster is None:
        return f"is unknown: '{alias}' is not in the configuration"
    assert upstream is not None
    try:
        with OpenCluster(cluster, request_seconds=_UPSTREAM_SECONDS) as opened:
            reader = opened.reader
            heartbeat = find_heartbeat(reader, topic, beat) if reader.partitions(topic) else None
            if heartbeat is None:
                return f"is unknown: {topic} on '{alias}' no longer has the heartbeat"
            arrived = arrival_ms(reader, before, upstream, heartbeat.offset, beat.timestamp_ms)
    except SrmError as error:
        return f"is unknown: {error}"
    return f"is unknown: the offset map on '{alias}' has no entry" if arrived is None else arrived


def _clusters(flow: FlowSettings) -> dict[str, ClusterSettings]:
    """Every cluster that the configuration's flows lead from or to."""
    known: dict[str, ClusterSettings] = {}
    for graph_flow in flow.graph:
        known |= {graph_flow.name.source: graph_flow.source, graph_flow.name.target: graph_flow.target}
    return known | {flow.name.source: flow.source, flow.name.target: flow.target}
