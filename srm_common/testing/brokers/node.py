"""One node of a local cluster: its ports and processes, and its settings: its listeners, its part in the cluster, and
how many replicas the cluster's own topics have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from srm_common.errors import LocalKafkaError
from srm_common.testing.artifacts import tiered_storage_jars
from srm_common.testing.brokers.jvm import HostedNode
from srm_common.testing.brokers.zookeeper import SESSION_MS
from srm_common.testing.java import JavaProcess
from srm_common.testing.ports import ReservedPort

TunedFor = Literal["tests", "throughput"]

_STOPPING_SECONDS = 60.0

QUICK_SETTINGS: Mapping[str, dict[str, str]] = {
    # Dozens of idle nodes run during the tests, so the CPU time of an idle node matters. Two thirds of it went to
    # heartbeats to its controller (default 2 s) and to the cleaner, which checks all compacted logs each time, and
    # there are thousands of them after some dozen flows; the controller also writes an empty record twice a second.
    # A node that was killed may register again, and its leaders move, only after its session has ended (default 9 s).
    # The cleaner's default buffer (128 MB) would fill the small heap. Threads that wait for requests wake up three
    # times a second each: of three and eight for each listener, a test needs one and two.
    "tests": {
        "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "1300",
        "log.cleaner.backoff.ms": "4000", "log.cleaner.dedupe.buffer.size": "4194304",
        "metadata.max.idle.interval.ms": "0",
        "num.network.threads": "1", "num.io.threads": "2",
    },
    "throughput": {},
}  # fmt: skip

JVM_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # Quick start and a small footprint: many brokers live for seconds only. What a node does again and again is
    # compiled after a few times, not hundreds.
    "tests": (
        "-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.2",
        "-Xshare:auto",
    ),
    # What Kafka's own start script sets.
    "throughput": (
        "-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    ),
}  # fmt: skip


class Node:
    """Ports and processes of one node; the last process is the current one, unless the node is in a JVM that it
    shares."""

    def __init__(self, number: int, separate_internal: bool) -> None:
        self.number = number
        self.client = ReservedPort()
        self.controller = ReservedPort()
        self.internal = ReservedPort() if separate_internal else None
        self.hosted: HostedNode | None = None
        self._processes: list[JavaProcess] = []

    def runs_in(self, process: JavaProcess) -> None:
        """From now on."""
        self._processes.append(process)

    @property
    def processes(self) -> list[JavaProcess]:
        """Those that have ended, too. Raises LocalKafkaError where the node shares a JVM."""
        if self.hosted:
            raise LocalKafkaError(
                f"node {self.number} shares a JVM, which is neither killed nor paused nor measured for one: start the "
                "cluster without 'jvm'"
            )
        return self._processes

    @property
    def process(self) -> JavaProcess | None:
        """None before the first start. Raises as :attr:`processes`."""
        return self.processes[-1] if self.processes else None

    @property
    def _current(self) -> HostedNode | JavaProcess | None:
        return self.hosted or self.process

    @property
    def running(self) -> bool:
        return self._current is not None and self._current.running

    def stop(self, timeout_seconds: float) -> None:
        """Orderly."""
        if self._current:
            self._current.stop(timeout_seconds)

    def end(self) -> None:
        """Kill it, or stop it in a JVM that goes on."""
        if isinstance(self._current, JavaProcess):
            self._current.kill()
        else:
            self.stop(_STOPPING_SECONDS)

    def tail(self) -> str:
        """The last lines of its log."""
        return self._current.tail() if self._current else ""

    def release(self) -> None:
        for port in (self.client, self.controller, self.internal):
            if port:
                port.release()


@dataclass(frozen=True)
class ClusterLayout:
    """What the settings of all nodes depend on.

    ``zookeeper`` is its address, None for KRaft. ``racks`` are those of the nodes, in order, or none. Closed segments
    of topics with ``remote.storage.enable`` go to the folder ``remote_store``, where there is one.
    """

    nodes: Sequence[Node]
    client_protocol: str
    zookeeper: str | None
    racks: Sequence[str]
    remote_store: Path | None


def node_settings(layout: ClusterLayout, node: Node, folder: Path, version: str) -> dict[str, str]:
    """The node's ``server.properties``; its data is in ``folder``."""
    listeners = {"CLIENT": (node.client, layout.client_protocol)}
    if node.internal:
        listeners["INTERNAL"] = (node.internal, "PLAINTEXT")
    advertised = ",".join(f"{name}://{port.address}" for name, (port, _) in listeners.items())
    protocols = ",".join(f"{name}:{protocol}" for name, (_, protocol) in listeners.items())
    copies = str(min(3, len(layout.nodes)))
    quorum = str(2 if len(layout.nodes) >= 3 else 1)
    settings = {
        **_consensus_settings(layout, node, advertised, protocols),
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "INTERNAL" if node.internal else "CLIENT",
        "log.dirs": str(folder / "data"),
        # As Kafka ships brokers, they create topics that clients ask for; see made_on_demand(). Not with Kafka's
        # default of one partition, so that no test comes to depend on that.
        "num.partitions": "3",
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": quorum,
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": quorum,
        "group.initial.rebalance.delay.ms": "0",
    }
    if len(layout.nodes) >= 3:
        settings |= {"default.replication.factor": copies, "min.insync.replicas": quorum}
    if layout.racks:
        settings["broker.rack"] = layout.racks[node.number - 1]
        settings["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    if layout.remote_store:
        settings |= _remote_storage(layout.remote_store, settings["inter.broker.listener.name"], version, copies)
    return settings


def _consensus_settings(layout: ClusterLayout, node: Node, listeners: str, protocols: str) -> dict[str, str]:
    if layout.zookeeper:
        return {
            "broker.id": str(node.number),
            "zookeeper.connect": layout.zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "listeners": listeners,
            "listener.security.protocol.map": protocols,
        }
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(f"{one.number}@{one.controller.address}" for one in layout.nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listeners},CONTROLLER://{node.controller.address}",
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
    }


def _remote_storage(store: Path, listener: str, version: str, copies: str) -> dict[str, str]:
    """What a broker needs to keep closed segments in the folder ``store``, and to move them twice a second.

    Limits are the caller's: ``remote.log.manager.fetch.max.bytes.per.second`` (KIP-956), ``remote.fetch.max.wait.ms``.
    """
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{tiered_storage_jars(version)}/*",
        "rsm.config.dir": str(store),
        "remote.log.metadata.manager.listener.name": listener,
        "rlmm.config.remote.log.metadata.topic.replication.factor": copies,
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }
