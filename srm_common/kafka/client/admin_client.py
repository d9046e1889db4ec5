"""librdkafka's admin client, with this project's settings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.kafka.client.librdkafka import AdminClient, KafkaError
from srm_common.kafka.client.security import librdkafka_settings

silent_logger = logging.getLogger("srm_common.kafka.librdkafka")
silent_logger.addHandler(logging.NullHandler())
silent_logger.propagate = False


def admin_client(cluster: ClusterSettings, error_cb: Callable[[KafkaError], None] = lambda error: None) -> AdminClient:
    """librdkafka's admin client, quiet; ``error_cb`` is called with errors of connections.

    KRaft brokers name any of themselves as the controller that requests go to. Where that one is gone, librdkafka waits
    for it until it hears of another; so it asks each second, and not each five minutes.
    """
    config: dict[str, Any] = {
        "topic.metadata.refresh.interval.ms": "1000",
        **librdkafka_settings(cluster, Client.ADMIN),
        "error_cb": error_cb,
        "log_level": 0,
    }
    return AdminClient(config, logger=silent_logger)


class SharedAdmin:
    """The admin client of one cluster that all adapters of a task share: made by the first use, safe in many threads.

    ``last_fault`` is what was wrong with its connections last: a refused login shows as silence in an answer.
    """

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._client: AdminClient | None = None
        self.last_fault: KafkaError | None = None

    @property
    def client(self) -> AdminClient:
        with self._lock:
            if self._client is None:
                self._client = admin_client(self._cluster, error_cb=self._remember)
            return self._client

    def _remember(self, error: KafkaError) -> None:
        self.last_fault = error
