from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.replication.driver.run_folder import PREFIX, run_folder
from srm_common.replication.spark.spark_conf import spark_settings


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_with_the_run(temporary: Path) -> None:
    with run_folder() as folder:
        (folder / "spark-1").mkdir()
        assert list(temporary.iterdir()) == [folder]
    assert list(temporary.iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_the_next_and_nothing_else(temporary: Path) -> None:
    program = "from srm_common.replication.driver.run_folder import run_folder; import os, signal\n"
    program += "with run_folder() as f: (f / 'spark-1').mkdir(); os.kill(os.getpid(), signal.SIGKILL)"
    environment = {"TMPDIR": str(temporary), "PYTHONPATH": ":".join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", program], env=environment, timeout=120)
    assert killed.returncode == -9
    (forgotten,) = temporary.iterdir()
    assert [one.name for one in forgotten.iterdir()] == ["spark-1"]

    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    with run_folder() as mine, run_folder() as beside:
        assert not forgotten.exists()
        assert mine.is_dir(), "a run at work keeps its folder"
        assert beside.is_dir()
        assert (elsewhere / "kept").exists()


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_for_folders_is_named(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As network file systems have it."""
    (temporary / f"{PREFIX}other").mkdir()

    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    told = rf"^the folder {temporary}/{PREFIX}\w+ .* cannot be locked \({os.strerror(code)}\): TMPDIR must be on a "
    with pytest.raises(ConfigError, match=told), run_folder():
        raise AssertionError("without a lock")
    # Nobody knows whether the other one is in use.
    assert list(temporary.iterdir()) == [temporary / f"{PREFIX}other"]


def test_a_folder_that_another_run_takes_for_a_forgotten_one_is_left_to_it(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    taken: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if not taken:
            taken.append(descriptor)
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with run_folder() as folder:
        assert len(list(temporary.iterdir())) == 2
        assert folder.is_dir()


def test_the_drivers_jvm_keeps_its_files_where_it_is_told_else_where_python_does(temporary: Path) -> None:
    key = "spark.driver.extraJavaOptions"
    assert f'-Djava.io.tmpdir="{temporary}"' in spark_settings("local", 2)[key]
    assert '-Djava.io.tmpdir="/a b/c"' in spark_settings("local", 2, temporary=Path("/a b/c"))[key]
    assert "tmpdir" not in spark_settings("spark://h:7077", 2)["spark.executor.extraJavaOptions"]
