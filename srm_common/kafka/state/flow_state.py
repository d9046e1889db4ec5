"""JSON records in ``srm-flow-state.<source>.internal``: what a flow remembers besides its progress."""

from __future__ import annotations

import json
import time
from typing import Any

from srm_common.domain.flow import FlowSettings, names
from srm_common.errors import CorruptRecord, StateUnavailable
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.librdkafka import LATEST
from srm_common.kafka.state.state_reader import LogRecord, StateReader, last_of_each_key
from srm_common.kafka.state.state_writer import NewRecord, StateWriter

_VERSION = 1


class FlowState(Closing):
    """The store of one flow. Keys are short words ("run", "slots", "plan", "topics"); values what JSON can say.

    The last write of a key wins. A context manager; connections are made when they are needed.

    Args:
        patience_seconds: for a run, whose topic exists: how long the target may take to answer. By default as long as
            whoever waits for a command likes, and a topic that does not exist holds nothing.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from read and write, as the target answers.
    """

    def __init__(self, flow: FlowSettings, *, patience_seconds: float | None = None) -> None:
        self._cluster = flow.target
        self._patience = patience_seconds
        self._topic = names.flow_state_topic(flow.name.source)
        self._reader: StateReader | None = None
        self._writer: StateWriter | None = None
        #: The last record of each key, as far as was read.
        self._seen: dict[bytes, LogRecord] = {}
        self._end = 0

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._writer = None

    def read(self, key: str) -> Any | None:
        """The value last written for ``key``, None when there is none.

        Raises:
            CorruptRecord: the record is not ours to read.
        """
        return self.read_all(key).get(key)

    def read_all(self, *keys: str, prefix: str | None = None) -> dict[str, Any]:
        """Those of ``keys`` that have a value, and what begins with ``prefix``; all at once. Without any: every key."""
        if self._reader is None:
            self._reader = StateReader(self._cluster, patience_seconds=self._patience)
        out: dict[str, Any] = {}
        if not self._reader.partitions(self._topic):
            if self._patience is not None:
                # A run that believed it would write what it remembers over what was remembered.
                raise StateUnavailable(
                    f"cluster '{self._cluster.alias}' does not show state topic {self._topic} any more; run again when "
                    f"it does, or after the topic was restored"
                )
            return out
        ends = self._reader.offsets(self._topic, [0], LATEST)
        if ends[0] < self._end:
            self._seen, self._end = {}, 0  # the topic was made anew
        self._seen |= last_of_each_key(self._reader.read(self._topic, {0: self._end}, ends))
        self._end = ends[0]
        for raw, record in self._seen.items():
            key = raw.decode(errors="backslashreplace")
            wanted = key in keys or (key.startswith(prefix) if prefix is not None else not keys)
            if record.value is not None and wanted:
                out[key], _ = decoded(self._cluster.alias, self._topic, key, record.offset, record.value)
        return out

    def write(self, key: str, value: Any) -> None:
        """Store ``value``; returns when all in-sync replicas have it. ``None`` removes the key."""
        if self._writer is None:
            self._writer = StateWriter(self._cluster, patience_seconds=self._patience, repeats_matter=False)
        self._writer.write(f"write '{key}' to state topic {self._topic}", [self.record(key, value)])

    def record(self, key: str, value: Any) -> NewRecord:
        """What :meth:`write` writes, for who writes it in a transaction."""
        payload = None
        if value is not None:
            document = {"version": _VERSION, "written_ms": int(time.time() * 1000), "value": value}
            payload = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return NewRecord(self._topic, 0, key.encode(), payload)


def decoded(cluster: str, topic: str, key: str, offset: int, value: bytes) -> tuple[Any, int]:
    """A record's value, and when it was written (epoch milliseconds).

    Raises:
        CorruptRecord: the record is not ours to read.
    """
    try:
        document = json.loads(value)
        version = document["version"]
        found = document["value"], int(document.get("written_ms", 0))
    except (UnicodeDecodeError, ValueError, TypeError, KeyError) as error:
        raise CorruptRecord(
            f"'{key}' at offset {offset} of {topic} on cluster '{cluster}' is not one of our records; write a "
            f"tombstone with that key to drop it"
        ) from error
    if version != _VERSION:
        raise CorruptRecord(
            f"'{key}' at offset {offset} of {topic} on cluster '{cluster}' has version {version}, only {_VERSION} is "
            f"known; run with the newer software that wrote it"
        )
    return found
