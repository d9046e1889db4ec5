"""Brokers, leaders and coordinators of one cluster: one request at a time to a node, or to whichever answers.

A link drives kafka-python's event loop on the caller's thread; several links may share a loop. All methods that are
coroutines run inside :meth:`BrokerLink.run`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from srm_common.domain.cluster import REQUEST_TIMEOUT_MS, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import (
    AccessDenied,
    ClusterError,
    NoSuchPartition,
    PartitionError,
    SrmError,
    UnreachableCluster,
    UnsupportedBroker,
)
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.connections.connection import VersionNotTaken
from srm_common.kafka.client.connections.connection_faults import fault_text
from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.signal import Signal, side_by_side
from srm_common.kafka.client.library import Errors, quiet_library
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.links.retriable_fault import AnswerTooLarge, OlderBroker, RetriableFault
from srm_common.kafka.client.logins.security import connection_arguments
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import refuse_old_brokers
from srm_common.kafka.client.protocol.find_coordinator import (
    TRANSACTION,
    find_coordinator_request,
    found_coordinators,
)

T = TypeVar("T")

#: How long connections that another link used may be silent before they have shown that they still work; then they are
#: replaced.
_STILL_THERE_SECONDS = 1.0
_RECONNECT_BACKOFF_MS, _RECONNECT_BACKOFF_MAX_MS = 50, 1000  # Kafka's clients have them


class BrokerLink(Closing):
    """Connections to the brokers of one cluster.

    Args:
        settings: addresses and security of the cluster.
        part: what the link does, for the name by which brokers know it.
        request_timeout_ms: how long a request may go unanswered before its connection is closed, unless the settings of
            the cluster have a limit.
        at_most_ms: an upper bound for either limit.
        pool: where connections come from, and go to when the link is closed.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        part: str = "",
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        at_most_ms: int | None = None,
        pool: LinkPool | None = None,
    ) -> None:
        quiet_library()
        self.settings = settings
        self._owns_loop = pool is None or not pool.one_loop
        self.pool, self._pool_generation = pool, 0 if pool is None else pool.generation
        self._opened = self._closed = self._failed = False
        self._coordinators: dict[str, int] = {}
        limit_ms = settings.request_timeout_ms or request_timeout_ms
        patience_ms = limit_ms if at_most_ms is None else min(limit_ms, at_most_ms)
        self._name, self._patience_ms = settings.client_name(part), patience_ms
        idle = None if pool is None else pool.reuse(settings, self._name, patience_ms)
        self._used = idle is not None  # by another link before
        if idle is not None:
            self.loop, self.manager = idle
        else:
            self.loop = EventLoop() if pool is None else pool.event_loop()
            self.manager = self._new_manager()

    def _new_manager(self) -> FrameConnectionManager:
        settings = self.settings
        options = {"bootstrap_servers": settings.bootstrap_servers.split(","), **connection_arguments(settings)}
        options.setdefault("reconnect_backoff_ms", _RECONNECT_BACKOFF_MS)
        options.setdefault("reconnect_backoff_max_ms", max(_RECONNECT_BACKOFF_MAX_MS, options["reconnect_backoff_ms"]))
        options.update(
            client_id=self._name,
            epochs=None if self.pool is None else self.pool.newest_epochs(settings),
            request_timeout_ms=self._patience_ms,
            # Five are for Produce; the others keep a coordinator on the same node from waiting for them.
            max_in_flight_requests_per_connection=8,
        )
        return FrameConnectionManager(self.loop, **options)

    @property
    def alias(self) -> str:
        """The cluster's alias, for messages."""
        return self.settings.alias

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Drive the loop until ``work`` is done."""
        if self._closed:
            raise RuntimeError(f"the link to cluster {self.alias} is closed")
        try:
            return self.loop.run(work)  # type: ignore[no-any-return]
        except BaseException:
            # Tasks that it began may go on when the loop is driven next.
            self._failed = True
            raise

    async def open(self, topics: Iterable[str] = (), timeout_seconds: float = 15.0) -> None:
        """Find the brokers and the leaders of ``topics``.

        Raises:
            UnreachableCluster: no broker answered in time.
            AccessDenied: the login was refused.
            UnsupportedBroker: a broker is older than 2.8, or than 2.4 at the source.
        """
        if self._opened:
            return
        deadline = time.monotonic() + timeout_seconds
        wanted = set(topics)
        self.manager.cluster.keep(wanted)
        if self._used and await self._still_there(wanted, min(timeout_seconds, _STILL_THERE_SECONDS)):
            self._opened = True
            return
        try:
            await self.manager.bootstrap_async(timeout_ms=max(deadline - time.monotonic(), 0.0) * 1000)
        except Errors.KafkaTimeoutError as error:
            reason = f" ({self.manager.last_fault})" if self.manager.last_fault else ""
            if self.settings.by_token:
                # Brokers accept an expired one until they check again, and then close each connection after the login.
                reason += "; if the delegation token of the login has ended, put a new one in its place"
            raise UnreachableCluster(
                f"cluster '{self.alias}' ({self.settings.bootstrap_servers}) is not reachable: no broker answered "
                f"within {timeout_seconds:g} s{reason}"
            ) from error
        except (Errors.SaslAuthenticationFailedError, Errors.UnsupportedSaslMechanismError) as error:
            raise self._not_let_in(error) from error
        except Errors.IncompatibleBrokerVersion as error:
            raise UnsupportedBroker(f"cluster {self.alias} does not list its brokers: {error}") from error
        data = self.manager.broker_version_data
        refuse_old_brokers(self.alias, {} if data is None else data.api_versions, only_read=self.settings.only_read)
        self._opened = True

    def _not_let_in(self, error: Exception) -> AccessDenied:
        where = f"cluster '{self.alias}' ({self.settings.bootstrap_servers})"
        what = "whether its delegation token has ended" if self.settings.by_token else "the login"
        return AccessDenied(f"{where} refused the login: {fault_text(error)}; check {what}")

    async def _still_there(self, wanted: set[str], seconds: float) -> bool:
        """Whether connections that another link used still return brokers and leaders; otherwise they are closed."""
        signal = Signal(self.loop)
        asked = self.loop.call_soon_with_future(self.manager.cluster.refresh_anew)
        asked.add_both(lambda _: signal.set())
        await signal.silence(seconds, self.manager.heard_bytes)
        if asked.succeeded():
            return True
        self.manager.close()
        self.manager, self._used = self._new_manager(), False
        self.manager.cluster.keep(wanted)
        return False

    @property
    def opened(self) -> bool:
        """Whether :meth:`open` found the brokers."""
        return self._opened

    def offers(self, api: int) -> bool:
        """Whether the broker that was asked first knows a request type; while brokers are upgraded, others may not."""
        return api in self.manager.broker_version_data.api_versions

    async def refresh(self) -> bool:
        """Ask for the leaders again; whether a broker answered. A failure shows at the next use."""
        try:
            await self.manager.cluster.refresh_anew()
        except Errors.KafkaError:
            await self.loop.sleep(0.05)
            return False
        return True

    async def know(self, topics: Iterable[str]) -> dict[str, frozenset[int]]:
        """The partitions of topics as the cluster lists them now; a topic that does not exist has none. Their leaders
        are kept from now on.

        Raises:
            UnreachableCluster: no broker answered.
        """
        wanted = set(topics)
        cluster = self.manager.cluster
        cluster.keep(wanted)
        try:
            await cluster.refresh_anew()
        except Errors.KafkaError as error:
            raise UnreachableCluster(f"cluster {self.alias} does not list its topics: {fault_text(error)}") from error
        return {topic: frozenset(cluster.partitions_for_topic(topic) or ()) for topic in wanted}

    def leader(self, topic: str, partition: int) -> int | None:
        """Node id of a partition's leader, None when there is none at the moment."""
        node = self.manager.cluster.leader_for_partition(TopicPartition(topic, partition))
        return None if node is None or node < 0 else int(node)

    def leaderless(self, topic: str, partition: int) -> SrmError:
        """Why :meth:`leader` knows none: AccessDenied, NoSuchPartition, or one is being elected (PartitionError)."""
        cluster = self.manager.cluster
        place = f"partition {topic}-{partition} at {self.alias}"
        if topic in cluster.unauthorized_topics:
            return AccessDenied(
                f"{place}: the topic may not be seen; {Right('Describe', 'topic', topic).missing(self.settings)}"
            )
        known = cluster.partitions_for_topic(topic)
        if known is None:
            return NoSuchPartition(f"{place}: the topic does not exist, or was deleted")
        if partition not in known:
            return NoSuchPartition(f"{place} does not exist; the topic has {len(known)} partitions")
        return PartitionError(f"{place} {cluster.behind.get(TopicPartition(topic, partition), 'has no leader')}")

    async def send(self, node: Any, request: Any, timeout_ms: float | None = None) -> Any:
        """Send one request to a node and wait for its answer; waits out throttling.

        Raises:
            RetriableFault: no connection, or none any more; whether the request was carried out is unknown.
            AccessDenied: the login was refused.
        """
        return await self.answer(await self.post(node, request, timeout_ms))

    async def post(self, node: Any, request: Any, timeout_ms: float | None = None, reply: Any = None) -> Any:
        """Hand one request to a node's connection; returns the library's future of the answer, or ``reply``, which is
        called in its place (``is_done``, ``success``, ``failure``). Raises as :meth:`ready`."""
        if timeout_ms is None:
            timeout_ms = self.manager.patience_ms
        return (await self.ready(node)).send_request(request, request_timeout_ms=timeout_ms, reply=reply)

    async def ready(self, node: Any) -> Any:
        """The connection to a node, made when there is none; waits out throttling. Requests wait until it is made.

        Raises:
            RetriableFault: no connection can be made.
            AccessDenied: the login was refused.
        """
        while True:
            try:
                connection = self.manager.get_connection(node)
            except (Errors.SaslAuthenticationFailedError, Errors.AuthorizationError) as error:
                raise self._not_let_in(error) from error
            except Errors.KafkaError as error:
                raise RetriableFault(f"no connection to broker {node} of {self.alias}: {error}") from error
            if not connection.paused or connection.initializing:
                return connection
            await self.loop.sleep(max(connection.throttled_seconds(), 0.001))

    def connection(self, node: Any) -> Any:
        """The connection to a node if it takes requests now, else None: :meth:`ready` makes one, or waits."""
        found = self.manager.connected(node)
        return None if found is None or found.paused else found

    async def answer(self, future: Any) -> Any:
        """The answer of a posted request, with the library's errors translated."""
        try:
            return await future
        except (Errors.SaslAuthenticationFailedError, Errors.UnsupportedSaslMechanismError) as error:
            raise self._not_let_in(error) from error
        except Errors.TopicAuthorizationFailedError as error:
            raise AccessDenied(f"cluster {self.alias} refused a request: {error}") from error
        except VersionNotTaken as error:
            raise OlderBroker(f"a broker of {self.alias} {error}") from error
        except Errors.IncompatibleBrokerVersion as error:
            raise UnsupportedBroker(f"cluster {self.alias}: {fault_text(error)}") from error
        except Errors.KafkaError as error:
            kind = AnswerTooLarge if isinstance(error, Errors.InvalidReceiveError) else RetriableFault
            raise kind(f"broker of {self.alias} did not respond: {error}") from error

    def disconnect(self, node: Any) -> None:
        """Close the connection to a node; whatever waits for an answer fails at once."""
        self.manager.disconnect(node, "closed after a failed chunk")

    async def any_node(self) -> Any:
        """A connected node for several requests that any broker answers; :meth:`ask_any` is for a single one.

        Raises:
            RetriableFault: no broker takes a connection now.
            AccessDenied: the login was refused.
        """
        return await self.answer(self.loop.call_soon_with_future(self._any_node))

    async def _any_node(self) -> Any:
        try:
            return await self.manager.ready_node()
        except Errors.NodeNotReadyError:
            await self.refresh()
            return await self.manager.ready_node()

    async def ask_any(self, make_request: Callable[[], Any]) -> Any:
        """The answer of any broker; another one is asked as well when one fails, or is silent for a second.

        Args:
            make_request: makes an equal request for each broker that is asked.

        Raises:
            RetriableFault: none answered.
            AccessDenied: the login was refused.
        """
        return await self.answer(self.loop.call_soon_with_future(self._ask_any, make_request))

    async def _ask_any(self, make_request: Callable[[], Any]) -> Any:
        try:
            return await self.manager.ask_any(make_request)
        except Errors.NodeNotReadyError:
            await self.refresh()
            return await self.manager.ask_any(make_request)

    async def ask_each(self, make_request: Callable[[], Any]) -> dict[int, Any]:
        """Node id -> the answer of that broker, or the RetriableFault or ClusterError that came instead; all are asked
        side by side."""
        nodes = [int(broker.node_id) for broker in self.manager.cluster.brokers()]
        answers = await self.send_each([(node, make_request()) for node in nodes], (RetriableFault, ClusterError))
        return dict(zip(nodes, answers, strict=True))

    async def send_each(
        self, requests: Iterable[tuple[int, Any]], faults: tuple[type[Exception], ...] = (RetriableFault,)
    ) -> list[Any]:
        """Send each request to its node, side by side; returns answers, or those of ``faults`` that came instead."""

        async def one(node: int, request: Any) -> Any:
            try:
                return await self.send(node, request)
            except faults as error:
                return error

        return await side_by_side(self.loop, [partial(one, *each) for each in requests])

    async def track(self, topics: Iterable[str]) -> None:
        """Keep the leaders of these topics, too."""
        if self.manager.cluster.keep(topics):
            await self.refresh()

    async def coordinator(self, transactional_id: str) -> int:
        """Node id of a transactional id's coordinator; remembered until :meth:`forget_coordinator`.

        Raises:
            RetriableFault: none is known at the moment.
            AccessDenied: the transactional id may not be used.
        """
        known = self._coordinators.get(transactional_id)
        if known is not None:
            return known
        keys = [transactional_id]
        answer = await self.ask_any(lambda: find_coordinator_request(keys, TRANSACTION))
        found = dict(found_coordinators(answer, keys)).get(transactional_id)
        if found is None:
            raise RetriableFault(f"a broker of {self.alias} did not name the coordinator for {transactional_id}")
        if found.error_code in codes.DENIED:
            raise AccessDenied(
                f"cluster {self.alias} does not allow the transactional id {transactional_id}: "
                f"{codes.name(found.error_code)}; "
                f"{Right('Write', 'transactional-id', transactional_id).missing(self.settings)}"
            )
        if found.error_code:
            raise RetriableFault(
                f"no coordinator for {transactional_id} on {self.alias}: {codes.name(found.error_code)}"
            )
        self._coordinators[transactional_id] = found.node_id
        return int(found.node_id)

    def forget_coordinator(self, transactional_id: str) -> None:
        """The coordinator moved; look it up again at the next use."""
        self._coordinators.pop(transactional_id, None)

    def close(self, *, keep: bool = True) -> None:
        """Leave idle connections to the pool, if there is one, nothing has failed, and ``keep``; close the others."""
        if self._closed:
            return
        self._closed = True
        if (
            keep
            and self.pool is not None
            and self._opened
            and not self._failed
            and self.manager.close_busy()
            and self.pool.put(self.settings, self.loop, self.manager, self._pool_generation)
        ):
            return
        self.manager.close()
        if self._owns_loop:
            self.loop.close()
