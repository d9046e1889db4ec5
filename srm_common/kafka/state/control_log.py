"""``srm-control.internal`` on the target: who changed what about a flow, and when.

Every record has a key of its own, so compaction keeps all of them. One partition, so that they have one order.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import fields
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import ControlRecord, standing
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.domain.topics.state_topics import control_log
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.state_reader import LogRecord, StateReader, last_of_each_key
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.kafka.state.state_writer import NewRecord, StateWriter

_VERSION = 1
_FIELDS = frozenset(field.name for field in fields(ControlRecord))


class ControlLog(Closing):
    """The log as one flow sees it; a context manager. The topic is made by the first record.

    Args:
        writes_to: the target as records are written to it, where that needs other client settings than reading.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the target answers.
        StateTopicInvalid: from :meth:`append`, the topic exists and cannot be used.
    """

    def __init__(self, flow: FlowSettings, *, writes_to: ClusterSettings | None = None) -> None:
        self._flow = flow
        self._writes_to = writes_to or flow.target
        self._reader: StateReader | None = None
        #: One sentence for each record met that cannot be read; the others count all the same.
        self.unreadable: list[str] = []

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def records(self, kind: str | None = None) -> list[ControlRecord]:
        """This flow's records, the oldest first; only those of ``kind`` where one is named."""
        if self._reader is None:
            self._reader = StateReader(self._flow.target, timeout_seconds=self._flow.admin_timeout_ms / 1000)
        if not self._reader.partitions(CONTROL_TOPIC):
            return []
        self.unreadable = []
        decoded = (self._decoded(found) for found in last_of_each_key(self._reader.read(CONTROL_TOPIC)).values())
        return [
            record
            for record in decoded
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
        document = {"version": _VERSION, **record.to_json()}
        payload = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        ensure_topics(self._writes_to, [control_log(self._flow)])
        StateWriter(self._writes_to).write(
            f"write to {CONTROL_TOPIC}", [NewRecord(CONTROL_TOPIC, 0, record.key.encode(), payload)]
        )
        return record

    def _decoded(self, found: LogRecord) -> ControlRecord | None:
        if found.value is None:
            return None
        try:
            document = json.loads(found.value)
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']} is not known")
            return ControlRecord(**{name: value for name, value in document.items() if name in _FIELDS})
        except (UnicodeDecodeError, ValueError, TypeError, KeyError) as error:
            self.unreadable.append(
                f"the record at offset {found.offset} of {CONTROL_TOPIC} on cluster '{self._flow.target.alias}' "
                f"cannot be read: {error!r}"
            )
            return None
