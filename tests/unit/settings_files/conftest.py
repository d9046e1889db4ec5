"""Configurations that tests write and load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.settings_files.configuration import Configuration, load_configuration

#: Two clusters and no flow.
BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"

Load = Callable[[str], Configuration]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(text: str) -> Configuration:
        path = tmp_path / "srm.properties"
        path.write_text(text, encoding="utf-8")
        return load_configuration(path)

    return write_and_load
