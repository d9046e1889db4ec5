"""What is sent to workers arrives where they have the driver's build of this package, and nowhere else."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import srm_common
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.errors import ConfigError
from srm_common.replication.spark import build
from srm_common.replication.spark.build import SameBuild, accepted, this_build
from srm_common.replication.spark.job_error import job_error
from srm_common.replication.spark.slot_work import Relay, SlotWork, SqlSlotWork, copy_in_worker
from srm_common.replication.spark.spark_verification import VerificationWork
from srm_common.replication.spark.sql_channel import SqlPipe

NOWHERE = ClusterSettings("a", "localhost:9", {}, {})
JOB = CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1)
PIPE = SqlPipe(b"", (), 1, 1, 1.0)

#: A worker: it takes what it is sent, and prints what became of it.
WORKER = """
import pickle, sys
work = pickle.load(sys.stdin.buffer)
print(work.job.flow if hasattr(work, "job") else list(work([])))
"""


class Field:
    """Says when it arrives."""

    arrived = False

    def __reduce__(self) -> tuple[object, ...]:
        return Field._arrive, ()

    @staticmethod
    def _arrive() -> Field:
        Field.arrived = True
        return Field()


def copy(job: CopyJob, task: SlotTask) -> SlotResult:
    raise AssertionError("nothing is copied here")


def verify(*_: object) -> object:
    raise AssertionError("nothing is compared here")


def sent_to(root: Path) -> subprocess.CompletedProcess[bytes]:
    """Work for a slot, received where the package is in ``root``."""
    return subprocess.run(
        [sys.executable, "-c", WORKER],
        input=pickle.dumps(SlotWork(JOB, copy_in_worker)),
        env={"PYTHONPATH": str(root), "PATH": os.environ["PATH"]},
        cwd=root.parent,
        capture_output=True,
        timeout=300,
    )


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., Path]:
    """Copies the package to a folder as a worker may have it, changed or not."""

    def install(file: str = "", old: str = "", new: str = "") -> Path:
        root = tmp_path / "site"
        package = Path(srm_common.__file__).parent
        shutil.copytree(package, root / "srm_common", ignore=shutil.ignore_patterns("__pycache__", "rest"))
        if file:
            path = root / "srm_common" / file
            text = path.read_text()
            assert old in text
            path.write_text(text.replace(old, new, 1))
        return root

    return install


@pytest.mark.parametrize(
    "work",
    [
        SlotWork(JOB, copy),
        Relay(PIPE),
        SqlSlotWork(JOB, (), copy, PIPE),
        VerificationWork("job", verify),  # type: ignore[arg-type]
    ],
    ids=lambda work: type(work).__name__,
)
def test_all_work_is_compared(work: SameBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(work)
    assert pickle.loads(sent) == work
    monkeypatch.setattr(build, "this_build", lambda: "0.0.1 (sources 0123)")
    results = list(pickle.loads(sent)(iter([])))
    if isinstance(work, Relay):
        assert results == []
        return
    found = (pickle.loads(row.column(0)[0].as_py()) if isinstance(work, SqlSlotWork) else row for row in results)
    with pytest.raises(ConfigError) as caught:
        accepted(found)
    sentence = str(caught.value)
    assert sentence.startswith(f"Spark's workers have srm-kafka 0.0.1 (sources 0123), the driver has {this_build()}: ")
    assert "spark.archives" in sentence
    assert "srm-control pack" in sentence


def test_builds_are_compared_before_any_field_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(SlotWork(Field(), copy))  # type: ignore[arg-type]
    monkeypatch.setattr(build, "this_build", lambda: "another")
    refused = pickle.loads(sent)
    assert not Field.arrived

    class Unreadable:
        def __iter__(self) -> Iterator[SlotTask]:
            raise AssertionError("tasks of a class that this build does not know")

    with pytest.raises(ConfigError, match="have srm-kafka another, the driver has"):
        accepted(refused(Unreadable()))
    assert not Field.arrived
    monkeypatch.undo()
    pickle.loads(sent)
    assert Field.arrived


def test_a_copy_elsewhere_without_web_pages_is_the_same_build(installed: Callable[..., Path]) -> None:
    done = sent_to(installed())
    assert done.stdout.decode().strip() == "a->b", done.stderr.decode()


def test_a_zip_file_of_it_is_the_same_build(installed: Callable[..., Path], tmp_path: Path) -> None:
    root = installed()
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in (root / "srm_common").rglob("*"):
            zipped.write(path, path.relative_to(root))
    done = sent_to(archive)
    assert done.stdout.decode().strip() == "a->b", done.stderr.decode()


def test_a_worker_without_a_newer_field_refuses(installed: Callable[..., Path]) -> None:
    """The version is the same, as between two states of a checkout."""
    done = sent_to(installed("domain/runs/copying.py", "    compacted: bool = False\n", ""))
    told = done.stdout.decode()
    assert "Spark's workers have srm-kafka " in told, done.stderr.decode()
    assert f"the driver has {this_build()}: install" in told


def test_a_worker_from_before_the_comparison_fails_and_is_told_apart(installed: Callable[..., Path]) -> None:
    root = installed()
    (root / "srm_common" / "replication" / "spark" / "build.py").unlink()
    done = sent_to(root)
    assert done.returncode
    fault = job_error(done.stderr.decode(), "copy", "pass", "spark://h:7077")
    assert isinstance(fault, ConfigError)
    assert f"have another version of srm-kafka than the driver, which has {this_build()} (Module" in str(fault)
    assert "srm-control pack" in str(fault)
