"""A world: a source and a target that are set up in a way of their own, and how a flow reaches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.settings.layers import Entry
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.testing import LocalKafka
from tests.faults.scenario import KEEPS_ITS_MARKERS
from tests.kafka.flows import flow_between


@dataclass(frozen=True)
class Side:
    """One cluster. ``properties`` are what a configuration file would say of it behind the alias."""

    kafka: LocalKafka
    properties: Mapping[str, str] = field(default_factory=dict)

    def cluster(self, alias: str) -> ClusterSettings:
        """What a flow is given."""
        written = {"bootstrap.servers": self.kafka.bootstrap_servers} | dict(self.properties)
        entries = {key: Entry(f"{alias}.{key}", value, "world", 0) for key, value in written.items()}
        return cluster_settings(alias, entries, lambda entry: entry.value)


@dataclass(frozen=True)
class World:
    """``settings`` are the flow's, ``topics`` those of topics at the source, as far as they are not compacted.

    ``ready`` waits until a topic of the source lies where the world wants it. ``beside`` are topics
    that each flow copies, too. ``records_a_second`` are written while a flow runs.
    """

    source: Side
    target: Side
    settings: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[str], object] = lambda topic: None
    beside: tuple[str, ...] = ()
    records_a_second: float = 2000.0
    #: Whether the flow may write to the source: offset syncs, and what a failback leaves there.
    writable_source: bool = True
    #: Whether records took the way that makes the world what it is, once a flow has copied them.
    proved: Callable[[], bool] = lambda: True

    def flow(self, name: str, **settings: Any) -> FlowSettings:
        """A flow with an alias and state topics of its own, that copies topics whose names begin with ``name``."""
        made = flow_between(self.source.kafka, self.target.kafka, name, **{**self.settings, **settings})
        alias = made.name.source
        return replace(
            made,
            source=self.source.cluster(alias),
            target=self.target.cluster(made.name.target),
            topics=(*made.topics, *self.beside),
        )

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """A topic of the source."""
        given = dict(config or {})
        if "compact" not in given.get("cleanup.policy", ""):
            given = {**self.topics, **given}
        self.source.kafka.create_topic(topic, partitions, config=given)

    @property
    def may_be_killed(self) -> tuple[Side, ...]:
        """The sides whose brokers may die: a target only where Kafka keeps the markers of its transactions."""
        return (self.source, self.target) if self.target.kafka.version == KEEPS_ITS_MARKERS else (self.source,)


class Stage:
    """What a world is built from; whatever is started here is ended with the world."""

    def __init__(self, folder: Path, session: pytest.Session) -> None:
        self.folder = folder
        self._session = session
        self._stack = ExitStack()

    def kafka(self, name: str, **options: Any) -> LocalKafka:
        """A cluster; its logs are kept when a test of the session failed."""
        return self.start(LocalKafka(name=name, **options))

    def start(self, kafka: LocalKafka) -> LocalKafka:
        """A cluster that was made elsewhere."""
        self._stack.callback(lambda: kafka.close(failed=self._session.testsfailed > 0))
        return kafka.start()

    def pair(self, *, target_version: str = KEEPS_ITS_MARKERS, **options: Any) -> tuple[LocalKafka, LocalKafka]:
        """A source of the newest version, and a target whose brokers may be killed; both with the same options."""
        target = {**options, "version": target_version}
        return self.kafka("source", **options), self.kafka("target", **target)

    def enter(self, block: Any) -> Any:
        """Enter a context manager that lasts as long as the world."""
        return self._stack.enter_context(block)

    def close(self) -> None:
        """End everything, the newest first."""
        self._stack.close()


@dataclass(frozen=True)
class Entrance:
    """A named world that has yet to be built. ``soak``: the scenarios that only ``make soak`` tells in it."""

    name: str
    build: Callable[[Stage], World]
    soak: frozenset[str]
