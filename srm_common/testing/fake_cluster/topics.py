"""Topics of a cluster: their names, the nodes of their partitions, their creation and deletion.

Rules: Kafka's ``ReplicationControlManager`` and ``Topic``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from srm_common.testing.fake_cluster.configs import Configs
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.messages import Refused

UNKNOWN_TOPIC, NOT_LEADER, UNKNOWN_TOPIC_ID = 3, 6, 100
INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR = 17, 36, 37, 38
INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST = 39, 42
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST = 249
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


@dataclass
class PartitionState:
    """A partition's replicas, its leader (-1 without one), and its log."""

    replicas: list[int]
    leader: int
    log: PartitionLog


@dataclass
class Topic:
    name: str
    partitions: list[PartitionState]
    settings: dict[str, str]
    topic_id: uuid.UUID = field(default_factory=uuid.uuid4)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL


@dataclass
class Node:
    """``listening``: whether clients can reach it."""

    number: int
    host: str
    port: int
    rack: str | None
    listening: Callable[[], bool]


class Topics:
    """The topics of a cluster.

    Args:
        static: what the brokers were started with.
        changed: called when a topic is created, is deleted or gets another leader.
    """

    def __init__(
        self, nodes: Iterable[Node], cluster_id: str, static: Mapping[str, str], changed: Callable[[], None]
    ) -> None:
        self.nodes = {node.number: node for node in nodes}
        self.cluster_id, self.static = cluster_id, static
        #: Nodes that clients reach, but neither the controller nor the other nodes.
        self.isolated: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.configs = Configs(static, self._settings, self.nodes)
        #: Topics that were created because a client requested their metadata.
        self.made_on_demand: set[str] = set()
        #: Called with each deleted topic.
        self.on_delete: list[Callable[[str], None]] = []
        #: Called with each partition that gets another leader.
        self.on_elect: list[Callable[[str, int], None]] = []
        self._changed = changed
        self._controlled = True

    @property
    def alive(self) -> list[int]:
        """Nodes as the controller sees them."""
        return [number for number, node in self.nodes.items() if node.listening() and number not in self.isolated]

    def _settings(self, name: str) -> dict[str, str] | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.settings

    def setting(self, topic: Topic, key: str) -> str:
        return self.configs.of_topic(topic.settings, key)

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The topic that has this id."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def set_id(self, name: str, topic_id: uuid.UUID) -> uuid.UUID:
        """Returns the former one."""
        topic = self.topics[name]
        former, topic.topic_id = topic.topic_id, topic_id
        return former

    def partition(self, name: str, number: int) -> PartitionState:
        """Raises Refused if it does not exist."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            raise Refused(UNKNOWN_TOPIC)
        return topic.partitions[number]

    def led_by(
        self, node: int, name: str, number: int, leader_epoch: int = -1, *, or_followed: bool = False
    ) -> PartitionState:
        """A partition that ``node`` leads under the epoch that the client knows; ``or_followed``: or has a replica of,
        as is enough for readers (KIP-392). Raises Refused."""
        state = self.partition(name, number)
        if node not in state.replicas:
            raise Refused(NOT_LEADER)
        if 0 <= leader_epoch < state.log.epoch:
            raise Refused(FENCED_LEADER_EPOCH)
        if leader_epoch > state.log.epoch:
            raise Refused(UNKNOWN_LEADER_EPOCH)
        if not or_followed and state.leader != node:
            raise Refused(NOT_LEADER)
        return state

    def logs(self) -> Iterator[tuple[tuple[str, int], PartitionState]]:
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                yield (topic.name, number), partition

    def coordinator(self, key: str, topic: str) -> int:
        """The node that coordinates a group or a transactional id: the leader of a partition of an internal topic,
        which is created by the first request. -1 while too few brokers are there for its replicas."""
        if topic not in self.topics:
            setting = "offsets.topic" if topic == OFFSETS_TOPIC else "transaction.state.log"
            count = int(self.configs.broker(f"{setting}.num.partitions"))
            try:
                self.create(topic, count, min(3, len(self.nodes)), {"cleanup.policy": "compact"})
            except Refused:
                return -1
        return self.topics[topic].partitions[self.coordinating(key, topic)].leader

    def coordinating(self, key: str, topic: str) -> int:
        """The partition of the internal topic whose leader that is."""
        return _java_hash(key) % len(self.topics[topic].partitions)

    def create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        settings: Mapping[str, str],
        assignments: list[list[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Raises Refused as the controller does."""
        self._check_name(name)
        if assignments is not None:
            if partitions != -1 or replication_factor != -1:
                raise Refused(
                    INVALID_REQUEST, "replica assignment and numbers of partitions or replicas are both given"
                )
            for assignment in assignments:
                if (
                    not assignment
                    or len(set(assignment)) != len(assignment)
                    or not set(assignment) <= self.nodes.keys()
                ):
                    raise Refused(INVALID_REPLICA_ASSIGNMENT, f"replicas {assignment}")
            replicas = assignments
        else:
            if partitions == -1:
                partitions = int(self.configs.broker("num.partitions"))
            if partitions <= 0:
                raise Refused(INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
            copies = self._copies(replication_factor)
            replicas = [self._replicas(number, copies) for number in range(partitions)]
        self.configs.check(settings)
        self.configs.permit(settings)
        topic = Topic(
            name,
            [PartitionState(replica, self._first_alive(replica), PartitionLog()) for replica in replicas],
            dict(settings),
        )
        if not validate_only:
            self.topics[name] = topic
            self._changed()
        return topic

    def delete(self, name: str) -> None:
        del self.topics[name]
        for callback in self.on_delete:
            callback(name)
        self._changed()

    def elect(self, name: str, number: int, node: int | None = None, *, keep: int | None = None) -> None:
        """Another leader: ``node``, or the next live replica. With ``keep`` its log ends at that offset."""
        partition = self.partition(name, number)
        if node is None:
            others = [
                replica for replica in partition.replicas if replica != partition.leader and replica in self.alive
            ]
            node = others[0] if others else partition.leader
        partition.leader = node
        partition.log.elect(keep)
        self._elected(name, number)
        self._changed()

    def _elected(self, name: str, number: int) -> None:
        for callback in self.on_elect:
            callback(name, number)

    def led(self, name: str, number: int) -> bool:
        """Whether a partition has a live leader."""
        return self.partition(name, number).leader in self.alive

    def controller_left(self) -> None:
        """Until :meth:`controller_came` no leader is elected: clients still get the former leaders."""
        self._controlled = False

    def controller_came(self) -> None:
        self._controlled = True
        for node in self.nodes:
            (self.node_came if node in self.alive else self.node_left)(node)

    @property
    def controlled(self) -> bool:
        """Whether there is a controller."""
        return self._controlled

    def node_left(self, node: int) -> None:
        """Its partitions get other leaders, or none."""
        if not self._controlled:
            return
        for place, partition in self.logs():
            if partition.leader == node:
                partition.leader = next(
                    (replica for replica in partition.replicas if replica != node and replica in self.alive), -1
                )
                partition.log.elect()
                self._elected(*place)
        self._changed()

    def node_came(self, node: int) -> None:
        if not self._controlled:
            return
        for _, partition in self.logs():
            if partition.leader == -1 and node in partition.replicas:
                partition.leader = node
        self._changed()

    def grow(self, name: str, count: int, *, validate_only: bool = False) -> None:
        """Raises Refused as the controller does."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(UNKNOWN_TOPIC, "This server does not host this topic-partition.")
        have = len(topic.partitions)
        if count <= have:
            raise Refused(
                INVALID_PARTITIONS,
                f"The topic {name} currently has {have} partition(s); {count} would not be an increase.",
            )
        if not validate_only:
            copies = len(topic.partitions[0].replicas)
            for number in range(have, count):
                replicas = self._replicas(number, copies)
                topic.partitions.append(PartitionState(replicas, self._first_alive(replicas), PartitionLog()))
            self._changed()

    def _copies(self, replication_factor: int) -> int:
        if replication_factor == -1:
            return min(int(self.configs.broker("default.replication.factor")), len(self.nodes))
        if replication_factor <= 0:
            raise Refused(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1.")
        if replication_factor > len(self.nodes):
            raise Refused(
                INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
                f"{replication_factor} cannot be reached because only {len(self.nodes)} broker(s) are registered.",
            )
        return replication_factor

    def _replicas(self, number: int, copies: int) -> list[int]:
        nodes = list(self.nodes)
        return [nodes[(number + one) % len(nodes)] for one in range(copies)]

    def _first_alive(self, replicas: list[int]) -> int:
        alive = self.alive
        return next((replica for replica in replicas if replica in alive), -1)

    def _check_name(self, name: str) -> None:
        if not name or name in (".", "..") or len(name) > _LONGEST or not _LEGAL.fullmatch(name):
            raise Refused(INVALID_TOPIC, f"Topic name is invalid: '{name}'")
        if name in self.topics:
            raise Refused(TOPIC_EXISTS, f"Topic '{name}' already exists.")
        for other in self.topics:
            if other.replace(".", "_") == name.replace(".", "_"):
                raise Refused(INVALID_TOPIC, f"Topic '{name}' collides with existing topic: {other}")


@cache
def _java_hash(text: str) -> int:
    """``Utils.abs(String.hashCode)``, by which brokers find coordinators."""
    value = 0
    for char in text:
        value = (31 * value + ord(char)) & 0xFFFFFFFF
    value = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if value == -(1 << 31) else abs(value)
