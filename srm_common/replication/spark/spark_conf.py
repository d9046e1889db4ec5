"""Every Spark setting of the project, in one place.

Import is light (no pyspark), so that a DAG file may hand these to ``spark-submit``. Whatever the operator
sets explicitly, on the command line, in ``spark-defaults.conf`` or in the Airflow connection, is left alone, except for
what is :data:`REQUIRED`. Java options of the driver precede the operator's: of two that contradict each other, Java
takes the later one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from srm_common.account import has_name, home_folder
from srm_common.settings_files.sources.spark_defaults import read_spark_defaults

LOG_SETTINGS = Path(__file__).with_name("spark-log4j2.properties")

#: Attempts of a Spark task. Only the first copies; a later one reports that it did nothing, so that one lost
#: worker neither fails the job nor ends the tasks beside it.
TASK_ATTEMPTS = 4

#: The smallest heap that Spark 4 accepts is 450 MB; records do not enter the JVM, or only a few MB at a time.
JVM_MEMORY = "512m"

#: A short-lived JVM: the cheapest collector.
_JVM_FLAGS = "-XX:+UseSerialGC"
#: One that schedules a few tasks and no more spends no time on the optimizing compiler.
_SCHEDULES_ONLY = " -XX:TieredStopAtLevel=1"
#: One that evaluates statements: the optimizing compiler is for what each record goes through, after forty times as
#: many calls and rounds as usual. All that Spark does once would cost it as much again as the whole start
#: (docs/adr/0016).
#: Its stacks have room for regular expressions with groups that repeat, which recurse for each repetition in a value.
_EVALUATES = (
    " -Xss16m -XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=24000"
    " -XX:Tier4CompileThreshold=600000 -XX:Tier4BackEdgeThreshold=1600000"
)

#: How an operator chooses another: a JVM with two does not start.
_COLLECTOR = re.compile(r"-XX:\+Use(?:Serial|Parallel|ParallelOld|G1|Z|Shenandoah|Epsilon)GC\b")
#: Options that each JVM takes from its environment, and those of spark-submit's.
_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")

#: Spark takes these from the environment where the file does not have them.
_VARIABLES = {"SPARK_DRIVER_MEMORY": "spark.driver.memory", "DEPLOY_MODE": "spark.submit.deployMode"}

#: Settings that a driver's JVM needs before it starts. A shell, which it is to pyspark, would draw a progress bar.
LAUNCH_SETTINGS = ("spark.driver.memory", "spark.driver.extraJavaOptions", "spark.ui.showConsoleProgress")

#: Whatever the operator has set, as a cluster's file may for all applications. A second copy of a running task copies
#: nothing, and if it ends first, Spark kills the one that copies: a large slot beside idle ones would never get on.
REQUIRED: Mapping[str, str] = {"spark.speculation": "false"}

_COMMON: Mapping[str, str] = {
    # No web server per run: parallel flows would fight for its port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # Whether a task has started is asked when a pass does not end; by itself, Spark may know it only seconds later.
    "spark.ui.liveUpdate.period": "0s",
    "spark.driver.memory": JVM_MEMORY,
    "spark.executor.memory": JVM_MEMORY,
    # A statement that overflows Java's stack ends its task, not the executor, which in a local master is everything.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.task.maxFailures": str(TASK_ATTEMPTS),
    "spark.dynamicAllocation.enabled": "false",
    # Python workers stay for the next pass: no fork, no imports.
    "spark.python.worker.reuse": "true",
    "spark.python.use.daemon": "true",
    # Data comes from Kafka; no worker is nearer to it than another.
    "spark.locality.wait": "0s",
    # A cancelled task must not continue writing.
    "spark.task.reaper.enabled": "true",
}


def spark_settings(
    master: str,
    tasks_max: int,
    environment: Mapping[str, str] | None = None,
    *,
    app_name: str | None = None,
    temporary: Path | None = None,
    statements: bool = False,
) -> dict[str, str]:
    """Spark settings of one flow's application.

    Args:
        master: ``local[n]``, ``spark://host:port``, ``yarn``, ``k8s://...``
        tasks_max: slots of the flow; no more cores than that are taken from a shared cluster.
        environment: where :func:`class_archive` is looked up; the process's own by default.
        temporary: where the driver's JVM unpacks libraries and keeps its blocks, such as a :func:`.run_folder`; by
            default where Python keeps temporary files, since Java by itself does not look at ``TMPDIR``.
        statements: whether the JVM evaluates ``transforms.sql`` for each record.
    """
    compiler = _EVALUATES if statements else _SCHEDULES_ONLY
    driver_flags = f"{_JVM_FLAGS}{compiler} -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    driver_flags += f' -Djava.io.tmpdir="{temporary or tempfile.gettempdir()}"'
    if not has_name():
        # Java does not know its home then, and Spark does not start without.
        driver_flags += f' -Duser.home="{home_folder() or "/nonexistent"}"'
    archive = class_archive(environment)
    if archive is not None and archive.is_file():
        # Without the log switches the JVM would explain itself when the archive does not fit it.
        driver_flags += f' -XX:SharedArchiveFile="{archive}" -Xlog:disable -Xlog:all=error:stderr'
    settings = {
        **_COMMON,
        "spark.driver.extraJavaOptions": driver_flags,
        # Executors' own environment, which is not known here, may choose a collector: a JVM with two does not start.
        "spark.executor.extraJavaOptions": compiler.strip(),
    }
    if app_name is not None:
        settings["spark.app.name"] = app_name
    if is_local(master):
        # Driver and executor are one process: nothing outside needs to reach it.
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.python.daemon.module"] = "srm_common.replication.spark.spark_daemon"
    else:
        settings["spark.cores.max"] = str(tasks_max)
        settings["spark.executor.cores"] = "1"
    return settings


def launch_settings(ours: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What of ``ours`` (:func:`spark_settings`) ``spark-submit`` is given for the driver's JVM.

    The command line would override ``spark-defaults.conf`` of its ``environment``. So the keys that are there are left
    out, and its Java options are added behind ours.

    Raises:
        ConfigError: ``spark-defaults.conf`` cannot be read.
    """
    theirs = operators_settings(environment)
    launch = {key: ours[key] for key in LAUNCH_SETTINGS if key not in theirs}
    key = "spark.driver.extraJavaOptions"
    extra = theirs.get(key, "")
    others = [
        theirs.get("spark.driver.defaultJavaOptions", ""),
        *(environment.get(one, "") for one in _OPTION_VARIABLES),
    ]
    # A JVM takes the later one of two options that contradict each other.
    launch[key] = f"{beside(ours[key], extra, *others)} {extra}".strip()
    return launch


def operators_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What holds for a ``spark-submit`` with this environment, unless its command line says otherwise: what is in
    ``spark-defaults.conf``, and those variables that stand for a setting.

    Raises:
        ConfigError: the file cannot be read.
    """
    home = spark_home(environment)
    folder = environment.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    named = {key: environment[variable] for variable, key in _VARIABLES.items() if environment.get(variable)}
    return named | (read_spark_defaults(Path(folder)) if folder else {})


def beside(flags: str, *theirs: str) -> str:
    """Our flags for a JVM that has other options as well: without our collector if these choose one."""
    return flags.replace(_JVM_FLAGS, "").strip() if _COLLECTOR.search(" ".join(theirs)) else flags


def spark_home(environment: Mapping[str, str]) -> str | None:
    """The Spark that is started: that of the environment, or that of the installed PySpark."""
    if environment.get("SPARK_HOME"):
        return environment["SPARK_HOME"]
    pyspark = importlib.util.find_spec("pyspark")
    return None if pyspark is None or pyspark.origin is None else str(Path(pyspark.origin).parent)


def class_archive(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where the JVM's class-data archive is looked for (``srm-control warmup`` makes it): ``SRM_SPARK_ARCHIVE``, or a
    file in the cache folder, named after Spark's version, and after the Java and the folder of Spark that it fits,
    since a JVM compares the paths of jars. It need not exist. None where there is no home folder for it."""
    variables = os.environ if environment is None else environment
    named = variables.get("SRM_SPARK_ARCHIVE")
    if named:
        return Path(named)
    cache, home = variables.get("SRM_CACHE"), home_folder()
    if not cache:
        if home is None:
            return None
        cache = str(home / ".cache" / "srm-kafka")
    try:
        spark = importlib.metadata.distribution("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Path(cache) / "spark-none.jsa"
    spark_home = variables.get("SPARK_HOME") or str(spark.locate_file("pyspark"))
    fits = hashlib.sha256(f"{java_command(variables)} {spark_home}".encode()).hexdigest()[:12]
    return Path(cache) / f"spark-{spark.version}-{fits}.jsa"


def account_environment() -> dict[str, str]:
    """What the environment of Spark's JVM needs, so that an account without a name may start it."""
    return {} if has_name() else {"SPARK_USER": os.environ.get("SPARK_USER") or f"uid{os.getuid()}"}


def java_command(environment: Mapping[str, str]) -> str:
    """The Java that Spark's scripts start, and when it was installed; empty without one."""
    home = environment.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if not found or not Path(found).is_file():
        return ""
    java = Path(found).resolve()
    return f"{java} {java.stat().st_mtime_ns}"


def patient_master(master: str) -> str:
    """``local[n]`` as ``local[n,attempts]``: without the second number a local master fails the job with its first
    lost worker, whatever ``spark.task.maxFailures`` says. Other masters are returned as they are."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return master if found is None else local_master(found[1] or 1)


def is_local(master: str) -> bool:
    """Whether workers run on the driver's machine."""
    return master.startswith("local")


def local_master(threads: int | str) -> str:
    """A master in this process with that many concurrent slots; ``*`` is one a core."""
    return f"local[{threads},{TASK_ATTEMPTS}]"
