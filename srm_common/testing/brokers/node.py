"""One node of a local cluster: its ports and its processes."""

from __future__ import annotations

from collections.abc import Mapping

from srm_common.testing.java import JavaProcess
from srm_common.testing.ports import ReservedPort

JVM_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # Quick start and a small footprint: many brokers live for seconds only.
    "tests": ("-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    # What Kafka's own start script sets.
    "throughput": (
        "-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    ),
}  # fmt: skip


class Node:
    """Ports and processes of one node; the last process is the current one."""

    def __init__(self, number: int, separate_internal: bool) -> None:
        self.number = number
        self.client = ReservedPort()
        self.controller = ReservedPort()
        self.internal = ReservedPort() if separate_internal else None
        self.processes: list[JavaProcess] = []

    @property
    def process(self) -> JavaProcess | None:
        return self.processes[-1] if self.processes else None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.running

    def stop(self, timeout_seconds: float) -> None:
        if self.process:
            self.process.stop(timeout_seconds)

    def release(self) -> None:
        for port in (self.client, self.controller, self.internal):
            if port:
                port.release()
