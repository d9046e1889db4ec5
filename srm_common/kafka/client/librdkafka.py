"""Everything that is used of confluent-kafka, under our names: this module alone imports it.

What its type stubs lack is made up for here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    TopicDescription,
    TopicMetadata,
)

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.kafka.client.security import librdkafka_settings

__all__ = [
    "BROKER_LEFT",
    "EARLIEST",
    "LATEST",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "Consumer",
    "ConsumerGroupTopicPartitions",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "Producer",
    "ResourcePatternType",
    "ResourceType",
    "TopicCollection",
    "TopicDescription",
    "TopicMetadata",
    "TopicPartition",
]

#: ``_DESTROY_BROKER``, which the oldest version does not name: the broker left the cluster during the request.
BROKER_LEFT = -137

# The stubs give these two no types.
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


silent_logger = logging.getLogger("srm_common.kafka.librdkafka")
silent_logger.addHandler(logging.NullHandler())
silent_logger.propagate = False


def admin_client(cluster: ClusterSettings, error_cb: Callable[[KafkaError], None] = lambda error: None) -> AdminClient:
    """librdkafka's admin client, quiet; ``error_cb`` is called with errors of connections. For a cluster with a login
    that librdkafka lacks it is one of the same methods by kafka-python.

    KRaft brokers name any of themselves as the controller that requests go to. Where that one is gone, librdkafka waits
    for it until it hears of another; so it asks each second, and not each five minutes.
    """
    if cluster.of_client(Client.ADMIN).kerberos is not None:
        # Not at the top: few have such clusters, and most readers do without kafka-python.
        from srm_common.kafka.client.link_admin import LinkAdmin

        return cast(AdminClient, LinkAdmin(cluster))
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
        self._answered = False
        self.last_fault: KafkaError | None = None

    @property
    def client(self) -> AdminClient:
        with self._lock:
            if self._client is None:
                self._client = admin_client(self._cluster, error_cb=self._remember)
            return self._client

    def fresh(self) -> SharedAdmin:
        """A client that knows no coordinators from before, which librdkafka may ask in vain; kafka-python forgets those
        that have moved."""
        return self if self._cluster.of_client(Client.ADMIN).kerberos is not None else SharedAdmin(self._cluster)

    def list_offsets(
        self, places: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel, timeout_seconds: float
    ) -> dict[TopicPartition, Future[Any]]:
        """Offsets of partitions, each an answer to come.

        A new client that begins with this request often asks for the leaders before it has a connection, in vain, and
        again only three seconds later (with librdkafka 2.16 in up to a third of cases); so it describes the cluster
        first.

        Raises:
            KafkaException: no broker answered.
        """
        client = self.client
        if not self._answered:
            client.describe_cluster(request_timeout=timeout_seconds).result()
            self._answered = True
        return client.list_offsets(places, isolation_level=isolation, request_timeout=timeout_seconds)

    def _remember(self, error: KafkaError) -> None:
        self.last_fault = error
