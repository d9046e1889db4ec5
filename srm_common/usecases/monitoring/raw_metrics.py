"""Write raw metrics to Kafka, and read them from there into the history of another installation."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from srm_common.domain.flow import FlowSettings
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.errors import SrmError, StoreError
from srm_common.kafka.state.metrics_log import MetricsLog, write_report
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 5.0


def publish_report(flow: FlowSettings | FlowClusters, report: RunReport) -> str | None:
    """Write the report to the topic with raw metrics, where the flow has one (``metrics.topic.enabled``). Why that
    failed, in one sentence, which is logged, too: no flow depends on it."""
    settings = flow.flow if isinstance(flow, FlowClusters) else flow
    if not settings.metrics_topic:
        return None
    try:
        with clusters_of(flow) as clusters:
            write_report(settings, report, clusters.target.clients)
    except SrmError as error:
        _LOG.error("%s: the metrics of run %s are not in Kafka: %s", report.flow, report.run_id, error)
        return str(error)
    return None


def follow_metrics_topic(
    flows: Iterable[FlowSettings],
    store: MetricsStore,
    stop: threading.Event,
    *,
    every_seconds: float = _EVERY_SECONDS,
    clock: Callable[[], float] = time.time,
) -> None:
    """Take what flows write to their topics with raw metrics into ``store``, until ``stop``.

    Begins after the newest report that the store has of a flow. What a cluster or the store cannot do now is logged
    once, and tried again. ``clock`` gives epoch seconds.
    """
    followed = [_Followed(flow, store, clock) for flow in flows if flow.metrics_topic]
    while followed and not stop.is_set():
        for one in followed:
            if stop.is_set():
                return
            one.catch_up()
        stop.wait(every_seconds)


class _Followed:
    def __init__(self, flow: FlowSettings, store: MetricsStore, clock: Callable[[], float]) -> None:
        self._flow = flow
        self._store = store
        self._clock = clock
        self._log: MetricsLog | None = None
        self._fault: str | None = None

    def catch_up(self) -> None:
        try:
            log = self._log = self._log or MetricsLog(self._flow, self._newest_ms())
            with FlowClusters(self._flow) as clusters:
                for report in log.new_reports(clusters.target.reader):
                    self._store.write(report)
        except SrmError as error:
            if isinstance(error, StoreError):
                # What was read and not written is to be read again.
                self._log = None
            if str(error) != self._fault:
                _LOG.error("%s: its raw metrics cannot be followed now: %s", self._flow.name, error)
            self._fault = str(error)
        else:
            self._fault = None

    def _newest_ms(self) -> int:
        name = str(self._flow.name)
        known, now_ms = self._store.flows([name]), int(self._clock() * 1000)
        if known:
            # Not later than now, whatever the clock of its host was.
            return min(known[0].reported_ms, now_ms)
        return now_ms - self._flow.metrics_topic_retention_ms
