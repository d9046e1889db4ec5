"""What the contract needs of a cluster, real or fake, and waiting for what a real one shows a moment later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from confluent_kafka.admin import AdminClient

from srm_common.domain.cluster import ClusterSettings

T = TypeVar("T")
PATIENCE_SECONDS = 120.0


class Cluster(Protocol):
    """What LocalKafka and FakeCluster have in common."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def internal_servers(self) -> str: ...

    @property
    def nodes(self) -> tuple[int, ...]: ...

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = -1, config: Mapping[str, str] | None = None
    ) -> None: ...

    def admin(self) -> AdminClient: ...


def settings(kafka: Cluster, alias: str = "c") -> ClusterSettings:
    return ClusterSettings.plaintext(alias, kafka.bootstrap_servers)


def shown(look: Callable[[], T], wanted: object) -> T:
    """What ``look`` finds, once that is what is wanted; at the latest after two minutes whatever it finds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
