"""The archive for workers has all that slots import, or is not written."""

from __future__ import annotations

import importlib.metadata
import tarfile
from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.replication.spark import worker_archive
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


def test_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers lack what they lead to."""
    installed = importlib.metadata.distribution("crc32c")
    for file in installed.files or ():
        if ".." not in file.parts and (origin := Path(str(file.locate()))).is_file():
            link = tmp_path / "linked" / str(file)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(origin)
    (info,) = (tmp_path / "linked").glob("*.dist-info")
    linked = importlib.metadata.Distribution.at(info)
    monkeypatch.setattr(worker_archive, "NEEDED", ("crc32c",))
    monkeypatch.setattr(worker_archive, "NEEDED_TO_VERIFY", ())
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: linked if name == "crc32c" else _none(name))
    pack_worker_archive(tmp_path / "workers.tar.gz")
    with tarfile.open(tmp_path / "workers.tar.gz") as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert not [name for name, member in members.items() if not member.isfile()]
        module = archive.extractfile("crc32c/__init__.py")
        assert module is not None
        assert module.read() == Path(str(installed.locate_file("crc32c/__init__.py"))).read_bytes()


def _none(name: str) -> importlib.metadata.Distribution:
    raise importlib.metadata.PackageNotFoundError(name)
