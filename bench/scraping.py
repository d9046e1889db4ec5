"""What a scrape of ``/metrics`` costs: ``python -m bench.scraping``; ``--url`` for another database than SQLite."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import uvicorn
from fastapi import FastAPI

from bench.history import Shape, reports
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.ports import Access
from srm_common.rest.serving.logins import OpenAccess
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore

_FILE = "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\n"
_OPEN = "metrics.prometheus.open = true\n"


@contextmanager
def served(store: MetricsStore, folder: Path, settings: str = _OPEN, access: Access | None = None) -> Iterator[str]:
    """A service over ``store`` in a thread; gives the address of its metrics."""
    file = folder / "srm.properties"
    file.write_text(_FILE + settings)
    configuration = load_configuration(file)
    app = create_app(AppContext(access or OpenAccess(this_machine=True), store, None, lambda: configuration))
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


@click.command()
@click.option("--flows", default=10, show_default=True)
@click.option("--topics", default=100, show_default=True)
@click.option("--partitions", default=10, show_default=True)
@click.option("--scrapes", default=20, show_default=True)
@click.option("--url", help="Of an empty database, as SQLAlchemy writes it.")
def main(flows: int, topics: int, partitions: int, scrapes: int, url: str | None) -> None:
    """Scrape a service with so many flows, topics each, partitions each."""
    with tempfile.TemporaryDirectory(prefix="srm-bench-") as folder:
        store = MetricsStore(url or f"sqlite:///{folder}/metrics.db")
        shape = replace(Shape(flows, topics, partitions, days=0.01), end_ms=int(time.time() * 1000))
        for report in reports(shape):
            store.write(report)
        with served(store, Path(folder)) as address:
            for query in ("", "?detail=topic&mirror_maker=false"):
                seconds, processor, size = [], [], 0
                request = urllib.request.Request(address + query, headers={"Accept-Encoding": "gzip"})
                for _ in range(scrapes + 1):
                    started, begun = time.perf_counter(), time.process_time()
                    with urllib.request.urlopen(request) as answer:
                        size = len(answer.read())
                    seconds.append(time.perf_counter() - started)
                    processor.append(time.process_time() - begun)
                found = sorted(seconds[1:])  # the first one opens the database
                print(
                    f"{flows * topics * partitions:,} partitions, /metrics{query}: "
                    f"min {found[0] * 1000:.0f}, median {statistics.median(found) * 1000:.0f}, "
                    f"max {found[-1] * 1000:.0f} ms, of a processor {statistics.median(processor[1:]) * 1000:.0f} ms; "
                    f"{size / 1000:,.0f} kB compressed"
                )
        store.close()


if __name__ == "__main__":
    main()
