"""What a failed Spark job means: workers that cannot run this package, an application that has ended, or lost workers.

The words are Spark's (PySpark 4.0 to 4.2), Python's and Java's.
"""

from __future__ import annotations

import re

from srm_common.errors import ConfigError, LostProcess, SparkFailed
from srm_common.replication.spark.build import REMEDY, this_build
from srm_common.replication.spark.spark_conf import is_local

#: In the message of a job that fails because there is no application any more.
_APPLICATION_ENDED = ("SparkContext was shut down", "SparkContext has been shutdown", "stopped SparkContext")
#: Java could not start it: there is none, it may not, it is no program (ENOENT, EACCES, ENOEXEC, ENOTDIR). Others, such
#: as too little memory, may pass.
_NO_PYTHON = re.compile(r'Cannot run program "(.+?)".*\berror[=:] ?(?:2|13|8|20)\b')
_OTHER_PYTHON = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\] Python in worker has different version:? (\S+) than that in driver:? ([0-9.]+[0-9])"
)
#: What Python says of something to import, or to unpickle, that is not there, or not as the driver has it. All that a
#: slot meets at its work becomes the error of its partitions, so this is from before.
_NOT_LOADED = re.compile(r"\b((?:ModuleNotFound|\w*Import|Attribute|Syntax)Error: .+)")
#: The last line of a Python trace.
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_LONGEST = 300


def job_error(text: str, work: str, unit: str, master: str) -> ConfigError | SparkFailed | LostProcess:
    """The error of a failed job; ``text`` is the JVM's message with its traces. ``work`` and ``unit`` are for the
    sentence: what workers do, and what Spark has given up."""
    if any(words in text for words in _APPLICATION_ENDED):
        if is_local(master):
            return SparkFailed("Spark has ended the application; what it logged says why. Start the run again")
        return SparkFailed(
            f"Spark has ended the application, or its master {master} does not respond; what Spark logged says which"
        )
    if unfit := _unfit(text, work):
        return ConfigError(unfit)
    raised = _RAISED.search(text)
    lines = (line.strip() for line in text.splitlines() if "Exception" in line or "aborted" in line)
    first = raised[1] if raised is not None else next(lines, text)
    return LostProcess(f"Spark gave up the {unit}: {first[:_LONGEST]}")


def innermost_cause(error: Exception) -> str:
    """The innermost cause in a JVM's message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    found = causes[-1:] or [line.removeprefix(": ") for line in lines[1:2]] or lines[:1]
    return found[0][:300] if found else type(error).__name__


def _unfit(text: str, work: str) -> str | None:
    """Why no repetition would help, and what does: workers lack what they need."""
    if found := _NO_PYTHON.search(text):
        return (
            f"Spark workers cannot run the {work}: they have no Python at {found[1]}; set spark.pyspark.python, or "
            "PYSPARK_PYTHON where the run is submitted, to the path of theirs, see docs/spark.md"
        )
    if found := _OTHER_PYTHON.search(text):
        return (
            f"Spark workers cannot run the {work}: their Python is {found[1]}, the driver's {found[2]}; set "
            "spark.pyspark.python, or PYSPARK_PYTHON where the run is submitted, to the path of a Python "
            f"{found[2]} on them, see docs/spark.md"
        )
    if found := _NOT_LOADED.search(text):
        line = found[1].strip()[:_LONGEST]
        if "'srm_common." in line:
            return (
                "Spark's workers have another version of srm-kafka than the driver, which has "
                f"{this_build()} ({line}): {REMEDY}"
            )
        return (
            f"Spark workers cannot run the {work} ({line}); install the package with its dependencies on them, or ship "
            "it with --archives, see docs/spark.md"
        )
    return None
