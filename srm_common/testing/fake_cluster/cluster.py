"""A Kafka cluster inside the test's process: it speaks Kafka's protocol on the loopback address, from one thread.

    with FakeCluster(nodes=3) as kafka:
        kafka.create_topic("orders", partitions=6)
        ...                        # any client, kafka.bootstrap_servers
        kafka.refuse("CreateTopics", 29, when="orders")
        kafka.after(2, "EndTxn").go_away()

Nothing is kept on disk, and no Java is needed: it is ready in a few milliseconds. One suite of tests
runs against it and against real brokers. See docs/testing.md for what it does not do.
"""

from __future__ import annotations

import base64
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from srm_common.errors import LocalKafkaError
from srm_common.kafka.client.librdkafka import AdminClient
from srm_common.testing.fake_cluster.acls import Acls
from srm_common.testing.fake_cluster.configs import Policy
from srm_common.testing.fake_cluster.faults import After, Fault, When
from srm_common.testing.fake_cluster.groups import Committed, Groups
from srm_common.testing.fake_cluster.isolation import Isolation
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.member_requests import MemberRequests
from srm_common.testing.fake_cluster.members import placed_member
from srm_common.testing.fake_cluster.messages import CHANGES, Call, Protocol, Refused
from srm_common.testing.fake_cluster.record_requests import RecordRequests
from srm_common.testing.fake_cluster.records import Record, batch_of
from srm_common.testing.fake_cluster.server import Server
from srm_common.testing.fake_cluster.service import Clock, Handler, Service, raise_failures
from srm_common.testing.fake_cluster.topic_requests import TopicRequests
from srm_common.testing.fake_cluster.topics import Node, Topics
from srm_common.testing.fake_cluster.transactions import Transactions
from srm_common.testing.local_server import ADMIN_SETTINGS

_TRANSACTION_VERSION = "transaction.version"
_FEATURES = {_TRANSACTION_VERSION: 2, "group.version": 1, "metadata.version": 27}


class FakeCluster:
    """A cluster of ``nodes`` brokers, numbered from 1. A context manager; or ``start()`` and ``close()``.

    Args:
        racks: the rack of each node in turn.
        settings: broker settings, as in ``server.properties``; their source is STATIC_BROKER_CONFIG.
        features: finalized levels of features that differ (``{"transaction.version": 1}``).
        newest: newest versions of APIs that differ, to be like older brokers; -1 removes one.
        newest_of: the same of single nodes, by their numbers, as while the cluster is upgraded.
        authorizer: whether the brokers have one. ACLs are kept then; they are never enforced.
        service: how clients reach it.
        marker_seconds: called at each end of a transaction; returns for how many seconds its markers are delayed.
        verifies: whether leaders ask the coordinator about a transaction before they take a batch of it, as brokers do
            since 3.6.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        racks: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        newest: Mapping[str, int] | None = None,
        newest_of: Mapping[int, Mapping[str, int]] | None = None,
        authorizer: bool = False,
        name: str = "fake",
        service: Callable[[range, dict[str, Handler], threading.RLock, Callable[[], None]], Service] = Server,
        marker_seconds: Callable[[], float] = lambda: 0.0,
        verifies: bool = True,
    ) -> None:
        self.name = name
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.clock = Clock()
        self._features = {**_FEATURES, **(features or {})}
        self._lock = threading.RLock()
        handlers: dict[str, Handler] = {}
        # Rooms come after the server, whose ports they report; it looks handlers up when a request comes.
        self._server = service(range(1, nodes + 1), handlers, self._lock, self._before)
        addresses = [
            Node(number, host, port, racks[number - 1] if racks else None, self._listening(number))
            for number, (host, port) in self._server.places.items()
        ]
        wake = self._server.wake
        self._topics = Topics(addresses, self.cluster_id, settings or {}, wake)
        self._groups = Groups(self._topics, wake)
        version, now_ms = self._features.get(_TRANSACTION_VERSION, 0), self.clock.now_ms
        self._transactions = Transactions(
            self._topics, self._groups, version, now_ms, wake, self._later, marker_seconds, verifies=verifies
        )
        self._groups.pending = self._transactions.pending
        self._acls = Acls(authorizer=authorizer)
        records = RecordRequests(self._topics, self._transactions, self.clock.now_ms, wake)
        handlers["ApiVersions"] = lambda call: self._server.protocol.versions_answer(call, self._features)
        for room in (
            TopicRequests(self._topics, self.clock.now_ms),
            self._topics.configs,
            self._groups,
            MemberRequests(self._groups, wake),
            self._transactions,
            self._acls,
            records,
        ):
            handlers |= room.handlers()
        self.isolation = Isolation(self._topics, self._transactions, handlers, self._lock, now_ms, wake)
        self._server.protocol = Protocol(set(handlers), newest or {}, newest_of)
        self._admin: AdminClient | None = None

    # ---- life

    def start(self) -> Self:
        self._server.start()
        return self

    def close(self) -> None:
        """Ends everything.

        Raises:
            LocalKafkaError: clients sent requests that the fake cannot answer, or one failed in it.
        """
        self._admin = None
        self._server.close()
        raise_failures(self._server.failures, self.name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except LocalKafkaError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node numbers, 1..n."""
        return tuple(self._server.places)

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` of all nodes; the same for the cluster's whole life."""
        return ",".join(f"{host}:{port}" for host, port in self._server.places.values())

    internal_servers = bootstrap_servers

    def stop(self, node: int) -> None:
        """A node goes; its partitions get other leaders, or none."""
        self._server.go_away(node)
        with self._lock:
            self._topics.node_left(node)

    def restart(self, node: int) -> None:
        """A node that was stopped comes back, on its port."""
        self._server.come_back(node)
        with self._lock:
            self._topics.node_came(node)

    def go_away(self) -> None:
        """For its clients the whole cluster is gone at once: connections end, ports are closed."""
        self._server.go_away()

    def come_back(self) -> None:
        """After :meth:`go_away`: on the same ports, with the same data."""
        self._server.come_back()

    def admin(self) -> AdminClient:
        """An AdminClient, made once."""
        if self._admin is None:
            logger = logging.getLogger("srm_common.testing.librdkafka")
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **ADMIN_SETTINGS}, logger=logger)
        return self._admin

    # ---- faults

    def refuse(self, api: str, code: int, *, when: When = None, times: int | None = None) -> Fault:
        """Answer requests of an API with an error code, and do not carry them out.

        Args:
            when: only for this topic, group, transactional id or resource, or those for which this function returns
                True; other parts of the same request are carried out.
            times: how often; without it, until the fault ends.
        """
        return self._server.faults.add("refuse", api, code=code, when=when, times=times)

    def limit_settings(self, policy: Policy | None) -> None:
        """From now on topics get no settings that ``policy`` has a reason against: these requests are answered with
        POLICY_VIOLATION and the reason, as by brokers with a ``create.topic.policy.class.name`` and an
        ``alter.config.policy.class.name``."""
        self._topics.configs.policy = policy

    def refuse_after(self, code: int, *, when: When = None, times: int | None = None) -> Fault:
        """Store what is produced, and answer with an error code all the same: NOT_ENOUGH_REPLICAS_AFTER_APPEND, or
        REQUEST_TIMED_OUT, as when followers do not replicate.

        Args:
            when, times: as in :meth:`refuse`.
        """
        return self._server.faults.add("refuse after", "Produce", code=code, when=when, times=times)

    def throttle(self, api: str, seconds: float, *, times: int | None = None) -> Fault:
        """A quota is used up: answers to Produce or Fetch name a time to wait, during which the broker takes no further
        request of the connection (KIP-219)."""
        return self._server.faults.add("throttle", api, seconds=seconds, times=times)

    def drop_answer(self, api: str, *, times: int | None = 1) -> Fault:
        """Carry requests of an API out, and end the connection instead of answering."""
        return self._server.faults.add("drop", api, times=times)

    def lose_request(self, api: str, *, times: int | None = 1) -> Fault:
        """End the connection instead of carrying requests of an API out."""
        return self._server.faults.add("lose", api, times=times)

    def delay(self, seconds: float, api: str | None = None, *, times: int | None = None) -> Fault:
        """Delay requests by this many seconds before they are processed."""
        return self._server.faults.add("delay", api, seconds=seconds, times=times)

    def silence(self, api: str | None = None) -> Fault:
        """Take connections and requests, and answer none, until the fault ends."""
        return self._server.faults.add("silence", api, times=None)

    def after(self, count: int, api: str) -> After:
        """Decide what happens once ``count`` more requests of an API have been answered."""
        return self._server.faults.after(count, api)

    # ---- what was asked

    @property
    def requests(self) -> list[Call]:
        """All requests so far, in the order in which they came."""
        return list(self._server.requests)

    def asked(self, api: str) -> list[Any]:
        """The requests of one API, with the fields of Kafka's schema in snake case."""
        return [call.body for call in self._server.requests if call.api == api]

    def changes(self) -> list[Call]:
        """The requests that change something."""
        return [call for call in self._server.requests if call.api in CHANGES]

    @property
    def connections(self) -> dict[int, int]:
        """Node -> how many connections clients have made to it."""
        return dict(self._server.taken)

    def forget_requests(self) -> None:
        """:attr:`requests` and :attr:`connections` begin again."""
        self._server.requests.clear()
        self._server.taken.clear()

    # ---- topics

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Raises LocalKafkaError with the reason where brokers would refuse it."""
        with self._lock:
            try:
                self._topics.create(name, partitions, replication_factor, config or {})
            except Refused as refused:
                raise LocalKafkaError(f"topic {name} was not created on {self.name}: {refused}") from refused

    def delete_topic(self, name: str) -> None:
        with self._lock:
            self._topics.delete(name)

    def set_topic_id(self, name: str, topic_id: uuid.UUID) -> uuid.UUID:
        """The former one. Zero: none, as before ``inter.broker.protocol.version`` was 2.8."""
        with self._lock:
            return self._topics.set_id(name, topic_id)

    def grow_topic(self, name: str, partitions: int) -> None:
        with self._lock:
            self._topics.grow(name, partitions)

    def topics(self) -> dict[str, int]:
        """Numbers of partitions by name, without Kafka's own topics."""
        with self._lock:
            return {topic.name: len(topic.partitions) for topic in self._topics.topics.values() if not topic.internal}

    def topic_config(self, name: str) -> dict[str, str]:
        """The topic's own settings; changes to this dictionary change the topic."""
        return self._topics.topics[name].settings

    def made_on_demand(self) -> set[str]:
        """Topics that were created because a client requested their metadata (``auto.create.topics.enable``)."""
        return {name for name in self._topics.made_on_demand if not name.startswith("__")}

    # ---- logs

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        """The log of a partition, for inspection."""
        return self._topics.partition(topic, partition).log

    def write(
        self,
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None]],
        partition: int = 0,
        *,
        timestamp_ms: int | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        """Append keys and values, as one batch of a producer without idempotence."""
        now = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        batch = [Record(number, now, key, value, headers) for number, (key, value) in enumerate(records)]
        if batch:
            with self._lock:
                self.log(topic, partition).append(batch_of(batch), now)
            self._server.wake()

    def records(self, topic: str, partition: int = 0, *, committed: bool = True) -> list[Record]:
        """What a consumer would read, without a request."""
        with self._lock:
            return self.log(topic, partition).records(committed=committed)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention does."""
        with self._lock:
            self.log(topic, partition).delete_before(before)

    def compact(self, topic: str, *, drop_tombstones: bool = False) -> None:
        """Run the cleaner over a topic: only the last record of each key stays, and the offsets of the others are
        missing. The last batch of a partition counts as its open segment and stays as it is."""
        with self._lock:
            for partition in self._topics.topics[topic].partitions:
                partition.log.compact(drop_tombstones=drop_tombstones)

    def move_leader(self, topic: str, partition: int = 0, node: int | None = None, *, keep: int | None = None) -> None:
        """Make ``node``, or the next replica, the leader under a new epoch. With ``keep`` the election is unclean: the
        leader's log ends at that offset."""
        with self._lock:
            self._topics.elect(topic, partition, node, keep=keep)

    # ---- groups

    def join(self, group: str, member: str, topics: Mapping[str, list[int]] | Iterable[str] = ()) -> None:
        """Place a member in a group. ``topics`` are the partitions that it is assigned, or topics of which it is
        assigned all. It stays until :meth:`leave`."""
        with self._lock:
            assigned = (
                dict(topics)
                if isinstance(topics, Mapping)
                else {name: list(range(len(self._topics.topics[name].partitions))) for name in topics}
            )
            found = self._groups.group(group)
            found.protocol_type = "consumer"
            found.membership.place(placed_member(member, assigned))

    def leave(self, group: str, member: str) -> None:
        with self._lock:
            self._groups.group(group).membership.leave(member)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
        """Commit offsets of a group, whether it has members or not."""
        with self._lock:
            self._groups.put(group, {place: Committed(offset, -1, metadata) for place, offset in offsets.items()})

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """What a group has committed; empty for one that does not exist."""
        with self._lock:
            found = self._groups.known.get(group)
            return {} if found is None else {place: one.offset for place, one in found.offsets.items()}

    def transactions(self) -> dict[str, str]:
        """The states of transactional ids (``Ongoing``, ``CompleteCommit``, ...)."""
        with self._lock:
            return {transaction.name: transaction.state for transaction in self._transactions.known.values()}

    # ---- inside

    def _before(self) -> None:
        self._transactions.expire()
        self._groups.expire()

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        def locked() -> None:
            with self._lock:
                work()

        self._server.later(seconds, locked)

    def _listening(self, number: int) -> Callable[[], bool]:
        return lambda: self._server.listening(number)
