"""The store of a web app that outlives its configuration file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from srm_common.errors import StoreError
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.rest.serving.watched_store import WatchedStore
from srm_common.settings_files.configuration import Configuration
from srm_common.store.location import open_store
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.schema import bring_up_to_date

TEXT = "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "srm.properties"


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[MetricsStore]:
    """Stores in the order in which they were closed."""
    stores: list[MetricsStore] = []
    close = MetricsStore.close

    def noted(store: MetricsStore) -> None:
        stores.append(store)
        close(store)

    monkeypatch.setattr(MetricsStore, "close", noted)
    return stores


@pytest.fixture
def watched(file: Path, tmp_path: Path) -> Iterator[Callable[[], MetricsStore]]:
    store = WatchedStore(WatchedConfiguration(lambda: file), {"AIRFLOW_HOME": str(tmp_path)})
    yield store
    store().close()


def at(file: Path, name: str) -> str:
    """The line of a configuration that keeps the store beside it, under ``name``."""
    return f"metrics.database.url = sqlite:///{file.parent}/{name}\n"


def test_a_file_that_is_readable_only_later_names_the_store(
    file: Path, watched: Callable[[], MetricsStore], closed: list[MetricsStore]
) -> None:
    first = watched()
    assert first.location == str(file.parent / "srm-metrics.db")
    assert first.flows() == []
    file.write_text("clusters =\n")
    assert watched() is first
    file.write_text(TEXT + at(file, "named.db"))
    second = watched()
    assert second.location == str(file.parent / "named.db")
    assert closed == [first]
    assert watched() is second


def test_what_becomes_unreadable_leaves_the_store_open(
    file: Path, watched: Callable[[], MetricsStore], closed: list[MetricsStore]
) -> None:
    file.write_text(TEXT + at(file, "named.db"))
    first = watched()
    file.write_text("clusters =\n")
    assert watched() is first
    file.unlink()
    assert watched() is first
    file.write_text(TEXT + at(file, "named.db") + "a->b.enabled = true\n")
    assert watched() is first, "it is where it was"
    assert not closed


def test_another_retention_counts_at_once(file: Path, watched: Callable[[], MetricsStore]) -> None:
    file.write_text(TEXT)
    first = watched()
    file.write_text(TEXT + "metrics.retention.raw.hours = 3\n")
    assert watched() is not first


def test_an_address_that_is_none_is_told_by_each_read_until_it_is_mended(
    file: Path, watched: Callable[[], MetricsStore]
) -> None:
    file.write_text(TEXT + "metrics.database.url = nonsense\n")
    with pytest.raises(StoreError, match=r"srm\.properties:4: .*metrics\.database\.url"):
        watched().flows()
    file.write_text(TEXT + at(file, "named.db"))
    assert watched().flows() == []


def test_the_environment_goes_before_the_file(file: Path, closed: list[MetricsStore]) -> None:
    mine = f"sqlite:///{file.parent}/mine.db"
    watched = WatchedStore(WatchedConfiguration(lambda: file), {"SRM_DATABASE": mine})
    assert watched().location == str(file.parent / "mine.db")
    file.write_text(TEXT + at(file, "named.db"))
    assert watched().location == str(file.parent / "mine.db")


def test_requests_at_the_same_time_share_what_is_opened(
    file: Path, watched: Callable[[], MetricsStore], closed: list[MetricsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[MetricsStore] = []

    def noted(configuration: Configuration | None, environment: Mapping[str, str]) -> MetricsStore:
        opened.append(open_store(configuration, environment))
        return opened[-1]

    monkeypatch.setattr(f"{WatchedStore.__module__}.open_store", noted)
    first = watched()
    file.write_text(TEXT + at(file, "named.db"))
    threads = 8
    together = threading.Barrier(threads)

    def asked(_: int) -> MetricsStore:
        together.wait(60)
        return watched()

    with ThreadPoolExecutor(threads) as pool:
        found = set(pool.map(asked, range(threads)))
    assert [first, *found] == opened
    assert closed == [first]


def test_a_read_under_way_ends_with_the_store_that_it_began_with(
    file: Path, watched: Callable[[], MetricsStore]
) -> None:
    first = watched()
    bring_up_to_date(first.engine)
    with first._reading() as connection:
        assert connection is not None
        file.write_text(TEXT + at(file, "named.db"))
        assert watched() is not first
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
