"""A configuration file that is edited while the service runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.rest.serving.watched_files import WatchedConfiguration

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
