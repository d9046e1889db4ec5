"""Say on the target that a flow is alive."""

from __future__ import annotations

import time
from collections.abc import Callable

from srm_common.domain.flow import FlowSettings
from srm_common.domain.heartbeats import Heartbeat
from srm_common.domain.state_topics import heartbeats
from srm_common.kafka.state_topics import ensure_topics
from srm_common.kafka.state_writer import NewRecord, StateWriter
from srm_common.wire.mm2 import encode_heartbeat


def emit_heartbeat(flow: FlowSettings, now_seconds: Callable[[], float] = time.time) -> Heartbeat:
    """Write one of MirrorMaker 2's heartbeats, making the topic where it is missing. The source is not asked.

    ``now_seconds`` gives epoch seconds.

    Raises:
        StateTopicInvalid: the heartbeats topic cannot be used.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    topic = heartbeats(flow)
    ensure_topics(flow.target, [topic])
    beat = Heartbeat(flow.name.source, flow.name.target, int(now_seconds() * 1000))
    key, value = encode_heartbeat(beat)
    record = NewRecord(topic.name, 0, key, value, beat.timestamp_ms)
    StateWriter(flow.target).write(f"write a heartbeat of flow {flow.name}", [record])
    return beat
