"""One node of a local cluster: its ports, its processes, and which topics the logs of nodes say were auto-created."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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

#: ``kafka.server.DefaultAutoTopicCreationManager``; written with Scala's brackets or Java's.
_MADE_ON_DEMAND = re.compile(r"Sent auto-creation request for \w*[(\[](.+)[)\]] to the active controller")
#: ``[2026-01-31 23:59:59,123]``
_TIME_LENGTH = 25
_RESULTS = "CreateTopics result(s): "


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


def made_on_demand(logs: Iterable[str]) -> set[str]:
    """The same of the logs of a cluster's nodes, Kafka's own topics included.

    A broker that has just started asks for topics that it has not heard of yet, too; the controller refuses that.
    """
    asked: dict[str, str] = {}
    created: dict[str, str] = {}
    for line in (line for log in logs for line in log.splitlines()):
        if found := _MADE_ON_DEMAND.search(line):
            _note_first(asked, found.group(1).split(", "), line)
        elif _RESULTS in line:
            results = line.partition(_RESULTS)[2].split("CreatableTopic(name='")[1:]
            _note_first(created, [one.partition("'")[0] for one in results if "): SUCCESS" in one], line)
    return {topic for topic, time_ in asked.items() if not created or time_ <= created.get(topic, "")}


def _note_first(times: dict[str, str], topics: Iterable[str], line: str) -> None:
    """Keep when a log first names each topic."""
    for topic in topics:
        times[topic] = min(line[:_TIME_LENGTH], times.get(topic, line[:_TIME_LENGTH]))
