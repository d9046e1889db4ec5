"""The archive for workers has all that slots import, or is not written."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.replication.spark.worker_archive import pack_worker_archive


def test_a_distribution_without_a_list_of_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """System packages have none: slots would fail on other machines, long after."""
    installed = importlib.metadata.distribution

    class Unlisted(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return installed("crc32c").read_text(filename) if filename == "METADATA" else None

        def locate_file(self, path: object) -> Path:
            return tmp_path / str(path)

    monkeypatch.setattr(
        importlib.metadata, "distribution", lambda name: Unlisted() if name == "crc32c" else installed(name)
    )
    with pytest.raises(ConfigError, match="crc32c is installed here without a list of its files; install it with pip"):
        pack_worker_archive(tmp_path / "workers.tar.gz")
    assert list(tmp_path.iterdir()) == []
