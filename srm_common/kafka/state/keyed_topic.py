"""A compacted topic of JSON records by key: what flows remember, registries, logs of changes, services.

All records are in partition 0, so they are ordered. The last record of a key counts; a tombstone removes it.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.document import NewerDocument
from srm_common.domain.topics.state_topics import StateTopic
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.state_reader import LogRecord
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.wire.state.plain_records import NewRecord

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
#: The version in every record of these topics; the other fields are up to each owner.
VERSION = 1
_JSON: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}


class KeyedTopic(Closing):
    """One such topic of one cluster; connections are made when they are needed. Threads may share it.

    Args:
        writes_to: the cluster as records are written to it, where that needs other client settings than reading.
        timeout_seconds: how long one request may take.
        patience_seconds: as :class:`StateReader` and :class:`StateWriter` take it.
        remedy: what a tombstone achieves for a record that cannot be read, for errors.
        clients: those of the cluster, where they are shared; they stay open.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from reading and writing, as the cluster answers.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        topic: str,
        *,
        writes_to: ClusterSettings | None = None,
        timeout_seconds: float = 30.0,
        patience_seconds: float | None = None,
        remedy: str = "to drop it",
        clients: ClusterClients | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = topic
        self._clients = clients or ClusterClients(cluster)
        self._own = clients is None
        self._writes_to = self._clients if writes_to is None else ClusterClients(writes_to)
        self._lock = threading.Lock()
        self._timeout = timeout_seconds
        self._patience = patience_seconds
        self._remedy = remedy
        self._newest: dict[bytes, LogRecord] = {}
        self._end = 0
        self._topic_id: uuid.UUID | None = None

    def close(self) -> None:
        if self._writes_to is not self._clients:
            self._writes_to.close()
        if self._own:
            self._clients.close()

    def newest(self, stable_within_seconds: float | None = None) -> list[LogRecord] | None:
        """The last record of each key in the order of the log, without tombstones; None where the topic does not exist.

        Only what was written since the last call is read.

        Args:
            stable_within_seconds: how long to wait until no open transaction hides what others have written since; by
                default what can be read at once.

        Raises:
            StateUnavailable: a transaction is still open.
        """
        with self._lock:
            reader = self._clients.reader.with_patience(timeout_seconds=self._timeout, patience_seconds=self._patience)
            with reader.session() as session:
                if not session.partitions(self.name):
                    return None
                topic_id = session.topic_id(self.name)
                if stable_within_seconds is None:
                    ends = session.offsets(self.name, [0], LATEST)
                else:
                    ends = session.stable_ends(self.name, [0], stable_within_seconds)
                if topic_id != self._topic_id or ends[0] < self._end:
                    self._newest, self._end = {}, 0  # the topic was deleted and created again
                    self._topic_id = topic_id
                records = session.last_records(self.name, {0: self._end}, ends)
            for key, record in records.items():
                self._newest.pop(key, None)
                if record.value is not None:
                    self._newest[key] = record
            self._end = ends[0]
            return list(self._newest.values())

    def ensure(self, topic: StateTopic) -> None:
        """Create or check the topic where records are written. Raises as :func:`ensure_topics`."""
        cluster, admin = self._writes_to.cluster, self._writes_to.admin
        for note in ensure_topics(cluster, [topic], timeout_seconds=self._timeout, admin=admin)[1]:
            _LOG.info("%s", note)

    def parse(self, record: LogRecord, parse: Callable[[dict[str, Any]], T]) -> T:
        """The content of a record of :meth:`newest`. Raises as :func:`decode`."""
        return decode(record.value or b"", parse, self.place(record), self._remedy)

    def place(self, record: LogRecord) -> str:
        """Where a record is, for errors."""
        key = (record.key or b"").decode(errors="backslashreplace")
        return place_of(key, record.offset, self.name, self.cluster.alias)

    def record(self, key: str, document: Mapping[str, Any] | None) -> NewRecord:
        """The record that stores ``document`` under ``key``; None makes it a tombstone."""
        return NewRecord(self.name, 0, key.encode(), None if document is None else encode(document))

    def write(self, doing: str, records: Iterable[NewRecord]) -> None:
        """Write what :meth:`record` made; returns when all in-sync replicas have it.

        Args:
            doing: what is being done, for errors, e.g. ``"write to srm-control.internal"``.
        """
        seconds = self._timeout if self._patience is None else self._patience
        self._writes_to.writer(repeats_matter=False, timeout_seconds=seconds).write(doing, records)


def encode(document: Mapping[str, Any]) -> bytes:
    """The value of a record."""
    return json.dumps({"version": VERSION, **document}, **_JSON).encode()


def encode_key(parts: Iterable[str]) -> str:
    """A key that has several parts."""
    return json.dumps(list(parts), **_JSON)


def decode(value: bytes, parse: Callable[[dict[str, Any]], T], place: str, remedy: str = "to drop it") -> T:
    """What ``parse`` makes of the document of a value, which it gets without its version.

    Args:
        parse: raises CorruptRecord, ValueError, TypeError, KeyError or OverflowError for a document that is not one of
            its own.
        place: where the record is, in the form of :func:`place_of`.

    Raises:
        CorruptRecord: it is not such a document, or one of another version; names offset and remedy.
    """
    try:
        document = json.loads(value)
        if not isinstance(document, dict):
            raise TypeError("no JSON object")
        version = document.pop("version")
        if version == VERSION:
            return parse(document)
    except NewerDocument as error:
        raise CorruptRecord(f"{place} cannot be read: {error}; run with the newer software that wrote it") from error
    except (CorruptRecord, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        reason = str(error) if isinstance(error, CorruptRecord) else repr(error)
        raise CorruptRecord(f"{place} cannot be read: {reason}; write a tombstone with that key {remedy}") from error
    raise CorruptRecord(
        f"{place} has version {version}, only {VERSION} is known; run with the newer software that wrote it"
    )


def place_of(key: str, offset: int, topic: str, cluster: str) -> str:
    """Where a record is, for errors."""
    return f"'{key}' at offset {offset} of {topic} on cluster '{cluster}'"
