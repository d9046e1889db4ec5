"""The admin clients of one cluster, as all adapters of a task share them: one reads, one changes."""

from __future__ import annotations

import threading
import time
from typing import cast

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.kafka.client.librdkafka import AdminClient, KafkaError, KafkaException, admin_client
from srm_common.kafka.client.links.link_admin import LinkAdmin
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.logins.current_login import with_current_login
from srm_common.kafka.client.logins.token_function import function_tokens

#: Errors of requests while no connection is made, and what the callback reports when the login or TLS is the reason.
_SILENCE = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
)
_NOT_LET_IN = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED,
     KafkaError.UNSUPPORTED_SASL_MECHANISM}
)  # fmt: skip
#: How long a fault of a connection explains silence; each attempt repeats it.
_REMEMBERED_SECONDS = 60.0


class SharedAdmin:
    """``links`` reads a cluster, ``client`` changes it: topics, settings and bindings. Threads may share both.

    Requests that a task repeats go over links, since librdkafka can end the process when brokers restart meanwhile
    (docs/adr/0002). librdkafka's client is made by the first change; for a cluster with a login that it does not
    support, changes go over links, too.

    A refused login or a failed TLS handshake looks like silence in the errors of librdkafka; :meth:`explained` tells
    them apart.
    """

    def __init__(self, cluster: ClusterSettings, *, pool: LinkPool | None = None) -> None:
        self.links = LinkAdmin(cluster, pool=pool)
        self._cluster = cluster
        self._lock = threading.Lock()
        self._client: AdminClient | None = None
        #: The settings of the client: with another login it is made again.
        self._made_with = cluster
        self._last_fault: tuple[KafkaError, float] | None = None

    @property
    def last_fault(self) -> KafkaError | None:
        """What was wrong with the connections of ``client`` last, within the last minute; None where nothing was."""
        poll = getattr(self._client, "poll", None)
        if poll is not None:  # errors of connections are called back from here alone
            poll(0)
        fault = self._last_fault
        return None if fault is None or time.monotonic() - fault[1] > _REMEMBERED_SECONDS else fault[0]

    def explained(self, error: KafkaException | KafkaError) -> KafkaException | KafkaError:
        """Why no connection was made, where the error of a change only says that no broker answered."""
        kafka_error = error if isinstance(error, KafkaError) else next(iter(error.args), None)
        silent = not isinstance(kafka_error, KafkaError) or kafka_error.code() in _SILENCE
        fault = self.last_fault if silent else None
        return error if fault is None or fault.code() not in _NOT_LET_IN else fault

    @property
    def client(self) -> AdminClient:
        tokens = function_tokens(self._cluster.of_client(Client.ADMIN))
        if tokens is not None:
            tokens.token()  # where there is none, this tells why: librdkafka waits for one, and then only says so
        with self._lock:
            settings = with_current_login(self._cluster)
            if self._client is None or settings != self._made_with:
                self._made_with = settings
                if self._cluster.of_client(Client.ADMIN).kafka_python_alone:
                    self._client = cast(AdminClient, self.links)
                else:
                    self._client = admin_client(self._cluster, error_cb=self._remember)
            if tokens is not None:
                self._client.poll(0)  # before confluent-kafka 2.13 it asks for tokens from here alone
            return self._client

    def _remember(self, error: KafkaError) -> None:
        # One broker that is down says nothing about the login; the refusal is what users have to see.
        known = self._last_fault
        if known is None or error.code() in _NOT_LET_IN or known[0].code() not in _NOT_LET_IN:
            self._last_fault = error, time.monotonic()
