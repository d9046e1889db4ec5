"""The Spark application of this process, and how it starts.

Import is light, so that it can start while other modules are imported.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import srm_common
from srm_common.errors import SparkFailed
from srm_common.replication.spark.installed_pyspark import prefer_installed_pyspark
from srm_common.replication.spark.job_error import innermost_cause
from srm_common.replication.spark.spark_conf import (
    REQUIRED,
    account_environment,
    is_local,
    java_command,
    launch_settings,
    patient_master,
)
from srm_common.settings_files.sources.secret_variables import none_inherited

if TYPE_CHECKING:
    from pyspark import SparkContext

#: What spark-submit calls an application that was given no name.
_DEFAULT_NAMES = (None, "pyspark-shell", "replicate.py", "verify.py")

JVM_GONE = "the Spark application's JVM is gone; start the run again"

Made = TypeVar("Made")


class Ahead(Generic[Made]):
    """Something that is made in a thread of its own, while this one does something else. Call it for what was made; it
    raises what making it did."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._made: Future[Made] = Future()
        self._thread = threading.Thread(target=self._run, args=(make,), name="srm-ahead", daemon=True)
        self._thread.start()

    def _run(self, make: Callable[[], Made]) -> None:
        try:
            self._made.set_result(make())
        except BaseException as error:
            self._made.set_exception(error)

    def __call__(self) -> Made:
        return self._made.result()

    def wait(self) -> None:
        """Until it is made, or has failed."""
        self._thread.join()


def spark_context(settings: Callable[[str], Mapping[str, str]], master: str | None = None) -> SparkContext:
    """The Spark application of this process, started when there is none.

    ``settings`` gives, for a master, what to fill in where the operator said nothing. ``master`` None: the one that
    ``spark-submit`` was given. Workers on this machine run this process's Python, unless ``PYSPARK_PYTHON`` says
    otherwise. A JVM that is started here, and its children, do not inherit the environment's secrets.

    Raises :class:`SparkFailed` when it did not start, and :class:`.ConfigError` when ``spark-defaults.conf`` cannot be
    read.
    """
    prefer_installed_pyspark()
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    _do_without_numpy()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit. Only with the JVM at hand does a SparkConf hold what the operator gave.
        SparkContext._ensure_initialized()
    else:
        if is_local(master or "local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        needed = launch_settings(settings(master or "local"), os.environ)
        launch = SparkConf(loadDefaults=False, _jvm=None).setAll(list(needed.items()))
        os.environ.update(account_environment())
        try:
            # Standard output is for results, and what a JVM prints is not one.
            with none_inherited():
                gateway = SparkContext._gateway or launch_gateway(launch, {"stdout": 2})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            raise _not_started(error) from error
        SparkContext._ensure_initialized(gateway=gateway)
    conf = SparkConf()
    chosen = patient_master(master or conf.get("spark.master") or "local[2]")
    conf.setMaster(chosen)
    for key, value in settings(chosen).items():
        conf.setIfMissing(key, value)
    conf.setAll(list(REQUIRED.items()))
    if conf.get("spark.app.name") in _DEFAULT_NAMES:
        conf.setAppName(settings(chosen).get("spark.app.name", "srm"))
    if is_local(chosen):
        # Workers find this package where the driver found it, however that was.
        home = str(Path(srm_common.__file__).parents[1])
        given = conf.get("spark.executorEnv.PYTHONPATH")
        conf.set("spark.executorEnv.PYTHONPATH", home if not given else os.pathsep.join([given, home]))
    try:
        return SparkContext.getOrCreate(conf)
    except (Py4JError, PySparkException) as error:
        raise_interrupt(error)
        raise SparkFailed(f"Spark did not start with the master '{chosen}': {innermost_cause(error)}") from error


def _not_started(error: Exception) -> SparkFailed:
    """No JVM to talk to."""
    if isinstance(error, OSError):
        spark_home = os.environ.get("SPARK_HOME", "not set")
        return SparkFailed(f"Spark could not be started: {error}; SPARK_HOME is {spark_home}")
    if not java_command(os.environ):
        # Spark's scripts take it without looking, and have no other.
        if home := os.environ.get("JAVA_HOME"):
            return SparkFailed(f"JAVA_HOME is {home}, where there is no bin/java; correct or unset it")
        return SparkFailed("there is no Java to start Spark with: install Java 17 or later, or set JAVA_HOME")
    return SparkFailed("Spark's JVM has ended before it began to work; what it printed before this says why")


def _do_without_numpy() -> None:
    """Numbers and text are all that goes to the JVM. The converters for numpy arrays would, at the first call, import
    pandas only to find out whether numpy is there: 0.6 CPU-seconds."""
    from py4j import protocol

    protocol.INPUT_CONVERTER[:] = [
        converter for converter in protocol.INPUT_CONVERTER if not type(converter).__name__.startswith("Numpy")
    ]


def raise_interrupt(error: BaseException) -> None:
    """Raise a KeyboardInterrupt that PySpark has lost, as it does when its own clean-up fails as well."""
    found = error.__context__
    while found is not None:
        if isinstance(found, KeyboardInterrupt):
            raise found
        found = found.__context__
