"""One JVM for the nodes of many clusters. Kafka's classes are loaded and compiled once, so that a node starts in a
third of a second, and takes a quarter of the CPU of one that has a JVM of its own."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

from srm_common.errors import LocalKafkaError
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION, kafka_jars, major
from srm_common.testing.brokers.logging_settings import NODE_FOLDER, log_of_each_node
from srm_common.testing.java import JavaProcess
from srm_common.testing.local_server import LocalServer

#: Room for two dozen nodes, and otherwise what a node's own JVM has (node.py).
_OPTIONS = ("-Xmx1g", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.2")
_STARTING_SECONDS = 60.0
_WITHOUT_PY4J = "nodes in one JVM need py4j, which pyspark brings along: install it, or leave out 'jvm'"


class BrokerJvm(LocalServer):
    """A JVM to give to :class:`~srm_common.testing.LocalKafka`; ``with BrokerJvm() as jvm: LocalKafka(jvm=jvm)``.

    Of the newest version that ``LocalKafka`` starts by default. A node that ends by itself, as for a disk that cannot
    be written, ends the JVM, as it would its own.
    """

    def __init__(self) -> None:
        self.version = DEFAULT_KAFKA_VERSION
        self._folder: Path | None = None
        self._process: JavaProcess | None = None
        self._parameters: Any = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> Self:
        """Raises LocalKafkaError where py4j is missing, for Kafka before 4, and when the JVM ends."""
        try:
            from py4j.java_gateway import GatewayParameters, find_jar_path
        except ImportError:
            raise LocalKafkaError(_WITHOUT_PY4J) from None
        if major(self.version) < 4:
            raise LocalKafkaError(f"Kafka {self.version} cannot have several nodes in one JVM: leave out 'jvm'")
        self._folder = Path(tempfile.mkdtemp(prefix="srm-broker-jvm-"))
        arguments = [
            *_OPTIONS,
            f"-XX:ErrorFile={self._folder}/hs_err.log",
            "-Djava.awt.headless=true",
            *log_of_each_node(self._folder),
            "-cp",
            f"{kafka_jars(self.version)}/*:{find_jar_path()}",
            "py4j.GatewayServer",
            "--enable-auth",
            "0",
        ]
        self._process = JavaProcess(arguments, output=self._folder / "log")
        port, token = self._answer()
        # py4j would tell the JVM what Python has let go, long after the end; what is large is detached by name.
        self._parameters = GatewayParameters(port=int(port), auth_token=token, enable_memory_management=False)
        return self

    def close(self, *, failed: bool = False) -> None:
        """Ends the nodes that still run as well, and removes its log; with ``failed`` that stays and is named."""
        if self._process is not None:
            self._process.kill()
        self._process = None
        if self._folder is not None and failed:
            print(f"the log of the JVM that nodes shared is kept in {self._folder}", file=sys.stderr)
        elif self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def launch(self, properties: Path) -> HostedNode:
        """Begin to start a node with these settings. It logs into the folder in which they are.

        Raises LocalKafkaError when the JVM does not run.
        """
        if not self.running:
            raise LocalKafkaError(f"the JVM that nodes share does not run; last printed: {self.tail() or 'nothing'}")
        return HostedNode(self, self._parameters, properties)

    def tail(self) -> str:
        """The last lines of what no node has logged."""
        return "\n".join(self._printed()[2:][-15:])

    def _printed(self) -> list[str]:
        """Whole lines. The first two are py4j's port and token."""
        if self._process is None:
            return []
        whole = self._process.output.read_text(errors="replace").rpartition("\n")[0]
        return whole.splitlines()

    def _answer(self) -> tuple[str, str]:
        """py4j's port and token, from a folder that only this user may enter."""
        deadline = time.monotonic() + _STARTING_SECONDS
        while len(lines := self._printed()) < 2:
            if not self.running or time.monotonic() > deadline:
                printed = "\n".join(lines) or "nothing"
                raise LocalKafkaError(f"the JVM that nodes share did not start; it has printed: {printed}")
            time.sleep(0.02)
        return lines[0], lines[1]


class HostedNode:
    """A node in a JVM that it shares. It has no process id and cannot be killed or paused, only stopped."""

    def __init__(self, jvm: BrokerJvm, parameters: Any, properties: Path) -> None:
        from py4j.java_gateway import JavaGateway

        self._jvm, self._properties = jvm, properties
        self._folder = properties.parent
        # Of its own: py4j serves each connection by one thread, whose log, and that of all threads which it starts, is
        # this node's.
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._server: Any = None
        self._failure: Exception | None = None
        self._ended = False
        self._starting = threading.Thread(target=self._start, name=f"start {self._folder.name}", daemon=True)
        self._starting.start()

    @property
    def running(self) -> bool:
        """Or starting."""
        return not self._ended and self._failure is None and self._jvm.running

    def stop(self, timeout_seconds: float) -> None:
        """Orderly shutdown."""
        from py4j.protocol import Py4JError

        self._starting.join(timeout_seconds)
        if self.running and self._server is not None:
            # The JVM may end, and with it the node.
            with contextlib.suppress(Py4JError, OSError):
                self._server.shutdown()
                self._server.awaitShutdown()
                self._gateway.detach(self._server)
        self._ended = True
        self._gateway.close()

    def tail(self) -> str:
        """The last lines of its log, or why it did not start."""
        log = self._folder / "log"
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        return "\n".join(
            [*lines, *([str(self._failure)] if self._failure else []), *self._jvm.tail().splitlines()[-5:]]
        )

    def _start(self) -> None:
        from py4j.protocol import Py4JError

        try:
            java = self._gateway.jvm
            java.org.apache.logging.log4j.ThreadContext.put(NODE_FOLDER, str(self._folder))
            settings = java.org.apache.kafka.common.utils.Utils.loadProps(str(self._properties))
            config = java.kafka.server.KafkaConfig.fromProps(settings, False)
            server = java.kafka.server.KafkaRaftServer(config, java.org.apache.kafka.common.utils.Time.SYSTEM)
            server.startup()
            self._server = server
        except (Py4JError, OSError) as error:
            self._failure = error
