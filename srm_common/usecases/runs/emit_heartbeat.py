"""Write a heartbeat of a flow to its clusters."""

from __future__ import annotations

import logging
import threading
from typing import Self

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat, beat_seconds
from srm_common.domain.topics.state_topics import Location, StateTopic, written_heartbeats
from srm_common.errors import AccessDenied, ClusterError, SrmError, UnreachableCluster
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.wire.state.mm2 import encode_heartbeat
from srm_common.wire.state.plain_records import NewRecord

_LOG = logging.getLogger(__name__)


def emit_heartbeat(flow: FlowSettings | FlowClusters) -> Heartbeat:
    """Write one of MirrorMaker 2's heartbeats to each cluster of ``heartbeats.topic.location``, creating the topic
    where it is missing. A cluster that cannot be written to does not keep the other one from getting its heartbeat.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    with clusters_of(flow) as clusters:
        return HeartbeatWriter(clusters).beat()


class HeartbeatWriter:
    """Writes heartbeats of one flow."""

    def __init__(self, clusters: FlowClusters) -> None:
        self._clusters = clusters
        self._writers: dict[Location, StateWriter] = {}

    def beat(self) -> Heartbeat:
        """Write one heartbeat. Raises as :func:`emit_heartbeat`."""
        flow = self._clusters.flow
        beat = Heartbeat(flow.name.source, flow.name.target, self._clusters.now_ms())
        key, value = encode_heartbeat(beat)
        faults: list[SrmError] = []
        for topic in written_heartbeats(flow):
            try:
                record = NewRecord(topic.name, 0, key, value, beat.timestamp_ms)
                self._writer(topic).write(f"write a heartbeat of flow {flow.name}", [record])
            except AccessDenied as error:
                faults.append(error if topic.location == "target" else _denied(error))
            except SrmError as error:
                faults.append(error)
        for other in faults[1:]:
            faults[0].add_note(str(other))
        if faults:
            raise faults[0]
        return beat

    def _writer(self, topic: StateTopic) -> StateWriter:
        if topic.location not in self._writers:
            cluster = self._clusters.target if topic.location == "target" else self._clusters.source
            try:
                cluster.ensure([topic])
            except UnreachableCluster:
                raise
            except ClusterError as error:
                # A topic of others may be written to, even if it may not be described or altered.
                if not cluster.reader.partitions(topic.name):
                    raise
                _LOG.warning("%s: heartbeats are written all the same: %s", self._clusters.flow.name, error)
            self._writers[topic.location] = cluster.writer(repeats_matter=False)
        return self._writers[topic.location]


class SteadyHeartbeats:
    """A context manager around a long run: heartbeats at the pace of the flow's schedule, as if it ran that often.

    The first comes one period after the start, so that a short run writes none. What cannot be written is logged and
    tried again a period later; that heartbeats are missing shows in the flow's status.
    """

    def __init__(self, clusters: FlowClusters) -> None:
        self._clusters = clusters
        self._flow = clusters.flow
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="srm-heartbeats", daemon=True)

    def __enter__(self) -> Self:
        if self._flow.emit_heartbeats:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        writer = HeartbeatWriter(self._clusters)
        while not self._ended.wait(beat_seconds(self._flow)):
            try:
                writer.beat()
            except SrmError as fault:
                _LOG.warning("%s: no heartbeat could be written: %s", self._flow.name, fault)


def _denied(error: AccessDenied) -> AccessDenied:
    return AccessDenied(f"{error}, or set heartbeats.topic.location = target")
