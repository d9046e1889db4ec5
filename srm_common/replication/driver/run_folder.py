"""The temporary files of a run, in a folder of their own in ``TMPDIR``. Most come from Spark's driver: libraries that
its JVM unpacks, folders for blocks. A killed process cannot clean up, so a run removes the folders of runs that are
gone before it makes its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from srm_common.errors import ConfigError

PREFIX = "srm-scratch-"


@contextmanager
def run_folder() -> Iterator[Path]:
    """A new folder, locked during the block and removed at its end.

    Raises:
        ConfigError: it cannot be locked where ``TMPDIR`` is.
    """
    remove_forgotten()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@cache
def folder_of_process() -> Path:
    """One run folder for the whole process, which has one JVM for all its runs; removed when the process ends."""
    ending = ExitStack()
    atexit.register(ending.close)
    return ending.enter_context(run_folder())


def remove_forgotten() -> None:
    """Remove this user's folders that no process holds any more."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry) for entry in entries if entry.name.startswith(PREFIX)]
    for folder in found:
        # Another process's, or already gone, or in use; where folders cannot be locked, nobody knows.
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid():
                lock = _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            # Before it is locked, another run may take it for a forgotten one.
            continue
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ConfigError(
                f"the folder {folder} for a run's temporary files cannot be locked ({error.strerror or error}): TMPDIR "
                "must be on a local disk, not on a network file system"
            ) from error
        if folder.exists():
            return folder, lock
        os.close(lock)


def _lock(folder: Path) -> int:
    """The kernel releases it when the process ends, however it ends.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it is gone, or the file system has no locks for folders.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
