"""JSON records in ``srm-flow-state.<source>.internal``: what a flow remembers besides its progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.errors import CorruptRecord, StateUnavailable
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.keyed_topic import KeyedTopic, decode
from srm_common.wire.state.plain_records import NewRecord

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class FlowState(Closing):
    """The store of one flow. Keys are those of :class:`srm_common.domain.flow.names.StateKey`; values are JSON. The
    last write of a key wins. A context manager; connections are made when they are needed.

    Args:
        patience_seconds: for a run, whose topic exists: how long the target may take to answer. By default as long as
            a user of a command should wait; a topic that does not exist is then taken as empty.
        clients: those of the target, where they are shared; they stay open.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from read and write, as the target answers.
    """

    def __init__(
        self, flow: FlowSettings, *, patience_seconds: float | None = None, clients: ClusterClients | None = None
    ) -> None:
        self._patience = patience_seconds
        self._topic = KeyedTopic(
            flow.target,
            names.flow_state_topic(flow.name.source),
            timeout_seconds=flow.request_seconds,
            patience_seconds=patience_seconds,
            clients=clients,
        )

    def close(self) -> None:
        self._topic.close()

    def read(self, key: str, *, stable_within_seconds: float | None = None) -> Any | None:
        """The value last written for ``key``, None when there is none.

        Args:
            stable_within_seconds: how long to wait for transactions of runs that hide what was written after they
                began; by default not at all.

        Raises:
            CorruptRecord: the record is not ours to read.
            StateUnavailable: a transaction is still open.
        """
        return self.read_all(key, stable_within_seconds=stable_within_seconds).get(key)

    def read_all(
        self, *keys: str, prefix: str | None = None, stable_within_seconds: float | None = None
    ) -> dict[str, Any]:
        """The values of ``keys`` and of keys that begin with ``prefix``, by one read; without any, of every key."""
        records = self._topic.newest(stable_within_seconds)
        if records is None and self._patience is not None:
            # A run that believed this would overwrite what earlier runs remembered.
            raise StateUnavailable(
                f"cluster '{self._topic.cluster.alias}' does not show state topic {self._topic.name} any more; run "
                f"again when it does, or after the topic was restored"
            )
        out: dict[str, Any] = {}
        for record in records or ():
            key = (record.key or b"").decode(errors="backslashreplace")
            if key in keys or (key.startswith(prefix) if prefix is not None else not keys):
                out[key], _ = flow_value(record.value or b"", self._topic.place(record))
        return out

    def write(self, key: str, value: Any) -> None:
        """Store ``value``; returns when all in-sync replicas have it. ``None`` removes the key."""
        self._topic.write(f"write '{key}' to state topic {self._topic.name}", [self.record(key, value)])

    def write_all(self, values: Mapping[str, Any]) -> None:
        """The same for several keys at once."""
        records = [self.record(key, value) for key, value in values.items()]
        self._topic.write(f"write to state topic {self._topic.name}", records)

    def record(self, key: str, value: Any) -> NewRecord:
        """What :meth:`write` writes, for callers that write it in a transaction."""
        if value is None:
            return self._topic.record(key, None)
        return self._topic.record(key, {"written_ms": int(time.time() * 1000), "value": value})


def kept_by_flow(
    cluster: ClusterSettings,
    source: str,
    prefix: str,
    parse: Callable[[Any], T],
    *,
    timeout_seconds: float,
    clients: ClusterClients,
) -> list[T]:
    """What the flow from ``source`` into ``cluster`` keeps under keys with ``prefix``, for other flows. A value that
    cannot be read is reported to the log and left out.

    Args:
        parse: what reads a value; raises ValueError, TypeError or KeyError for one that is none of its own.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    found = []
    name = names.flow_state_topic(source)
    with KeyedTopic(cluster, name, timeout_seconds=timeout_seconds, clients=clients) as topic:
        for record in topic.newest() or ():
            if (record.key or b"").startswith(prefix.encode()):
                try:
                    found.append(topic.parse(record, lambda document: parse(document["value"])))
                except CorruptRecord as error:
                    _LOG.warning("%s", error)
    return found


def flow_value(value: bytes, place: str) -> tuple[Any, int]:
    """What a record's value holds, and when it was written (epoch milliseconds).

    Args:
        place: where the record lies, for errors, as :func:`srm_common.kafka.state.keyed_topic.place_of` says it.

    Raises:
        CorruptRecord: the record is not ours to read.
    """
    return decode(value, lambda document: (document["value"], int(document.get("written_ms", 0))), place)
