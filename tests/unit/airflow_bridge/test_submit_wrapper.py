"""The submit wrapper with a spark-submit that only sleeps."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from srm_common import airflow_bridge

# As ``spark_job_operator.submit_wrapper``, which imports Airflow, has it: tests/airflow/test_install.py.
WRAPPER = str(Path(airflow_bridge.__path__[0], "srm-spark-submit"))
# All that the wrapper and the stand-in call, but setpriv.
TOOLS = ("sh", "sleep", "dirname", "cat", "env")


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A spark-submit that notes its process id and arguments, then does what the first argument says."""
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text('#!/bin/sh\necho "$$" > "$NOTE"\necho "arguments: $*"\n$1\n')
    submit.chmod(0o755)
    return submit.parents[1]


@pytest.fixture(params=["kernel", "watcher"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The PATH: one with setpriv, one without."""
    if request.param == "kernel":
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv here")
        return os.environ["PATH"]
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    return str(tools)


def gone(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def wait_for(note: Path) -> int:
    deadline = time.monotonic() + 180
    while not (note.exists() and note.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(note.read_text())


def test_spark_ends_with_its_parent(spark_home: Path, path: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    environment = {"PATH": path, "SPARK_HOME": str(spark_home), "NOTE": str(note)}
    start = f"import subprocess; subprocess.run([{WRAPPER!r}, 'sleep 60'])"
    parent = subprocess.Popen([sys.executable, "-c", start], env=environment, stdout=subprocess.DEVNULL)
    try:
        spark = wait_for(note)
        assert not gone(spark)
        parent.kill()
        parent.wait(300)
        deadline = time.monotonic() + 180
        while not gone(spark):
            assert time.monotonic() < deadline, "Spark outlives its parent"
            time.sleep(0.05)
    finally:
        parent.kill()


def test_it_is_the_process_that_airflow_kills(spark_home: Path, path: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    environment = {"PATH": path, "SPARK_HOME": str(spark_home), "NOTE": str(note)}
    process = subprocess.Popen([WRAPPER, "sleep 60"], env=environment, stdout=subprocess.DEVNULL)
    try:
        assert wait_for(note) == process.pid
    finally:
        process.kill()
        process.wait(300)


def test_its_output_ends_when_spark_does(spark_home: Path, path: str, tmp_path: Path) -> None:
    """Airflow reads to the end of the output before it asks for the exit code."""
    environment = {"PATH": path, "SPARK_HOME": str(spark_home), "NOTE": str(tmp_path / "note")}
    done = subprocess.run(
        [WRAPPER, "exit 3", "--x", "a b"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (3, "arguments: exit 3 --x a b\n")


def test_spark_does_without_what_is_withheld_and_stays_the_same_process(
    spark_home: Path, path: str, tmp_path: Path
) -> None:
    note, home = tmp_path / "note", tmp_path / "a=b"
    spark_home.rename(home)
    withheld = {"AIRFLOW_CONN_KAFKA": "hush", "my-secret.2": "hush", "LEFT": "hush * $HOME\nX=hush"}
    environment = {"PATH": path, "SPARK_HOME": str(home), "NOTE": str(note), "KEPT": "a b", **withheld}
    process = subprocess.Popen(
        [WRAPPER, "env", "--x", "a b"],
        env={**environment, "SRM_WITHHELD": f"{' '.join(withheld)} ABSENT"},
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert wait_for(note) == process.pid
    first, *variables = output.splitlines()
    assert first == "arguments: env --x a b"
    assert {"KEPT=a b", f"NOTE={note}", f"SPARK_HOME={home}"} <= set(variables)
    assert "hush" not in output
    assert "SRM_WITHHELD" not in output


def test_spark_beside_the_interpreter_is_found(spark_home: Path, tmp_path: Path) -> None:
    environment = {
        "PATH": os.defpath,
        "PYSPARK_PYTHON": str(spark_home / "bin" / "python"),
        "NOTE": str(tmp_path / "note"),
    }
    done = subprocess.run([WRAPPER, "true"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "arguments: true\n"


def test_a_missing_spark_is_named_with_what_to_do() -> None:
    environment = {"PATH": os.defpath, "SPARK_HOME": "/nowhere"}
    done = subprocess.run([WRAPPER], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 127
    assert done.stderr.startswith("srm: there is no /nowhere/bin/spark-submit; install pyspark")
