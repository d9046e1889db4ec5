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
from importlib.util import find_spec
from pathlib import Path

import srm_common
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import ConfigError, SparkFailed
from srm_common.replication.slots.range_transforms import SqlAccess
from srm_common.replication.spark.slot_work import SlotWork, not_copied
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import class_archive, local_master, spark_settings
from srm_common.replication.spark.sql_pass import SqlPasses


def make_class_archive(path: Path | None = None) -> Path:
    """Start a small application that leaves its archive at ``path``, where later ones look for it by default.

    Takes about 30 s, and 145 MB of disk.

    Raises:
        SparkFailed: Spark does not work here.
        ConfigError: this account has no folder for it.
    """
    wanted = class_archive() if path is None else path
    if wanted is None:
        raise ConfigError("this account has no home folder for the archive; set SRM_SPARK_ARCHIVE to a file")
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
            raise SparkFailed(f"Spark's class archive could not be created: {reason}")
        # Atomically: a process that starts meanwhile sees the former file or the new one.
        made.replace(wanted)
    return wanted


def _application(archive: Path) -> None:
    """What the JVM of a flow does, as far as classes go: one job of two tasks in Python workers, and one of a flow with
    statements."""

    def settings(master: str) -> dict[str, str]:
        plain = spark_settings(master, 2, {"SRM_SPARK_ARCHIVE": "none"})
        flags = f'{plain["spark.driver.extraJavaOptions"]} -XX:ArchiveClassesAtExit="{archive}"'
        return {**plain, "spark.driver.extraJavaOptions": flags}

    context = spark_context(settings, local_master(2))
    gateway = context._gateway
    assert gateway is not None
    work = SlotWork(None, _nothing)  # type: ignore[arg-type]
    tasks = [SlotTask(slot, None, ()) for slot in range(2)]
    context.parallelize(tasks, 2).mapPartitions(work).collect()
    # An installation without them has no flows with statements.
    if all(find_spec(package) is not None for package in ("pandas", "pyarrow")):
        SqlPasses(context).collect(_SQL_JOB, tasks, _nothing_by_sql)
    context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)


def _nothing(job: CopyJob, task: SlotTask) -> SlotResult:
    return not_copied(task)


#: What statements do most: JSON, text, numbers and headers.
_STATEMENT = Statement(
    "transforms.sql",
    "SELECT CAST(get_json_object(CAST(value AS STRING), '$.id') AS BINARY) AS key, "
    "CAST(regexp_replace(CAST(value AS STRING), '[0-9]+', '#') AS BINARY) AS value, "
    "array_append(headers, named_struct('key', 'partition', 'value', CAST(CAST(partition AS STRING) AS BINARY))) "
    "AS headers, timestamp + INTERVAL 1 SECOND AS timestamp "
    "FROM records WHERE topic LIKE 'a%' AND CAST(offset AS INT) % 2 = 0 AND key IS NOT NULL",
)
_NOWHERE = ClusterSettings("nowhere", "localhost:9092", {}, {})
_SQL_JOB = CopyJob("warmup", "nowhere", _NOWHERE, _NOWHERE, "", 1, "", 1, statements=(_STATEMENT,))


def _nothing_by_sql(job: CopyJob, task: SlotTask, *, sql: SqlAccess) -> SlotResult:
    """A piece of records through Spark SQL, from and to nowhere."""
    import pyarrow as pa

    from srm_common.records.sql_statement import SQL_COLUMNS

    header = {"key": "a", "value": b"b"}
    record = {
        "topic": "a", "partition": 0, "offset": 4, "key": b"k", "value": b'{"id": 1}', "headers": [header],
        "timestamp": 0,
    }  # fmt: skip
    rows = 2000
    columns = {name: pa.array([record[name]] * rows, SQL_COLUMNS[name]) for name in sql.columns(0).reads}
    sql.evaluate(0, columns, rows, "records of no topic")
    return not_copied(task)


if __name__ == "__main__":
    _application(Path(sys.argv[1]))
