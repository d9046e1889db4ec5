"""The app over a real store with a day of history, a real configuration file and callers chosen by a header."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.datastructures import State

from bench.history import Shape, flow_names, reports
from srm_common.domain.flow import FlowName
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.peers.gateway import Peers
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import FakeCluster
from tests.unit.rest.airflow_stand_in import MemoryScheduler
from tests.unit.rest.people import HEADER, HeaderAccess

#: Nine flows, each with a scenario of its own (:class:`bench.history.Scenario`).
SHAPE = Shape(flows=9, topics=4, partitions=2, groups=3, days=0.1)
NAMES = flow_names(SHAPE.flows)


def configuration_text(names: Sequence[FlowName] = NAMES) -> str:
    """A file with these flows; those of the history."""
    aliases = sorted({alias for name in names for alias in (name.source, name.target)})
    # However long the tests take, no flow of the history is overdue meanwhile.
    lines = [f"clusters = {', '.join(aliases)}", "schedule.interval.seconds = 86400"]
    lines += [f"{alias}.bootstrap.servers = localhost:{port}" for port, alias in enumerate(aliases, 1)]
    lines += [f"{name}.enabled = true" for name in names]
    return "\n".join(lines) + "\n"


_apps: list[FastAPI] = []


def app_of(context: AppContext) -> FastAPI:
    """What :func:`create_app` makes, which takes FastAPI a tenth of a second for the routes: they are the same ones for
    every app of the session."""
    if not _apps:
        _apps.append(create_app(context))
    app = copy.copy(_apps[0])
    app.state = State({"context": context, "peers": Peers(context.configuration)})
    app.middleware_stack = None
    return app


@dataclass(frozen=True)
class Stage:
    context: AppContext
    scheduler: MemoryScheduler
    file: Path
    database: Path

    @cached_property
    def app(self) -> FastAPI:
        return app_of(self.context)

    def client(self, who: str | None = "viewer") -> TestClient:
        headers = {} if who is None else {HEADER: who}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with reports of the last hours."""
    path = tmp_path_factory.mktemp("history") / "metrics.db"
    store = MetricsStore(f"sqlite:///{path}")
    for report in reports(replace(SHAPE, end_ms=now_ms() - 1000)):
        store.write(report)
    store.close()
    return path


@contextmanager
def opened(history: Path, folder: Path) -> Iterator[Stage]:
    """A stage on a copy of the history."""
    file, database = folder / "srm.properties", folder / "metrics.db"
    file.write_text(configuration_text())
    database.write_bytes(history.read_bytes())
    store = MetricsStore(f"sqlite:///{database}", timeout_seconds=0.2)
    scheduler = MemoryScheduler(*NAMES)
    configuration = WatchedConfiguration(lambda: file, load=lambda path: load_configuration(path, connections=None))
    context = AppContext(HeaderAccess(), lambda: store, scheduler, configuration)
    yield Stage(context, scheduler, file, database)
    context.lag.close(0)  # its clusters are not there: nobody is to wait until it has noticed
    store.close()


@pytest.fixture
def stage(history: Path, tmp_path: Path) -> Iterator[Stage]:
    with opened(history, tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def same_stage(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """For tests that change nothing."""
    with opened(history, tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture(scope="module")
def source_kafka() -> Iterator[FakeCluster]:
    """In this folder clusters are fakes, shared by a file's tests. Use topic names of your own."""
    with FakeCluster(name="source") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def target_kafka() -> Iterator[FakeCluster]:
    with FakeCluster(name="target") as kafka:
        yield kafka
