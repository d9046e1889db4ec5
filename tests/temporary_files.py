"""One temporary folder for all that the tests of a session start, which has to be empty at their end.

Whatever is killed cannot tidy up: what it would leave belongs into a folder of its test (``TMPDIR``, and
``java.io.tmpdir`` for a JVM; ``LocalProcess`` sees to both).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

_FOLDER = "SRM_TESTS_FOLDER"


def of_session() -> Path:
    """The session's folder, shared by its processes: ``tmp`` is the temporary one, others in it go with the session."""
    if _FOLDER not in os.environ:
        # Pytest's own stays where it is looked for, and is kept for three sessions.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        folder = Path(tempfile.mkdtemp(prefix="srm-tests-"))
        (folder / "tmp").mkdir()
        os.environ |= {_FOLDER: str(folder), "TMPDIR": str(folder / "tmp")}
        tempfile.tempdir = None
    return Path(os.environ[_FOLDER])


def check(session: pytest.Session) -> None:
    """Fails a session that went well and has left something. What failed ones left may say why."""
    if hasattr(session.config, "workerinput"):
        return
    folder = of_session()
    left = sorted(path.name for path in (folder / "tmp").iterdir())
    if session.exitstatus == pytest.ExitCode.TESTS_FAILED and left:
        print(f"\nwhat failed tests left is kept in {folder / 'tmp'}")
        return
    if session.exitstatus == pytest.ExitCode.OK and left:
        print(f"\nthese tests left in the temporary folder: {', '.join(left)}; see tests/temporary_files.py")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
