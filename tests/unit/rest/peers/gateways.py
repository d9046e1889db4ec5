"""A gateway beside another service on a real socket; only Kafka, where it would find that service, is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI

from bench.history import Scenario, Shape, flow_names, reports
from bench.scraping import served
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.rest.app import AppContext
from srm_common.rest.peers.gateway import Peers
from srm_common.rest.ports import Access
from srm_common.rest.query_parameters import now_ms
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from tests.unit.rest.conftest import app_of

SHAPE = Shape(flows=len(Scenario), topics=2, partitions=1, groups=1, days=0.15, interval_seconds=900)
NAMES = flow_names(SHAPE.flows)
#: The gateway's one flow of its own, of which the other service has reports, too.
OWN = NAMES[1]
#: What the other service is called.
OTHER = "west"


@contextmanager
def their_history(folder: Path) -> Iterator[MetricsStore]:
    """Of all flows in ``NAMES``."""
    store = MetricsStore(f"sqlite:///{folder}/metrics.db")
    for report in reports(replace(SHAPE, end_ms=now_ms())):
        store.write(report)
    yield store
    store.close()


@contextmanager
def gateway_beside(theirs: MetricsStore, folder: Path, access: Access) -> Iterator[FastAPI]:
    """The gateway's app."""
    aliases = sorted({alias for name in NAMES for alias in (name.source, name.target)})
    file = folder / "gateway.properties"
    file.write_text(
        f"clusters = {', '.join(aliases)}\n"
        + "".join(f"{alias}.bootstrap.servers = {alias}:9092\n" for alias in aliases)
        + f"{OWN}.enabled = true\nservice.gateway.enabled = true\nservice.peers.timeout.seconds = 60\n"
    )
    configuration = load_configuration(file)
    own = MetricsStore(f"sqlite:///{folder}/own.db")
    app = app_of(AppContext(access, lambda: own, None, lambda: configuration))
    with served(theirs, folder) as address:
        other = Advertisement.of(OTHER, address.removesuffix("/metrics"), [OTHER], 1000)

        def found(cluster: ClusterSettings, *, timeout_seconds: float) -> tuple[list[Advertisement], list[str]]:
            return [replace(other, seen_ms=now_ms())], []

        app.state.peers = Peers(lambda: configuration, read=found)
        yield app
    own.close()
