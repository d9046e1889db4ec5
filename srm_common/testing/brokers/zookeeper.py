"""A ZooKeeper for brokers that are older than KRaft."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path

from srm_common.errors import LocalKafkaError
from srm_common.testing.brokers.logging_settings import logging_options
from srm_common.testing.java import JavaProcess
from srm_common.testing.ports import ReservedPort

#: A broker that was killed is considered gone after this long (Kafka's default: 18 s).
SESSION_MS = 2000
_TICK_MS = 500
_START_SECONDS, _SESSION_END_SECONDS = 180.0, 120.0


class LocalZooKeeper:
    """One server with its data in ``folder``; it lives as long as the cluster, whatever happens to the brokers."""

    def __init__(self) -> None:
        self._port = ReservedPort()
        self._process: JavaProcess | None = None

    @property
    def address(self) -> str:
        return self._port.address

    def start(self, folder: Path, version: str, jars: Path, jvm_options: Sequence[str]) -> None:
        """Returns when it answers; does nothing if it runs. ``version`` is Kafka's.

        Raises LocalKafkaError with the end of its log when it ends, or does not respond within 180 s.
        """
        if self._process is not None and self._process.running:
            return
        folder.mkdir(parents=True, exist_ok=True)
        host, _, port = self.address.rpartition(":")
        settings = folder / "zookeeper.properties"
        settings.write_text(
            f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress={host}\nmaxClientCnxns=0\n"
            f"tickTime={_TICK_MS}\nadmin.enableServer=false\n4lw.commands.whitelist=ruok,dump\n"
        )
        arguments = [*jvm_options, *logging_options(version, folder), "-Dzookeeper.jmx.log4j.disable=true"]
        arguments += ["-cp", f"{jars}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(settings)]
        self._process = process = JavaProcess(arguments, output=folder / "log")
        deadline = time.monotonic() + _START_SECONDS
        while self._say("ruok") != "imok":
            if not process.running or time.monotonic() > deadline:
                raise LocalKafkaError(f"ZooKeeper did not start; {process.output} ends with:\n{process.tail()}")
            time.sleep(0.05)

    def wait_until_gone(self, broker: int) -> None:
        """Until the session of a broker's former process has ended: before, it could not register again."""
        deadline = time.monotonic() + _SESSION_END_SECONDS
        while f"/brokers/ids/{broker}\n" in self._say("dump"):
            if time.monotonic() > deadline:
                raise LocalKafkaError(f"ZooKeeper keeps broker {broker} registered")
            time.sleep(0.05)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._port.release()

    def _say(self, word: str) -> str:
        """The response to one of ZooKeeper's four-letter words; empty if there is none."""
        host, _, port = self.address.rpartition(":")
        answer = b""
        try:
            with socket.create_connection((host, int(port)), timeout=10) as peer:
                peer.sendall(word.encode())
                while more := peer.recv(1 << 16):
                    answer += more
        except OSError:
            return ""
        return answer.decode()
