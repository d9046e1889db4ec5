"""What the store says when its database cannot be used."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from srm_common.errors import ConfigError, StoreError
from srm_common.store.metrics_store import MetricsStore
from tests.unit.store.made_up import FLOW, MIDNIGHT, partition, report

T = MIDNIGHT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.db"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("metrics.db", "needs the address of a database"),
        ("mysql://root:geheim@db/srm", "kind 'mysql'"),
        ("", "needs the address of a database"),
        ("postgresql://srm:geheim@db:port/srm", "needs the address of a database"),
    ],
)
def test_addresses_that_cannot_be_used(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        MetricsStore(url)
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "help_"),
    [
        ("sqlite+nix:////var/srm.db", "name its file as in sqlite:////path/to/file.db"),
        ("postgresql+nix://srm:geheim@db/srm", "install its driver"),
    ],
)
def test_drivers_that_are_not_there(url: str, help_: str) -> None:
    with pytest.raises(StoreError, match=f"cannot be used: .*nix; {help_}") as raised:
        MetricsStore(url)
    assert "geheim" not in str(raised.value)


def test_reading_makes_no_file(file: Path) -> None:
    assert MetricsStore(f"sqlite:///{file}").flows() == []
    assert not file.exists()


def test_a_locked_database(file: Path) -> None:
    store = MetricsStore(f"sqlite:///{file}", timeout_seconds=0.1)
    store.write(report(T, partition()))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"metrics\.db is locked: another process"):
        store.write(report(T + 1, partition()))
    assert len(store.runs(FLOW).rows) == 1, "readers do not wait for writers"
    other.execute("ROLLBACK")
    other.close()
    store.write(report(T + 1, partition()))
    assert len(store.runs(FLOW).rows) == 2


def test_a_damaged_database(file: Path) -> None:
    file.write_bytes(b"This is no database. " * 1000)
    store = MetricsStore(f"sqlite:///{file}")
    for question in (store.flows, lambda: store.write(report(T, partition()))):
        with pytest.raises(StoreError, match=r"is damaged .*only history is lost"):
            question()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = MetricsStore(f"sqlite:///{tmp_path / 'file' / 'metrics.db'}")
    with pytest.raises(StoreError, match="cannot be created"):
        store.write(report(T, partition()))


def test_a_server_that_is_not_there() -> None:
    store = MetricsStore("postgresql+psycopg2://srm:geheim@127.0.0.1:1/srm", timeout_seconds=1.0)
    for question in (store.flows, lambda: store.write(report(T, partition()))):
        with pytest.raises(StoreError, match=r"postgresql\+psycopg2://srm:\*\*\*@127\.0\.0\.1:1/srm") as raised:
            question()
        assert "geheim" not in str(raised.value)


def test_a_store_that_is_set_up_wrongly_says_so_at_each_use() -> None:
    store = MetricsStore.unusable("srm.properties:3: metrics.database.url is wrong")
    for question in (store.flows, lambda: store.write(report(T, partition()))):
        with pytest.raises(StoreError, match=r"srm\.properties:3"):
            question()
    store.close()


def test_deleting_the_file_loses_history_only(file: Path) -> None:
    store = MetricsStore(f"sqlite:///{file}")
    store.write(report(T, partition()))
    store.close()
    for one in file.parent.glob("metrics.db*"):
        one.unlink()
    assert store.flows() == []
    store.write(report(T + 1, partition()))
    assert [run.reported_ms for run in store.runs(FLOW).rows] == [T + 1]


def test_what_was_written_is_there_after_a_killed_writer(file: Path) -> None:
    script = f"""
import os
from srm_common.store.metrics_store import MetricsStore
from tests.unit.store.made_up import partition, report
store = MetricsStore({f"sqlite:///{file}"!r})
store.write(report({T}, partition()))
print("written", flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=os.getcwd(), timeout=300)
    assert done.stdout == "written\n", done.stderr
    assert len(MetricsStore(f"sqlite:///{file}").flows()) == 1
