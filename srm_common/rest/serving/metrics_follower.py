"""A service without Airflow's history takes the raw metrics that flows write to Kafka (``metrics.topic.enabled``)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from srm_common.domain.flow import FlowSettings
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.monitoring.raw_metrics import follow_metrics_topic

#: A cluster that does not answer must not keep the service from ending.
_PATIENCE_SECONDS = 5.0


class MetricsFollower:
    """Follows, in a thread of its own, the topics of ``flows`` that have one."""

    def __init__(self, flows: Iterable[FlowSettings], store: MetricsStore) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=follow_metrics_topic, args=(flows, store, self._ended), name="srm-metrics", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(_PATIENCE_SECONDS)
