"""The heartbeats that a flow has copied, and their latency."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.heartbeats import Heartbeat, ancestry
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport, Hop, make_heartbeat_report
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import ConfigError, SrmError, UnreachableCluster
from srm_common.kafka.state.heartbeat_log import arrival_ms, find_heartbeat, newest_heartbeat
from srm_common.kafka.state.state_reader import StateReader
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.open_cluster import OpenCluster

#: For all clusters upstream together: every run asks them, and its report can do without them.
_UPSTREAM_SECONDS = 10.0
_AT_ONCE = 16


def heartbeat_report(
    flow: FlowSettings | FlowClusters,
    *,
    by_hop: bool = False,
    run: RunRecord | None = None,
    source_fault: str | None = None,
) -> HeartbeatReport:
    """The newest heartbeat in each heartbeats topic that the flow has copied; queries only the target, and reports
    topics that it may not read.

    Args:
        by_hop: with what :func:`heartbeats_by_hop` asks of the clusters between, unless of the source for
            ``source_fault``.
        run: the newest run of the flow.
    """
    with clusters_of(flow) as clusters:
        try:
            if by_hop:
                return heartbeats_by_hop(clusters, run, source_fault)
            return make_heartbeat_report(clusters.flow, clusters.now_ms(), _copied(clusters), run=run)
        except SrmError as error:
            return make_heartbeat_report(clusters.flow, clusters.now_ms(), fault=str(error))


def heartbeats_by_hop(
    flow: FlowSettings | FlowClusters, run: RunRecord | None = None, source_fault: str | None = None
) -> HeartbeatReport:
    """The same, with the latency of each hop: queries the clusters in between, if the configuration has them; if one
    cannot answer, its hop has a fault.

    Args:
        run: the newest run of the flow.
        source_fault: why the flow's source is not to be asked: it could not be asked a moment ago.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        copied = _copied(clusters)
        stops = {one: [] if one.beat is None else _stops(clusters.flow, one, one.beat) for one in copied}
        arrivals = _arrivals(clusters, (stop for way in stops.values() for stop in way), source_fault)
        traced = [
            one if one.beat is None else _with_hops(one, one.beat, {stop.alias: arrivals[stop] for stop in stops[one]})
            for one in copied
        ]
        return make_heartbeat_report(clusters.flow, clusters.now_ms(), traced, run=run)


def _copied(clusters: FlowClusters) -> list[CopiedHeartbeat]:
    flow, target = clusters.flow, clusters.target
    policy, source = flow.policy, flow.name.source
    out = []
    for topic in target.admin.topics().partitions:
        if not policy.is_heartbeats_topic(topic) or policy.topic_source(topic) != source:
            continue
        upstream = policy.upstream_topic(topic)
        # A user's topic may be named like one; it may be large.
        if upstream is None or not names.has_heartbeats(flow, upstream):
            continue
        path = (*reversed(ancestry(policy, topic)), flow.name.target)
        logged = newest_heartbeat(target.reader, topic, clusters.now_ms())
        arrived = None
        if logged is not None:
            arrived = arrival_ms(target.reader, source, upstream, logged.offset, logged.beat.timestamp_ms)
        out.append(CopiedHeartbeat(topic, path, None if logged is None else logged.beat, arrived))
    return out


@dataclass(frozen=True, slots=True)
class _Stop:
    """A cluster between, where ``beat`` came from cluster ``before`` into ``topic``."""

    alias: str
    before: str
    topic: str
    beat: Heartbeat


def _stops(flow: FlowSettings, copied: CopiedHeartbeat, beat: Heartbeat) -> list[_Stop]:
    """Back from the target."""
    found = []
    topic = copied.topic
    for alias, before in zip(copied.path[-2:0:-1], copied.path[-3::-1], strict=False):
        upstream = flow.policy.upstream_topic(topic)
        assert upstream is not None, "a path is as long as its topic's ancestry"
        topic = upstream
        found.append(_Stop(alias, before, topic, beat))
    return found


def _arrivals(clusters: FlowClusters, stops: Iterable[_Stop], source_fault: str | None) -> dict[_Stop, int | str]:
    """When each came, or why that is not known. All clusters are asked at the same time, each over one connection, and
    for :data:`_UPSTREAM_SECONDS` together: one that does not respond keeps nobody waiting for the others."""
    by_alias: dict[str, list[_Stop]] = defaultdict(list)
    for stop in stops:
        by_alias[stop.alias].append(stop)
    if not by_alias:
        return {}
    # Not in the threads: they need Airflow's connections.
    known = {alias: _reached(clusters.flow, alias) for alias in by_alias}
    deadline = time.monotonic() + _UPSTREAM_SECONDS

    def ask(alias: str) -> dict[_Stop, int | str]:
        there = by_alias[alias]
        reached = known[alias]
        if isinstance(reached, str):
            return dict.fromkeys(there, f"is unknown: {reached}")
        if alias == clusters.source.alias:
            if source_fault is not None:
                return dict.fromkeys(there, f"is unknown: {source_fault}")
            return _asked(clusters.flow, clusters.source, there, deadline)
        with OpenCluster(reached, request_seconds=_UPSTREAM_SECONDS) as opened:
            return _asked(clusters.flow, opened, there, deadline)

    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(by_alias)), thread_name_prefix="srm-heartbeats") as pool:
        return {stop: came for found in pool.map(ask, by_alias) for stop, came in found.items()}


def _asked(flow: FlowSettings, cluster: OpenCluster, stops: list[_Stop], deadline: float) -> dict[_Stop, int | str]:
    """As :func:`_arrivals`, of one cluster."""
    found: dict[_Stop, int | str] = {}
    for stop in stops:
        rest = round(deadline - time.monotonic(), 1)
        if rest <= 0:
            found[stop] = f"is unknown: '{cluster.alias}' was not asked in time"
            continue
        try:
            found[stop] = _arrival(flow, cluster.clients.reader.with_patience(timeout_seconds=rest), stop)
        except UnreachableCluster as error:
            return dict.fromkeys(stops, f"is unknown: {error}") | found
        except SrmError as error:
            found[stop] = f"is unknown: {error}"
    return found


def _arrival(flow: FlowSettings, reader: StateReader, stop: _Stop) -> int | str:
    upstream = flow.policy.upstream_topic(stop.topic)
    assert upstream is not None
    heartbeat = find_heartbeat(reader, stop.topic, stop.beat) if reader.partitions(stop.topic) else None
    if heartbeat is None:
        return f"is unknown: {stop.topic} on '{stop.alias}' no longer has the heartbeat"
    arrived = arrival_ms(reader, stop.before, upstream, heartbeat.offset, stop.beat.timestamp_ms)
    return f"is unknown: the offset map on '{stop.alias}' has no entry" if arrived is None else arrived


def _with_hops(copied: CopiedHeartbeat, beat: Heartbeat, arrivals: Mapping[str, int | str]) -> CopiedHeartbeat:
    """``copied`` with its hops.

    Args:
        arrivals: when it came to each cluster between, or why that is not known, by alias.
    """
    last = "is unknown: the offset map does not have it" if copied.arrived_ms is None else copied.arrived_ms
    came_to = {copied.origin: beat.timestamp_ms, **arrivals, copied.path[-1]: last}
    hops = []
    for source, target in pairwise(copied.path):
        left, came = came_to[source], came_to[target]
        if isinstance(came, int) and isinstance(left, int):
            hops.append(Hop(source, target, came - left))
        else:
            fault = came if isinstance(came, str) else left
            hops.append(Hop(source, target, fault=str(fault)))
    return replace(copied, by_hop=tuple(hops))


def _reached(flow: FlowSettings, alias: str) -> ClusterSettings | str:
    """How to reach a cluster of the configuration, or why that is not known."""
    try:
        return flow.cluster(alias) or f"'{alias}' is not in the configuration"
    except ConfigError as error:
        return str(error)
