"""One JVM for the nodes of many clusters. Kafka's classes are loaded and compiled once, so that a node starts in a
third of a second, for an eighth of the CPU of one that has a JVM of its own."""

from __future__ import annotations

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
_OPTIONS = (
    "-Xmx1g", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.2",
    # Nodes that go on with half of their threads would be waited for.
    "-XX:+ExitOnOutOfMemoryError",
)  # fmt: skip
_STARTING_SECONDS = 60.0


class BrokerJvm(LocalServer):
    """A JVM to give to clusters of one node: ``with BrokerJvm() as jvm, LocalKafka(jvm=jvm) as kafka: ...``

    Of the version that ``LocalKafka`` starts by default; before Kafka 4, each node has a JVM of its own all the same. A
    node that ends by itself, as for a disk that cannot be written, ends this JVM and all other nodes.
    """

    def __init__(self) -> None:
        self.version = DEFAULT_KAFKA_VERSION
        #: Whether nodes run in it; before Kafka 4 their logs cannot be told apart.
        self.hosts = major(self.version) >= 4
        self._folder: Path | None = None
        self._process: JavaProcess | None = None
        self._parameters: Any = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> Self:
        """Raises LocalKafkaError where py4j is missing, and when the JVM ends."""
        if self.running or not self.hosts:
            return self
        try:
            from py4j.java_gateway import GatewayParameters, find_jar_path
        except ImportError:
            raise LocalKafkaError(
                "nodes in one JVM need py4j, which pyspark brings along: install it, or leave out 'jvm'"
            ) from None
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
        # Else py4j would tell the JVM what Python has let go, long after the end.
        self._parameters = GatewayParameters(port=int(port), auth_token=token, enable_memory_management=False)
        return self

    def close(self, *, failed: bool = False) -> None:
        """Ends the nodes that still run as well, and removes its log; with ``failed`` that stays and is named."""
        process, folder = self._process, self._folder
        self._process = self._folder = None
        try:
            if process is not None:
                process.kill()
        finally:
            if folder is not None and failed:
                print(f"the log of the JVM that nodes shared is kept in {folder}", file=sys.stderr)
            elif folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def launch(self, properties: Path) -> HostedNode:
        """Begin to start a node with these settings. It logs into the folder in which they are.

        Raises LocalKafkaError when the JVM does not run.
        """
        if not self.running:
            code = None if self._process is None else self._process.exit_code
            raise LocalKafkaError(
                f"the JVM that nodes share does not run (exit code {code}); last printed: {self.tail() or 'nothing'}"
            )
        return HostedNode(self, self._parameters, properties)

    def end(self) -> None:
        """Kill it: a node in it cannot be stopped, and must not write any more."""
        if self._process is not None:
            self._process.kill()

    def tail(self) -> str:
        """The last lines of what no node has logged."""
        lines, at = self._printed()
        return "\n".join([*lines[:at], *lines[at + 2 :]][-15:])

    def _printed(self) -> tuple[list[str], int]:
        """Whole lines, and where py4j's port and token are: behind what the JVM itself may have to say."""
        if self._process is None:
            return [], 0
        lines = self._process.output.read_text(errors="replace").rpartition("\n")[0].splitlines()
        return lines, next((number for number, line in enumerate(lines) if line.isdigit()), len(lines))

    def _answer(self) -> tuple[str, str]:
        """py4j's port and token, from a folder that only this user may enter."""
        deadline = time.monotonic() + _STARTING_SECONDS
        while True:
            lines, at = self._printed()
            if len(lines) >= at + 2:
                return lines[at], lines[at + 1]
            if not self.running or time.monotonic() > deadline:
                printed = "\n".join(lines[:at]) or "nothing"
                raise LocalKafkaError(f"the JVM that nodes share did not start; it has printed: {printed}")
            time.sleep(0.02)


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
        self._failure = ""
        self._ended = False
        self._starting = threading.Thread(target=self._start, name=f"start {self._folder}", daemon=True)
        self._starting.start()

    @property
    def running(self) -> bool:
        """Or starting."""
        return not self._ended and not self._failure and self._jvm.running

    def stop(self, timeout_seconds: float) -> None:
        """Orderly shutdown; also of what a failed start has left.

        Raises LocalKafkaError when that fails or takes too long: the JVM is killed then, since its files are about to
        go.
        """
        if self._ended:
            return
        self._ended = True
        stopping = threading.Thread(target=self._stop, name=f"stop {self._folder}", daemon=True)
        stopping.start()
        stopping.join(timeout_seconds)
        late, failed = stopping.is_alive(), bool(self._failure) and self._server is not None
        if (late or failed) and self._jvm.running:
            self._jvm.end()
            why = f"did not stop within {timeout_seconds:.0f} s" if late else "could not be stopped"
            raise LocalKafkaError(
                f"the node in {self._folder} {why}, so the JVM that it shares was killed; its log ends with:\n"
                f"{self.tail()}"
            )
        self._gateway.close()

    def tail(self) -> str:
        """The last lines of its log, and why it did not start."""
        log = self._folder / "log"
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        return "\n".join([*lines, *([self._failure] if self._failure else []), *self._jvm.tail().splitlines()[-5:]])

    def _start(self) -> None:
        try:
            java = self._gateway.jvm
            java.org.apache.logging.log4j.ThreadContext.put(NODE_FOLDER, str(self._folder))
            settings = java.org.apache.kafka.common.utils.Utils.loadProps(str(self._properties))
            config = java.kafka.server.KafkaConfig.fromProps(settings, False)
            self._server = java.kafka.server.KafkaRaftServer(config, java.org.apache.kafka.common.utils.Time.SYSTEM)
            self._server.startup()
        except Exception as error:  # whoever waits for the node is told
            self._failure = f"{type(error).__name__}: {error}"

    def _stop(self) -> None:
        self._starting.join()
        if self._server is None or not self._jvm.running:
            return
        try:
            # A controller that has started before its broker failed runs on.
            self._server.shutdown()
            self._server.awaitShutdown()
            self._gateway.detach(self._server)
            self._server = None
        except Exception as error:  # told by stop(), unless the JVM has ended meanwhile
            self._failure = f"{type(error).__name__}: {error}"
