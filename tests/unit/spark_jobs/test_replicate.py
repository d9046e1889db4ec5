"""The Spark application says in a sentence why it cannot begin; its exit code is that of the error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROPERTIES = """
clusters = a, b
a.bootstrap.servers = localhost:9
b.bootstrap.servers = localhost:7
a->b.enabled = true
a->b.topics = t
"""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "the selection of the run cannot be read: [Errno 2] No such file or directory: "),
        (b"\xff", "the selection of the run cannot be read: 'utf-8' codec can't decode byte 0xff"),
        (b"{}", "this is not the selection of a run: KeyError('filters')"),
    ],
)
def test_a_selection_that_cannot_be_read(tmp_path: Path, content: bytes | None, reason: str) -> None:
    """As where Spark starts the driver on another machine, and does not bring the file."""
    config, selection = tmp_path / "srm.properties", tmp_path / "selection.json"
    config.write_text(PROPERTIES)
    if content is not None:
        selection.write_bytes(content)
    arguments = ("--flow", "a->b", "--config", str(config), "--run-id", "r", "--selection", str(selection))
    ended = subprocess.run(
        [sys.executable, "-m", "srm_common.spark_jobs.replicate", *arguments], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"srm: {reason}")
    assert "Traceback" not in ended.stderr
