"""Everything that is used of confluent-kafka, under our names: this module alone imports it.

What its type stubs lack is made up for here.
"""

from __future__ import annotations

import logging
import threading
import time
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


#: What a request ends with when no connection is made, and what the callback says when the login or TLS is why.
_SILENCE = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
)
_NOT_LET_IN = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED,
     KafkaError.UNSUPPORTED_SASL_MECHANISM}
)  # fmt: skip
#: So long a fault of a connection explains silence: each attempt repeats it.
_REMEMBERED_SECONDS = 60.0


class SharedAdmin:
    """The admin client of one cluster that all adapters of a task share: made by the first use, safe in many threads.

    A refused login, or a failed TLS handshake, shows as silence in an answer; :meth:`explained` knows better.
    """

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._client: AdminClient | None = None
        self._answered = False
        self._last_fault: tuple[KafkaError, float] | None = None

    @property
    def last_fault(self) -> KafkaError | None:
        """What was wrong with its connections last, within the last minute; None where nothing was."""
        poll = getattr(self._client, "poll", None)
        if poll is not None:  # errors of connections are called back from here alone
            poll(0)
        fault = self._last_fault
        return None if fault is None or time.monotonic() - fault[1] > _REMEMBERED_SECONDS else fault[0]

    def explained(self, error: KafkaException | KafkaError) -> KafkaException | KafkaError:
        """Why no connection was made, where the error of a request says no more than that nobody answered."""
        found = error if isinstance(error, KafkaError) else next(iter(error.args), None)
        silent = not isinstance(found, KafkaError) or found.code() in _SILENCE
        fault = self.last_fault if silent else None
        return error if fault is None or fault.code() not in _NOT_LET_IN else fault

    @property
    def client(self) -> AdminClient:
        with self._lock:
            if self._client is None:
                self._client = admin_client(self._cluster, error_cb=self._remember)
            return self._client

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
        # One broker that is away says nothing about a login; the refusal is what has to be told.
        known = self._last_fault
        if known is None or error.code() in _NOT_LET_IN or known[0].code() not in _NOT_LET_IN:
            self._last_fault = error, time.monotonic()
