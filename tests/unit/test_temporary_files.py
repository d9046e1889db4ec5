"""A session of tests that leaves something in the temporary folder fails, and names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests import temporary_files

temporary_files.of_session()


def pytest_sessionfinish(session):
    temporary_files.check(session)
"""


@pytest.mark.parametrize(
    ("body", "code", "kept"),
    [
        ("pass", 0, False),
        ("tempfile.mkdtemp(prefix='liblz4-')", 1, False),
        ("tempfile.mkdtemp(prefix='liblz4-'); assert False", 1, True),
    ],
)
def test_what_is_left_is_named(tmp_path: Path, body: str, code: int, kept: bool) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(f"import tempfile\n\n\ndef test_it():\n    {body}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SRM_TESTS"))}
    # No plugin is needed here, and some take a second to import.
    environment |= {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("these tests left in the temporary folder: liblz4-" in done.stdout) == (code == 1 and not kept)
    assert any(temporary.glob("srm-tests-*")) == kept
