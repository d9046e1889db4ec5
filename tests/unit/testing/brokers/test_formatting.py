"""Where a new node looks for the feature levels of its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.testing.brokers import formatting
from srm_common.testing.brokers.formatting import bootstrap_checkpoint, format_storage, random_id


@pytest.mark.parametrize("version", ["3.3.2", "3.9.1", "4.3.1", "4.3"])
def test_before_4_4_it_is_a_file_of_its_own(version: str) -> None:
    assert bootstrap_checkpoint(version) == Path("bootstrap.checkpoint")


@pytest.mark.parametrize("version", ["4.4.0", "4.4", "4.10.0", "5.0.0"])
def test_since_4_4_it_is_a_snapshot_of_the_metadata_log(version: str) -> None:
    assert bootstrap_checkpoint(version).parent == Path("__cluster_metadata-0")


def test_ids_are_no_options() -> None:
    assert not [one for _ in range(2000) if (one := random_id()).startswith("-") or len(one) != 22]


@pytest.mark.parametrize(
    ("cache", "runs"), [("cache", 1), ("file/cache", 2)], ids=["kept", "where nothing can be kept"]
)
def test_the_tool_runs_once_if_its_result_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str, runs: int
) -> None:
    """A cache may be shared for reading; nodes are formatted all the same."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SRM_CACHE", str(tmp_path / cache))
    calls = []

    def tool(scratch: Path, *_: object) -> Path:
        calls.append(scratch)
        made = scratch / "bootstrap.checkpoint"
        made.write_text("levels")
        return made

    monkeypatch.setattr(formatting, "_run_storage_tool", tool)
    for node in (1, 2):
        format_storage(tmp_path / str(node), random_id(), node, version="4.3.1", jars=tmp_path, features={})
        assert (tmp_path / str(node) / "bootstrap.checkpoint").read_text() == "levels"
    assert len(calls) == runs
