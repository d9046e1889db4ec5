"""What a scrape of ``/metrics`` and the requests of the page cost: ``python -m bench.scraping``; ``--url`` for another
database than SQLite."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import uvicorn
from fastapi import FastAPI

from bench import results
from bench.history import Shape, flow_names, reports
from bench.machine import machine, now
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.ports import Access
from srm_common.rest.serving.logins import OpenAccess
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore

_FILE = "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\n"
#: Newest figures.
RESULT = Path(__file__).parent / "results" / "scraping.json"
_OPEN = "metrics.prometheus.open = true\n"


@contextmanager
def served(store: MetricsStore, folder: Path, settings: str = _OPEN, access: Access | None = None) -> Iterator[str]:
    """A service over ``store`` in a thread; gives the address of its metrics."""
    file = folder / "srm.properties"
    file.write_text(_FILE + settings)
    configuration = load_configuration(file)
    app = create_app(AppContext(access or OpenAccess(this_machine=True), lambda: store, None, lambda: configuration))
    with listening(app) as url:
        yield f"{url}/metrics"


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The app in a thread; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


#: What the page asks for (``flow_view.js``, ``tabs_data.js``) while it shows a flow's topics, one topic, its partitions
#: and the list of flows.
_FLOW = "/api/v2/flows/{source}/{target}"
_PAGE = (
    "/api/v2/flows?hours=1&limit=1000",
    f"{_FLOW}?hours=1",
    f"{_FLOW}/topics?order=-lag&offset=0&limit=50&hours=1",
    f"{_FLOW}/topics?order=topic&offset=900&limit=50&hours=1",
    f"{_FLOW}/topics/{{topic}}?hours=1",
    f"{_FLOW}/partitions?offset=5000&limit=100",
    f"{_FLOW}/metrics/replication-records-lag?hours=1&samples=200",
    f"{_FLOW}/metrics/byte-rate?hours=1&samples=200",
    f"{_FLOW}/metrics/replication-latency-ms?hours=1&samples=200",
    f"{_FLOW}/groups?offset=0&limit=50",
    f"{_FLOW}/runs?offset=0&limit=50",
)


@click.command()
@click.option("--repeats", default=20, show_default=True)
@click.option("--url", help="Of an empty database, as SQLAlchemy writes it.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULT, show_default=True)
def main(repeats: int, url: str | None, output: Path) -> None:
    """Scrape a service with 10 flows of 100 topics of 10 partitions, and ask it what the page asks for one flow of
    1,000 topics of 10 partitions."""
    scraped = _measured(
        Shape(10, 100, 10, days=0.01), ("/metrics", "/metrics?detail=topic&mirror_maker=false"), repeats, url
    )
    page = _measured(Shape(1, 1000, 10, 50, days=0.05, interval_seconds=900), _PAGE, repeats, url)
    slowest = max(page, key=lambda one: one["median_ms"])
    print(f"slowest request of the page: {slowest['request']}, {slowest['median_ms']} ms")
    result = {
        "date": now(),
        "machine": machine(),
        "repeats": repeats,
        "database": "SQLite" if url is None else url.partition(":")[0],
        "metrics of 10,000 partitions": scraped,
        "page of 1,000 topics of 10 partitions": page,
    }
    results.write(output, result)


def _measured(shape: Shape, requests: Sequence[str], repeats: int, url: str | None) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="srm-bench-") as folder:
        store = MetricsStore(url or f"sqlite:///{folder}/metrics.db")
        shape = replace(shape, end_ms=int(time.time() * 1000))
        (flow, *_) = flow_names(shape.flows)
        topic = ""
        for report in reports(shape):
            store.write(report)
            if report.run is not None:
                topic = report.run.partitions[0].upstream_topic
        with served(store, Path(folder)) as address:
            base = address.removesuffix("/metrics")
            found = [
                _timed(base, request.format(source=flow.source, target=flow.target, topic=topic), repeats)
                for request in requests
            ]
        store.close()
    return found


def _timed(base: str, path: str, repeats: int) -> dict[str, Any]:
    seconds, processor, size = [], [], 0
    request = urllib.request.Request(base + path, headers={"Accept-Encoding": "gzip"})
    for _ in range(repeats + 1):
        started, begun = time.perf_counter(), time.process_time()
        with urllib.request.urlopen(request) as answer:
            size = len(answer.read())
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - begun)
    # The first one opens the database.
    found = {
        "request": path,
        "median_ms": round(statistics.median(seconds[1:]) * 1000),
        "max_ms": round(max(seconds[1:]) * 1000),
        "processor_ms": round(statistics.median(processor[1:]) * 1000),
        "compressed_bytes": size,
    }
    print(*(f"{value} {name}" if name != "request" else value for name, value in found.items()), sep=", ")
    return found


if __name__ == "__main__":
    main()
