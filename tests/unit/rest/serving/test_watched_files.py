"""A configuration file that is edited while the service runs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.rest.serving import watched_files
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.connections.airflow_connections import AirflowConnection

TEXT = "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "srm.properties"
    file.write_text(TEXT + "a->b.enabled = true\n")
    watched = WatchedConfiguration(lambda: file)
    first = watched()
    assert watched() is first
    file.write_text(TEXT + "b->a.enabled = true\n# longer\n")
    assert FlowName("b", "a") in {flow.name for flow in watched().enabled_flows}


def test_a_file_that_breaks_and_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "srm.properties"
    watched = WatchedConfiguration(lambda: file)
    with pytest.raises(ConfigError, match="no such file"):
        watched()
    file.write_text("clusters =\n")
    with pytest.raises(ConfigError):
        watched()
    file.write_text(TEXT)
    assert set(watched().clusters) == {"a", "b"}


def test_connections_are_looked_up_where_the_file_is_read(tmp_path: Path) -> None:
    """Not in each request that needs them."""
    file = tmp_path / "srm.properties"
    file.write_text("clusters = a, b\na.connection = one\nb.connection = other\na->b.enabled = true\n")
    asked: list[str] = []

    def look_up(conn_id: str) -> AirflowConnection | None:
        asked.append(conn_id)
        return None if conn_id == "other" else AirflowConnection(conn_id, host="h")

    watched = WatchedConfiguration(lambda: file, lambda path: load_configuration(path, look_up))
    watched()
    assert sorted(asked) == ["one", "other"]
    assert list(watched().faults) == [FlowName("a", "b")]
    assert list(watched().clusters) == ["a"]
    assert sorted(asked) == ["one", "other"]


def test_nobody_waits_for_what_is_read_again_because_of_its_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "srm.properties"
    file.write_text(TEXT + "a->b.enabled = true\n")
    begun, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> Configuration:
        begun.set()
        assert go_on.wait(60)
        return load_configuration(path)

    loads = iter([load_configuration, slow])
    watched = WatchedConfiguration(lambda: file, lambda path: next(loads)(path))
    first = watched()
    monkeypatch.setattr(watched_files, "_OLDEST_SECONDS", 0.0)
    again: list[Configuration] = []
    thread = threading.Thread(target=lambda: again.append(watched()))
    thread.start()
    try:
        assert begun.wait(60)
        assert watched() is first
    finally:
        go_on.set()
        thread.join()
    assert again[0] is not first
