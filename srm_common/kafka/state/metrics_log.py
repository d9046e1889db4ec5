"""Raw metrics in ``srm-metrics.<source>.internal``: reports of runs in order of time."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.metrics.samples import ReportAssembly, report_parts
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.topics.state_topics import metrics_topic
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.wire.state.plain_records import NewRecord

#: How many records are read at a time, each of up to 1 MB.
_WINDOW = 20


def write_report(flow: FlowSettings, report: RunReport, clients: ClusterClients) -> int:
    """Append the report's parts; returns how many. Creates the topic if there is none. ``clients`` are the target's.

    Raises:
        StateTopicInvalid, UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    topic = metrics_topic(flow)
    ensure_topics(flow.target, [topic], timeout_seconds=flow.request_seconds, admin=clients.admin)
    key = report.flow.encode()
    records = [NewRecord(topic.name, 0, key, part, report.reported_ms) for part in report_parts(report)]
    return clients.writer().write(f"write metrics of flow {flow.name}", records)


class MetricsLog:
    """The reports of one flow from a time on, as they arrive.

    Args:
        since_ms: epoch milliseconds; reports of that time or before are skipped.
    """

    def __init__(self, flow: FlowSettings, since_ms: int) -> None:
        self._flow = flow
        self._topic = names.metrics_topic(flow.name.source)
        self._since_ms = since_ms
        self._next: int | None = None
        self._assembly = ReportAssembly()
        #: Unreadable records, so far.
        self.unreadable = 0

    def new_reports(self, reader: StateReader) -> Iterator[RunReport]:
        """Reports completed since the last call; none where there is no topic. ``reader`` is the target's.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: as the target answers; ask again later.
        """
        if not reader.partitions(self._topic):
            self._next = None
            return
        end = reader.offsets(self._topic, [0], LATEST)[0]
        start = self._start(reader, end)
        while start < end:
            until = min(start + _WINDOW, end)
            for record in reader.read(self._topic, {0: start}, {0: until}):
                report = self._taken(record.value)
                if report is not None:
                    yield report
            self._next = start = until

    def _start(self, reader: StateReader, end: int) -> int:
        """Where to continue. Records may have been deleted by retention, or the topic re-created."""
        first = reader.offsets(self._topic, [0], EARLIEST)[0]
        if self._next is None:
            found = reader.offsets(self._topic, [0], max(0, self._since_ms))[0]
            return end if found < 0 else found
        return first if self._next < first or self._next > end else self._next

    def _taken(self, value: bytes | None) -> RunReport | None:
        try:
            report = None if value is None else self._assembly.take(value)
        except CorruptRecord:
            self.unreadable += 1
            return None
        ours = report is not None and report.flow == str(self._flow.name) and report.reported_ms > self._since_ms
        return report if ours else None
