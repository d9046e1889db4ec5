"""``srm-control.internal`` on the target: who changed what in a flow, and when. Every record has its own key, so
compaction keeps all of them. A single partition keeps them in order.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.document import known_fields
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import ControlRecord, standing
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.domain.topics.state_topics import control_log
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.keyed_topic import KeyedTopic
from srm_common.kafka.state.state_reader import LogRecord


class ControlLog(Closing):
    """The log as one flow sees it; a context manager. The topic is made by the first record.

    Args:
        writes_to: the target as records are written to it, where that needs other client settings than reading.
        clients: those of the target, where they are shared; they stay open.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the target answers.
        StateTopicInvalid: from :meth:`append`, the topic exists and cannot be used.
    """

    def __init__(
        self, flow: FlowSettings, *, writes_to: ClusterSettings | None = None, clients: ClusterClients | None = None
    ) -> None:
        self._flow = flow
        self._topic = KeyedTopic(
            flow.target,
            CONTROL_TOPIC,
            writes_to=writes_to,
            timeout_seconds=flow.request_seconds,
            clients=clients,
        )
        #: One sentence for each record that cannot be read; the others are valid all the same.
        self.unreadable: list[str] = []

    def close(self) -> None:
        self._topic.close()

    def records(self, kind: str | None = None) -> list[ControlRecord]:
        """This flow's records, the oldest first; with ``kind`` only those of that kind."""
        self.unreadable = []
        return [
            record
            for record in map(self._decoded, self._topic.newest() or ())
            if record is not None and record.flow == str(self._flow.name) and kind in (None, record.kind)
        ]

    def standing(self, kind: str) -> list[ControlRecord]:
        """Those of :meth:`records` that took effect, see :func:`srm_common.domain.flow.control_record.standing`."""
        return standing(self.records(kind))

    def append(
        self,
        kind: str,
        *,
        before: Any,
        after: Any,
        who: str | None = None,
        origin: str = "",
        note: str = "",
        based_on: ControlRecord | None = None,
    ) -> ControlRecord:
        """Write a record; returns it when all in-sync replicas have it."""
        now_ms = int(time.time() * 1000)
        record = ControlRecord(
            key=f"{self._flow.name} {kind} {now_ms} {uuid.uuid4().hex[:12]}",
            kind=kind,
            flow=str(self._flow.name),
            when_ms=now_ms,
            who=who,
            before=before,
            after=after,
            origin=origin,
            note=note,
            based_on=None if based_on is None else based_on.key,
        )
        self._topic.ensure(control_log(self._flow))
        self._topic.write(f"write to {CONTROL_TOPIC}", [self._topic.record(record.key, record.to_json())])
        return record

    def _decoded(self, found: LogRecord) -> ControlRecord | None:
        try:
            return self._topic.parse(found, _control_record)
        except CorruptRecord as error:
            self.unreadable.append(str(error))
            return None


def _control_record(document: Mapping[str, Any]) -> ControlRecord:
    return ControlRecord(**known_fields(ControlRecord, document))
