"""Imports modules once, in the processes from which Airflow forks others, instead of in each fork.

With LocalExecutor the scheduler forks its workers, and they fork a process for each task: nearly all CPU of a task with
little to do goes into imports, and what the scheduler has imported costs it nothing. The DAG processor forks a process
for each parse of a file. Other executors start tasks elsewhere, so there is nothing to do for them.

Code that was upgraded in place counts at once, as it does without all this: a process that finds its modules' files
changed drops what it inherited, and imports again.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Mapping

from airflow.configuration import conf

_LOG = logging.getLogger(__name__)
#: ``0`` in the environment of scheduler and DAG processor switches it off.
VARIABLE = "SRM_PRELOAD"
_PACKAGE = "srm_common"
_DAG_MODULES = (
    "srm_common.airflow_bridge.dag_factory",
    "srm_common.airflow_bridge.moves.move_dag_factory",
    "srm_common.airflow_bridge.verification.verify_dag",
)
#: What tasks import when they run.
_TASK_MODULES = (
    "srm_common.airflow_bridge.alarms",
    "srm_common.airflow_bridge.lag_report",
    "srm_common.domain.runs.run_options",
    "srm_common.replication.spark.driver_pass",
    "srm_common.usecases.filters.effective_filters",
    "srm_common.usecases.monitoring.raw_metrics",
    "srm_common.usecases.monitoring.report_run",
    "srm_common.usecases.moving.failover",
    "srm_common.usecases.moving.switch_direction",
    "srm_common.usecases.offsets.resume_points",
    "srm_common.usecases.offsets.sync_checkpoints",
    "srm_common.usecases.runs.emit_heartbeat",
    "srm_common.usecases.runs.replicate",
    "srm_common.usecases.runs.run_journal",
    "srm_common.usecases.topics.refresh_topics",
    "srm_common.usecases.verification.kept_verification",
    "srm_common.usecases.verification.shared_verification",
)
#: By the command of Airflow that this process runs.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "scheduler": _DAG_MODULES + _TASK_MODULES,
    "dag-processor": _DAG_MODULES,
}
#: The files of the modules that were imported here, and what they were like.
_files: dict[str, tuple[int, int]] = {}


def preload() -> None:
    """Called when a component of Airflow begins. A module that cannot be imported is logged: the task that needs it
    fails with the reason."""
    # A listener is notified of a job's start before the job knows which one it is.
    command = next(iter(sys.argv[1:2]), "")
    if os.environ.get(VARIABLE) == "0" or (command == "scheduler" and not _forks_tasks()):
        return
    for name in _MODULES.get(command, ()):
        try:
            importlib.import_module(name)
        except ImportError as error:
            _LOG.warning("%s is not imported ahead: %s", name, error)
        _files.update(_looks_of(_ours()))


def drop_outdated() -> None:
    """Forget all modules of this project, if the file of any has changed since it was imported by :func:`preload`."""
    if _files and _looks_of(_files) != _files:
        _LOG.warning("%s has changed since Airflow was started; restart it to have tasks start quickly again", _PACKAGE)
        _files.clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]
        importlib.invalidate_caches()


def _forks_tasks() -> bool:
    return "LocalExecutor" in conf.get("core", "executor", fallback="")


def _ours() -> list[str]:
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == _PACKAGE]
    return [file for module in modules if (file := getattr(module, "__file__", None))]


def _looks_of(files: Mapping[str, object] | list[str]) -> dict[str, tuple[int, int]]:
    """Time of the last change and size; (0, 0) of a file that is gone."""
    found = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            found[file] = (0, 0)
        else:
            found[file] = (status.st_mtime_ns, status.st_size)
    return found
