"""Real Kafka brokers on the loopback address, for tests, demos and benchmarks.

    with LocalKafka(nodes=3, settings={"log.retention.hours": "1"}) as kafka:
        kafka.create_topic("orders", partitions=6)
        ...                       # any client, kafka.bootstrap_servers
        kafka.kill(2)             # SIGKILL
        kafka.restart(2)          # same port, same data

KRaft, every node broker and controller in one, one JVM each (a node is ready in about two seconds and takes some
300 MB), or those of several clusters in one (:class:`~srm_common.testing.BrokerJvm`); versions before 3.3 have a
ZooKeeper beside them. Needs Java 17 or newer; Kafka's jars are fetched on first use (see
:mod:`srm_common.testing.artifacts`).
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from srm_common.errors import LocalKafkaError
from srm_common.kafka.client.librdkafka import AdminClient, KafkaException
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION, class_archive, has_kraft, kafka_jars
from srm_common.testing.brokers.formatting import format_storage, random_id
from srm_common.testing.brokers.jvm import BrokerJvm
from srm_common.testing.brokers.logging_settings import logging_options
from srm_common.testing.brokers.node import JVM_OPTIONS, QUICK_SETTINGS, ClusterLayout, Node, TunedFor, node_settings
from srm_common.testing.brokers.topics import create_topic, made_on_demand, wait_for_nodes
from srm_common.testing.brokers.zookeeper import LocalZooKeeper
from srm_common.testing.java import JavaProcess
from srm_common.testing.local_server import ADMIN_SETTINGS, LocalServer
from srm_common.testing.logins import broker_settings

START_TIMEOUT_SECONDS = 180.0


class LocalKafka(LocalServer):
    """A cluster of ``nodes`` brokers, numbered from 1. A context manager; or ``start()`` and ``close()``.

    ``settings`` are broker settings and win over everything set here. ``version`` is any Kafka from 2.4 on.
    ``features`` are feature levels to format with (``{"transaction.version": "1"}``), else the version's own.
    ``client_protocol`` is the security protocol of the listener that clients use (``bootstrap_servers``); unless it is
    PLAINTEXT, brokers talk to each other over another, open listener (``internal_servers``), and its keys
    (``ssl.keystore.location``, ``listener.name.client....``) are given in ``settings``.
    ``logins`` (passwords by user name) turn on SASL PLAIN for clients and Kafka's authorizer, see
    :mod:`srm_common.testing.logins`; ``admin()`` may do everything.
    ``java_options`` are added after the default ones.
    ``racks`` names the rack of each node in turn, and lets consumers read from replicas in their own rack (KIP-392).
    ``tiered`` keeps closed segments of topics that enable it in a folder, see :mod:`.tiered_storage`.
    ``jvm`` runs the only node of this cluster beside those of others, for a fraction of the time and CPU; it can be
    stopped and restarted, but not killed, paused or measured.
    ``directory`` is kept after the end when it is given; else a temporary one is removed, unless something failed.
    """

    def __init__(
        self,
        nodes: int = 1,
        version: str | None = None,
        settings: Mapping[str, str] | None = None,
        directory: Path | str | None = None,
        *,
        tuned_for: TunedFor = "tests",
        features: Mapping[str, str] | None = None,
        client_protocol: str = "PLAINTEXT",
        logins: Mapping[str, str] | None = None,
        name: str = "kafka",
        java_options: Sequence[str] = (),
        racks: Sequence[str] = (),
        tiered: bool = False,
        jvm: BrokerJvm | None = None,
    ) -> None:
        self.version = version or DEFAULT_KAFKA_VERSION
        if jvm is not None and (nodes > 1 or java_options or tuned_for != "tests" or self.version != jvm.version):
            raise LocalKafkaError(f"{name} needs JVMs of its own, by its options: leave out 'jvm'")
        self._jvm = jvm if jvm is not None and jvm.hosts else None
        self.cluster_id, self.name = random_id(), name
        if logins:
            client_protocol = "SASL_PLAINTEXT"
        self._settings = {
            **(broker_settings(logins, kraft=has_kraft(self.version)) if logins else {}),
            **(settings or {}),
        }
        self._features, self._java_options = dict(features or {}), tuple(java_options)
        self._client_protocol = client_protocol
        self._racks, self._tiered = tuple(racks), tiered
        self._tuned_for: TunedFor = tuned_for
        self._zookeeper = None if has_kraft(self.version) else LocalZooKeeper()
        self._keep_directory = directory is not None
        self._directory = None if directory is None else Path(directory).absolute()
        self._nodes = tuple(Node(number, client_protocol != "PLAINTEXT") for number in range(1, nodes + 1))
        self._admin: AdminClient | None = None

    # ---- addresses and places

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node numbers, 1..n."""
        return tuple(node.number for node in self._nodes)

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` of all nodes for clients; the same for the cluster's whole life."""
        return ",".join(node.client.address for node in self._nodes)

    @property
    def internal_servers(self) -> str:
        """The open listener; the same as ``bootstrap_servers`` where clients need no login either."""
        return ",".join((node.internal or node.client).address for node in self._nodes)

    @property
    def directory(self) -> Path:
        """Settings, data and logs: ``node-<n>/{server.properties,data,log}``. Exists once started."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"srm-{self.name}-"))
        return self._directory

    def log_path(self, node: int = 1) -> Path:
        """The node's log; a restarted node appends."""
        return self.directory / f"node-{node}" / "log"

    def segment_files(self, topic: str, partition: int = 0, node: int = 1) -> list[Path]:
        """The files of a partition's log on a node, oldest first."""
        return sorted((self.directory / f"node-{node}" / "data" / f"{topic}-{partition}").glob("*.log"))

    # ---- life

    def start(self) -> Self:
        """Starts every node that does not run and returns when all of them answer.

        Raises LocalKafkaError with the end of the log when a node ends or does not respond within 180 s.
        """
        jars = kafka_jars(self.version)
        if self._zookeeper:
            self._zookeeper.start(self.directory / "zookeeper", self.version, jars, JVM_OPTIONS["tests"])
        for node in self._nodes:
            self._prepare(node, jars)
        for node in self._nodes:
            if not node.running:
                self._launch(node, jars)
        self._wait_for(self.nodes)
        return self

    def stop(self, node: int | None = None, timeout_seconds: float = 60.0) -> None:
        """Orderly shutdown of one node, or of all; data stays for ``start``."""
        running = [found for found in self._chosen(node) if found.running]
        if running:
            with ThreadPoolExecutor(len(running)) as together:
                list(together.map(lambda found: found.stop(timeout_seconds), running))

    def kill(self, node: int | None = 1) -> None:
        """SIGKILL to one node; ``None`` means all."""
        for found in self._chosen(node):
            if found.process:
                found.process.kill()

    def restart(self, node: int | None = 1, *, settings: Mapping[str, str] | None = None) -> None:
        """Starts a node again on its port and data, after an orderly stop if it still runs; ``None`` means all.

        ``settings`` are added to those of the whole cluster; other nodes have them when they start the next time.
        """
        self.stop(node)
        self._settings |= settings or {}
        jars = kafka_jars(self.version)
        for found in self._chosen(node):
            self._prepare(found, jars)
            self._launch(found, jars)
        self._wait_for({found.number for found in self._nodes if found.running or found in self._chosen(node)})

    def pause(self, node: int | None = 1) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        for found in self._chosen(node):
            if found.process:
                found.process.pause()

    def resume(self, node: int | None = 1) -> None:
        """SIGCONT."""
        for found in self._chosen(node):
            if found.process:
                found.process.resume()

    def fill_disk(self, node: int = 1) -> None:
        """No file of a node can grow any more, as on a full disk, until the node is restarted (Linux, by
        RLIMIT_FSIZE). A node ends by itself when it cannot write to its only log directory."""
        for found in self._chosen(node):
            if found.process:
                found.process.limit_files(0)

    def close(self, *, failed: bool = False) -> None:
        """Ends all nodes at once and removes a temporary directory; with ``failed`` the logs stay and are named."""
        self._admin = None
        with ThreadPoolExecutor(len(self._nodes)) as together:
            list(together.map(Node.end, self._nodes))
        for node in self._nodes:
            node.release()
        if self._zookeeper:
            self._zookeeper.close()
        if self._directory is None or self._keep_directory or not self._directory.exists():
            return
        if not failed:
            shutil.rmtree(self._directory, ignore_errors=True)
            return
        for node in self._nodes:
            for folder in ("data", "tmp"):
                shutil.rmtree(self._directory / f"node-{node.number}" / folder, ignore_errors=True)
        print(f"logs of {self.name} (Kafka {self.version}) are kept in {self._directory}", file=sys.stderr)

    def running(self, node: int = 1) -> bool:
        """False when the node was stopped, was killed or ended by itself."""
        return self._node(node).running

    def wait_until_ready(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Returns when the metadata show all nodes that run. Raises LocalKafkaError as :meth:`start`."""
        self._wait_for({node.number for node in self._nodes if node.running}, timeout_seconds)

    # ---- figures

    def cpu_seconds(self) -> float:
        """User and system time of all broker processes so far, ended ones included."""
        return sum(process.cpu_seconds() for node in self._nodes for process in node.processes)

    def peak_rss_bytes(self) -> int:
        """Sum over the nodes of each one's highest resident memory."""
        return sum(max((p.peak_rss_bytes() for p in node.processes), default=0) for node in self._nodes)

    def pid(self, node: int = 1) -> int:
        """Process id of a running node."""
        found = self._node(node)
        if found.process is None:
            raise LocalKafkaError(f"node {node} of {self.name} was never started")
        return found.process.pid

    # ---- topics

    def admin(self) -> AdminClient:
        """An AdminClient on the open listener, made once."""
        if self._admin is None:
            logger = logging.getLogger("srm_common.testing.librdkafka")
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
            self._admin = AdminClient({"bootstrap.servers": self.internal_servers, **ADMIN_SETTINGS}, logger=logger)
        return self._admin

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = 120.0,
    ) -> None:
        """Creates a topic, by default with the brokers' own number of replicas, and returns when the leaders of its
        partitions answer for them, and every node that answers knows it: brokers name leaders a moment before these
        have made their logs, and those that hold no replica hear of a topic last."""
        deadline = time.monotonic() + timeout_seconds
        create_topic(self.admin(), self.name, name, partitions, replication_factor, config, timeout_seconds)
        if len(self._nodes) > 1:
            wait_for_nodes(self.internal_servers, self.name, name, partitions, deadline)

    def made_on_demand(self) -> set[str]:
        """Topics that nodes created because a client requested their metadata (``auto.create.topics.enable``); without
        Kafka's own. Taken from the nodes' logs; nodes with ZooKeeper do not log it."""
        logs = (self.log_path(number) for number in self.nodes)
        made = made_on_demand(log.read_text(errors="replace") for log in logs if log.exists())
        return {topic for topic in made if not topic.startswith("__")}

    # ---- inside

    def _wait_for(self, numbers: Iterable[int], timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Until the metadata show these nodes. Raises when one has ended, though it were before the first look."""
        expected = set(numbers)
        deadline = time.monotonic() + timeout_seconds
        for node in self._nodes:
            while node.number in expected and not (node.internal or node.client).answers():
                self._check_alive(node, deadline)
                time.sleep(0.05)
        while True:
            try:
                seen = set(self.admin().list_topics(timeout=2).brokers)
            except KafkaException:
                seen = set()
            if expected <= seen:
                return
            for node in self._nodes:
                if node.number in expected:
                    self._check_alive(node, deadline)
            time.sleep(0.05)

    def _node(self, number: int) -> Node:
        if not 1 <= number <= len(self._nodes):
            raise LocalKafkaError(f"{self.name} has nodes 1 to {len(self._nodes)}, not {number}")
        return self._nodes[number - 1]

    def _chosen(self, number: int | None) -> tuple[Node, ...]:
        return self._nodes if number is None else (self._node(number),)

    def _check_alive(self, node: Node, deadline: float) -> None:
        if not node.running:
            raise LocalKafkaError(f"node {node.number} of {self.name} ended while starting; {self._log_end(node)}")
        if time.monotonic() > deadline:
            raise LocalKafkaError(f"node {node.number} of {self.name} is not ready in time; {self._log_end(node)}")

    def _log_end(self, node: Node) -> str:
        return f"{self.log_path(node.number)} ends with:\n{node.tail()}"

    def _prepare(self, node: Node, jars: Path) -> None:
        """Settings file and formatted data folder; data that are there are not touched."""
        folder = self.directory / f"node-{node.number}"
        folder.mkdir(parents=True, exist_ok=True)
        properties = folder / "server.properties"
        lines = [f"{key}={value}" for key, value in self._settings_of(node, folder).items()]
        properties.write_text("\n".join(lines) + "\n")
        if self._zookeeper:
            return  # the broker makes its folder itself
        format_storage(
            folder / "data", self.cluster_id, node.number, version=self.version, jars=jars, features=self._features
        )

    def _settings_of(self, node: Node, folder: Path) -> dict[str, str]:
        layout = ClusterLayout(
            self._nodes,
            self._client_protocol,
            zookeeper=self._zookeeper.address if self._zookeeper else None,
            racks=self._racks,
            remote_store=self.directory / "remote" if self._tiered else None,
        )
        return node_settings(layout, node, folder, self.version) | QUICK_SETTINGS[self._tuned_for] | self._settings

    def _launch(self, node: Node, jars: Path) -> None:
        folder = self.directory / f"node-{node.number}"
        if self._jvm:
            if node.hosted:
                node.hosted.stop(START_TIMEOUT_SECONDS)  # what a failed start has left
            node.hosted = self._jvm.launch(folder / "server.properties")
            return
        if self._zookeeper:
            self._zookeeper.wait_until_gone(node.number)
        archive = class_archive(self.version)
        arguments = [
            *JVM_OPTIONS[self._tuned_for],
            *([f"-XX:SharedArchiveFile={archive}"] if self._tuned_for == "tests" and archive.exists() else ()),
            *self._java_options,
            f"-XX:ErrorFile={folder}/hs_err.log",
            "-Djava.awt.headless=true",
            *logging_options(self.version, folder),
            "-cp",
            f"{jars}/*",
            "kafka.Kafka",
            str(folder / "server.properties"),
        ]
        node.runs_in(JavaProcess(arguments, output=folder / "log"))
