"""What the texts of failed Spark jobs mean, as Spark 4.2 words them."""

from __future__ import annotations

import pytest

from srm_common.errors import ConfigError, LostProcess, SparkFailed
from srm_common.replication.spark.build import this_build
from srm_common.replication.spark.job_error import job_error

CALL = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
ABORTED = (
    f"{CALL}: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, "
    "most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (localhost executor driver): "
)
TRACE = """Traceback (most recent call last):
  File "worker.py", line 3592, in main
    func, profiler, deserializer, serializer = read_command(pickleSer, infile)
                                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
RAISED = (
    f"{CALL}: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python "
    f"worker: {TRACE}"
)
#: Spark SQL's.
RAISED_BY_SQL = f"An exception was thrown from the Python worker:\n{TRACE}"
STATE = "\n SQLSTATE: 38000\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator(PythonRunner.scala:665)\n"
DAEMON = """org.apache.spark.SparkException:
Error from python worker:
    File "x.py", line 3
  {}
PYTHONPATH was:
  /a:/b
org.apache.spark.SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout
"""
NO_PROGRAM = 'java.io.IOException: Cannot run program "/opt/srm/bin/python"'
MISMATCH = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
    "version{0} 3.10 than that in driver{0} 3.12, PySpark cannot run with different minor versions.\nPlease check "
    "environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set."
)


def fault(text: str, master: str = "spark://h:7077") -> ConfigError | SparkFailed | LostProcess:
    return job_error(text, "copy", "pass", master)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # Java up to 21, and later ones.
        (
            f"{ABORTED}{NO_PROGRAM}: error=2, No such file or directory\n",
            "they have no Python at /opt/srm/bin/python; set",
        ),
        (
            f"{ABORTED}{NO_PROGRAM}: Exec failed, error: 2 (No such file or directory) \n",
            "they have no Python at /opt/srm",
        ),
        (f"{ABORTED}{NO_PROGRAM}: error=13, Permission denied\n", "they have no Python at /opt/srm/bin/python; set"),
        (RAISED + MISMATCH.format(":") + STATE, "their Python is 3.10, the driver's 3.12; set spark.pyspark.python"),
        (RAISED_BY_SQL + MISMATCH.format(""), "to the path of a Python 3.12 on them"),
        (
            f"{RAISED}ModuleNotFoundError: No module named 'srm_common'{STATE}",
            "(ModuleNotFoundError: No module named 'srm_",
        ),
        (
            f"{RAISED_BY_SQL}ModuleNotFoundError: No module named 'pyarrow'",
            "named 'pyarrow'); install the package with its",
        ),
        (
            f"{RAISED}ImportError: cannot import name 'x' from 'kafka.net' (/a.py){STATE}",
            "(/a.py)); install the package",
        ),
        (
            f"{RAISED}AttributeError: module 'kafka' has no attribute 'x'{STATE}",
            "attribute 'x'); install the package with",
        ),
        (
            f"{RAISED}pyspark.errors.PySparkImportError: [UNSUPPORTED] PyArrow >= 18 must be{STATE}",
            "(PySparkImportError: [U",
        ),
        (ABORTED + DAEMON.format("SyntaxError: invalid syntax"), "(SyntaxError: invalid syntax); install the package"),
    ],
)
def test_workers_that_cannot_run_it_are_for_the_operator(text: str, told: str) -> None:
    found = fault(text)
    assert isinstance(found, ConfigError)
    assert str(found).startswith("Spark workers cannot run the copy")
    assert told in str(found)
    assert str(found).endswith(", see docs/spark.md")
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'srm_common.replication.spark.build'",
        "ImportError: cannot import name 'x' from 'srm_common.domain.cluster' (/a/cluster.py)",
        "AttributeError: Can't get attribute 'x' on <module 'srm_common.domain.cluster' from '/a/cluster.py'>",
    ],
)
def test_workers_whose_package_lacks_something_have_another_version(line: str) -> None:
    found = fault(RAISED + line + STATE)
    assert isinstance(found, ConfigError)
    assert str(found).startswith(
        f"Spark's workers have another version of srm-kafka than the driver, which has {this_build()} ({line}): install"
    )
    assert "srm-control pack" in str(found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ABORTED}{NO_PROGRAM}: error=12, Cannot allocate memory\n", "aborted due to stage failure"),
        (
            f"{ABORTED}ExecutorLostFailure (executor 1 exited caused by one of the running tasks)\n",
            "ExecutorLostFailure",
        ),
        # Not where the trace begins.
        (f"{RAISED}EOFError{STATE}", "Spark gave up the pass: EOFError"),
        (
            f"{RAISED_BY_SQL}srm_common.errors.LostProcess: no relay\n",
            "Spark gave up the pass: srm_common.errors.LostProc",
        ),
    ],
)
def test_what_may_pass_is_a_lost_worker(text: str, told: str) -> None:
    found = fault(text)
    assert isinstance(found, LostProcess)
    assert told in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    ("master", "told"), [("local[2]", "what it logged says why"), ("spark://h:7077", "spark://h:7077")]
)
def test_an_application_that_has_ended(master: str, told: str) -> None:
    found = fault("org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down", master)
    assert isinstance(found, SparkFailed)
    assert told in str(found)
