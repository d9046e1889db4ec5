"""A class-data archive of Spark's JVM: a third less CPU for each application that uses it.

Java's dynamic class-data sharing (JEP 350): one run writes down which classes it loaded, in the form the JVM uses;
later ones map that file instead of reading, verifying and linking the classes out of jars. The archive belongs to one
JDK and one set of jars; where it does not fit, the JVM continues without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import srm_common
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.errors import RunFailed
from srm_common.replication.spark.slot_work import SlotWork, not_copied
from srm_common.replication.spark.spark_conf import class_archive, local_master, spark_settings
from srm_common.replication.spark.spark_pass import spark_context


def make_class_archive(path: Path | None = None) -> Path:
    """Start a small application that leaves its archive at ``path``, where later ones look for it by default.

    Takes about 20 s, and 60 MB of disk. Raises :class:`RunFailed` when Spark does not work here.
    """
    wanted = class_archive() if path is None else path
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.parent) as folder:
        made = Path(folder) / wanted.name
        home = str(Path(srm_common.__file__).parents[1])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(made)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
        )
        if done.returncode or not made.is_file():
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise RunFailed(f"Spark's class archive could not be created: {reason}")
        # Atomically: a process that starts meanwhile sees the former file or the new one.
        made.replace(wanted)
    return wanted


def _application(archive: Path) -> None:
    """What the JVM of a flow does, as far as classes go: one job of two tasks in Python workers."""

    def settings(master: str) -> dict[str, str]:
        plain = spark_settings(master, 2, {"SRM_SPARK_ARCHIVE": "none"})
        flags = f"{plain['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={archive}"
        return {**plain, "spark.driver.extraJavaOptions": flags}

    context = spark_context(settings, local_master(2))
    gateway = context._gateway
    assert gateway is not None
    work = SlotWork(None, _nothing)  # type: ignore[arg-type]
    context.parallelize([SlotTask(slot, None, ()) for slot in range(2)], 2).mapPartitions(work).collect()
    context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)


def _nothing(job: CopyJob, task: SlotTask) -> SlotResult:
    return not_copied(task)


if __name__ == "__main__":
    _application(Path(sys.argv[1]))
