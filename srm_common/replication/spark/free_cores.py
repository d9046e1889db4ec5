"""Jobs for which Spark finds no cores: told once, and not waited for without end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srm_common.errors import SparkFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext, SparkStageInfo

#: How long Spark may take until it starts the first task of a pass, or the next one of a verification.
START_SECONDS = 960.0

#: Where a cluster shows why it gives no executor, by the beginning of its master.
_SHOWN = {
    "spark:": "the master's page (port 8080)",
    "yarn": "the application's page at YARN's ResourceManager",
    "k8s:": "kubectl describe pod of its executors",
}


def waits_for_cores(context: SparkContext, tasks: int, which: Callable[[list[bool]], bool] = any) -> bool:
    """Whether ``which`` (any or all) of the active stages with so many tasks have started none of them."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    found = [_not_started(stage) for stage in stages if stage is not None and stage.numTasks == tasks]
    return bool(found) and which(found)


def _not_started(stage: SparkStageInfo) -> bool:
    return not (stage.numActiveTasks or stage.numCompletedTasks or stage.numFailedTasks)


def no_cores(master: str, what: str, seconds: float) -> SparkFailed:
    """The error; ``what`` was not started, such as ``none of the 2 slots of a pass``."""
    shown = next((place for begin, place in _SHOWN.items() if master.startswith(begin)), "what Spark logged")
    return SparkFailed(
        f"Spark has started {what} within {seconds:.0f} s: {master} has no free cores or no memory for an executor, or "
        f"its executors cannot reach the driver; {shown} says which: free or add cores, lower spark.executor.memory, "
        "or set spark.driver.host"
    )
