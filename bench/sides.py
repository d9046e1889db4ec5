"""What a side of the comparison must be able to do, and the two clusters both work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.process_tree import ProcessTree
from srm_common.testing import LocalKafka


@dataclass(frozen=True)
class Clusters:
    """Source and target, one broker each, so that a broker's log is one directory.

    ``security`` is what a properties file has to say of both, behind their aliases. The benchmark itself comes in by
    the open listeners.
    """

    source: LocalKafka
    target: LocalKafka
    security: Mapping[str, str] = field(default_factory=dict)

    def broker_cpu_seconds(self) -> float:
        return self.source.cpu_seconds() + self.target.cpu_seconds()

    @staticmethod
    def log_directory(kafka: LocalKafka) -> Path:
        return kafka.directory / f"node-{kafka.nodes[0]}" / "data"


@dataclass(frozen=True)
class Flow:
    """One copy job. ``alias`` is the source's name; it is new for every run, so every run starts from nothing.

    ``security`` is that of the clusters. ``run_seconds``: a long run, which copies what comes in and should not let it
    wait; 0 copies what is there.
    """

    alias: str
    topic_pattern: str
    codec: str
    record_bytes: int
    exactly_once: bool
    run_seconds: float = 0.0
    transforms: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    security: Mapping[str, str] = field(default_factory=dict)

    @property
    def target_alias(self) -> str:
        return "backup"

    def remote_topic(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.alias}.internal"


class Side(Protocol):
    """A running copier."""

    name: str

    def start(self, clusters: Clusters, flow: Flow, folder: Path) -> None: ...

    def tree(self) -> ProcessTree:
        """Of the running process, to look at its CPU time and memory."""
        ...

    def running(self) -> bool: ...

    def log_tail(self) -> str: ...

    def finish(self) -> float:
        """Lets it end, or ends it, and returns the CPU seconds of its tree's whole life.

        The tree is still being watched. Raises BenchError when it failed.
        """
        ...

    def abandon(self) -> None:
        """Ends it, however it is. Never raises for a process that has ended."""
        ...


def flow_properties(flow: Flow, source_servers: str, target_servers: str) -> dict[str, str]:
    """What both sides are told of one flow: its clusters and topics, the same parallelism, and nothing but copying."""
    source, target = flow.alias, flow.target_alias
    arrow = f"{source}->{target}"
    return {
        "clusters": f"{source},{target}",
        f"{source}.bootstrap.servers": source_servers,
        f"{target}.bootstrap.servers": target_servers,
        **{f"{alias}.{key}": value for alias in (source, target) for key, value in flow.security.items()},
        f"{arrow}.enabled": "true",
        f"{arrow}.topics": flow.topic_pattern,
        f"{arrow}.groups.exclude": ".*",
        "tasks.max": "2",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
        f"{source}.consumer.isolation.level": "read_committed",
    }
