"""Heartbeats: proof that a flow is alive, and what their topics reveal about upstream clusters.

A heartbeat is a small record in the topic ``heartbeats`` that says which flow wrote it, and when. MirrorMaker 2 writes
it to the flow's target; the flow in the other direction, or the heartbeats of a disabled one, then bring it to the
source, and data replication carries it on as ``<source>.heartbeats``. Here each flow writes to both of its clusters, as
Cloudera's Kafka operator does on the source: so every source has the topic, also where flows lead one way only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import ReplicationPolicy

#: A flow that is silent for fewer seconds than that is never called silent.
_PATIENCE_SECONDS = 60.0
#: Heartbeats that may be missing: one is on its way, one is due, two runs were slow.
_MISSING = 4


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow ``source->target`` was alive at ``timestamp_ms`` (epoch milliseconds)."""

    source: str
    target: str
    timestamp_ms: int


def ancestry(policy: ReplicationPolicy, topic: str) -> tuple[str, ...]:
    """The clusters that ``topic`` came through, nearest first; empty for a topic that is not a copy.

    It ends where an alias comes again, for policies that do not keep circles out (``MirrorClient.allSources``).
    """
    found: list[str] = []
    while True:
        source = policy.topic_source(topic)
        if source is None or source in found:
            return tuple(found)
        found.append(source)
        upstream = policy.upstream_topic(topic)
        if upstream is None:
            return tuple(found)
        topic = upstream


def hops(policy: ReplicationPolicy, heartbeat_topics: Iterable[str], alias: str) -> int:
    """How many flows lie between cluster ``alias`` and here, by the shortest way that a heartbeat came; -1 where none
    came (``MirrorClient.replicationHops``)."""
    found = (ancestry(policy, topic) for topic in heartbeat_topics)
    return min((path.index(alias) + 1 for path in found if alias in path), default=-1)


def beat_seconds(flow: FlowSettings) -> float:
    """The time between two heartbeats of a flow that runs: one a run, and one each schedule period of a long run."""
    return max(1.0, flow.emit_heartbeats_interval_seconds, flow.schedule_interval_seconds)


def silent_after_seconds(flow: FlowSettings) -> float | None:
    """From which age of the newest copied heartbeat a flow counts as silent; None where none are to be expected."""
    if not (flow.emit_heartbeats and flow.heartbeats_replication and flow.heartbeats_location != "target"):
        return None
    return max(_PATIENCE_SECONDS, _MISSING * beat_seconds(flow))
