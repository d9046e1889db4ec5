"""The tasks of a flow's DAG as plain values: no Airflow here, so that rules are tested without it.

::

    emit_heartbeat --------------------------------------------+
                                                               |
    refresh_topics -> replicate -> sync_checkpoints -> report_lag -> outcome

``replicate``, ``sync_checkpoints`` and ``report_lag`` run whatever happened before them: one topic that cannot be
created must not stop the others, one partition that fails must not freeze the checkpoints of the others, and a flow
that stalls must be seen to stall. ``outcome`` costs nothing (Airflow never starts it) and makes the run fail when any
task failed, since a run's state is that of its leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from urllib.parse import quote

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import MISCONFIGURED_TAG, tags_of
from srm_common.domain.monitoring.schedule import not_scheduled
from srm_common.domain.offsets.checkpoints import checkpoint_period_seconds, group_sync_period_seconds
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration

# A broken flow says so every minute: soon enough to be seen, seldom enough not to fill the database.
MISCONFIGURED_SCHEDULE = timedelta(minutes=1)


class Work(StrEnum):
    """What a task does; also its task id."""

    REFRESH_TOPICS = "refresh_topics"
    REPLICATE = "replicate"
    SYNC_CHECKPOINTS = "sync_checkpoints"
    EMIT_HEARTBEAT = "emit_heartbeat"
    REPORT_LAG = "report_lag"
    OUTCOME = "outcome"
    MISCONFIGURED = "misconfigured"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task. ``always``: it runs when all tasks before it have ended, whatever their state."""

    work: Work
    doc: str
    after: tuple[Work, ...] = ()
    always: bool = False
    retries: int = 0
    retry_delay: timedelta = timedelta(seconds=10)
    execution_timeout: timedelta | None = None
    pool: str = "default_pool"


@dataclass(frozen=True, slots=True)
class DagSpec:
    """One DAG. ``dag_id`` is the flow's own, unless that belongs to another flow; ``fault`` is the sentence that stops
    the flow, or None."""

    flow: FlowName
    dag_id: str
    schedule: timedelta | None
    paused_at_first: bool
    tags: tuple[str, ...]
    doc: str
    tasks: tuple[TaskSpec, ...]
    topics: tuple[str, ...] = ()
    run_max_seconds: float = 0.0
    spark_connection: str = "spark"
    fault: str | None = None

    @property
    def display_name(self) -> str:
        return self.flow.dag_id if self.fault is None else f"{self.flow.dag_id} (misconfigured)"


def flow_dag(
    settings: FlowSettings, web_path: str = "", *, goes_back: bool = False, warnings: Sequence[str] = ()
) -> DagSpec:
    """The DAG of a flow. ``web_path`` is the path under which Airflow's pages lie, for the links of the DAG's page;
    ``goes_back``: the opposite flow has a DAG, too; ``warnings`` are about keys without effect."""
    return DagSpec(
        flow=settings.name,
        dag_id=settings.name.dag_id,
        # Unpausing it in Airflow does not start a flow that the file disables.
        schedule=None if settings.disabled else timedelta(seconds=settings.schedule_interval_seconds),
        paused_at_first=not settings.enabled,
        tags=tags_of(settings.name),
        doc=_facts(settings) + _warned(warnings) + _links(settings.name, web_path, goes_back),
        tasks=tuple(_tasks(settings)),
        topics=settings.topics,
        run_max_seconds=settings.run_max_seconds,
        spark_connection=settings.spark_connection,
    )


def dag_ids(configuration: Configuration) -> dict[FlowName, str]:
    """The DAG id of every flow. One whose own id belongs to another flow is refused; the DAG that says so has to have
    some other id."""
    ids = {flow: flow.dag_id for flow in configuration.names if flow not in configuration.without_dag}
    taken = set(ids.values())
    for flow in sorted(configuration.without_dag):
        dag_id = flow.dag_id
        while dag_id in taken:
            dag_id += ".misconfigured"
        taken.add(dag_id)
        ids[flow] = dag_id
    return ids


def misconfigured_dag(flow: FlowName, fault: ConfigError, dag_id: str, *, enabled: bool | None = True) -> DagSpec:
    """The DAG of a flow whose keys are wrong: one task, which fails with the reason. ``enabled`` as the file
    has it all the same."""
    return DagSpec(
        flow=flow,
        dag_id=dag_id,
        schedule=None if enabled is False else MISCONFIGURED_SCHEDULE,
        # Once the error is fixed, the flow's own DAG takes this one's place, and is paused or not as this one was.
        paused_at_first=enabled is not True,
        tags=(*tags_of(flow), MISCONFIGURED_TAG),
        doc=f"## `{flow}` is disabled\n\n{fault}\n\nFix the file; the DAG then reappears. Other flows continue.\n",
        tasks=(TaskSpec(Work.MISCONFIGURED, doc=f"Fails with the reason why `{flow}` is disabled."),),
        fault=str(fault),
    )


def pool_of(settings: FlowSettings) -> str:
    """The Airflow pool that the flow's Spark jobs take a slot of."""
    return settings.airflow_pool.replace("{source}", settings.name.source).replace("{target}", settings.name.target)


def _tasks(settings: FlowSettings) -> list[TaskSpec]:
    retry_delay = timedelta(seconds=settings.retry_delay_seconds)
    limit = settings.execution_timeout_seconds
    timeout = timedelta(seconds=limit) if limit else None
    pool = pool_of(settings)

    def spec(work: Work, doc: str, *after: Work, always: bool = False, pool: str = "default_pool") -> TaskSpec:
        return TaskSpec(work, doc, after, always, settings.retries, retry_delay, timeout, pool)

    tasks = [
        spec(
            Work.REFRESH_TOPICS,
            f"Finds the topics to copy and prepares their copies on `{settings.name.target}`: creates them, adds "
            "partitions, keeps their settings in sync.",
        ),
        spec(
            Work.REPLICATE,
            "A Spark job copies what is new, in Kafka transactions. Runs even if some topics could not be prepared, "
            "so that the others are copied.",
            Work.REFRESH_TOPICS,
            always=True,
            pool=pool,
        ),
        spec(
            Work.SYNC_CHECKPOINTS,
            "Writes offset syncs and checkpoints, by which consumers resume on the other cluster.",
            Work.REPLICATE,
            always=True,
        ),
        spec(
            Work.REPORT_LAG,
            "Reports the lag to metrics, the flow's asset and this log. Runs also when the copy failed.",
            Work.SYNC_CHECKPOINTS,
            always=True,
        ),
    ]
    if settings.emit_heartbeats:
        # Not retried: a late heartbeat says nothing, and the next run writes a new one.
        beat = spec(Work.EMIT_HEARTBEAT, f"Writes a heartbeat to {_beating(settings)}.")
        tasks.append(replace(beat, retries=0))
    everything = tuple(task.work for task in tasks)
    tasks.append(TaskSpec(Work.OUTCOME, "Succeeds when every task did; the run's state is its state.", everything))
    return tasks


def _beating(settings: FlowSettings) -> str:
    clusters = {"source": settings.name.source, "target": settings.name.target}
    chosen = [name for place, name in clusters.items() if settings.heartbeats_location in (place, "both")]
    return " and ".join(f"`{name}`" for name in chosen)


def _facts(settings: FlowSettings) -> str:
    """Markdown for the DAG's page. No credentials: addresses and choices only."""
    name = settings.name
    pace = (
        f"every {settings.schedule_interval_seconds:g} s, one pass per run"
        if not settings.run_max_seconds
        else f"every {settings.schedule_interval_seconds:g} s, reading for {settings.run_max_seconds:g} s per run"
    )
    if settings.disabled:
        pace = f"only those started by hand or by a move: {not_scheduled(name)}"
    rows = [
        ("Source", f"`{name.source}` at `{settings.source.bootstrap_servers}`"),
        ("Target", f"`{name.target}` at `{settings.target.bootstrap_servers}`"),
        ("Topics", _patterns(settings.topics)),
        ("Left out", _patterns(settings.topics_exclude)),
        ("Copies are named", _example_names(settings)),
        ("Delivery", "exactly once" if settings.exactly_once else "at least once"),
        ("Runs", pace),
        ("Parallel slots", str(settings.tasks_max)),
        ("When records were lost at the source", str(settings.on_data_loss)),
        ("Checkpoints", _pace(checkpoint_period_seconds(settings))),
        ("Offsets of idle groups", _pace(group_sync_period_seconds(settings))),
    ]
    table = "\n".join(f"| {what} | {value} |" for what, value in rows)
    return (
        f"## `{name}`\n\n| | |\n|---|---|\n{table}\n\n"
        f"Pause this DAG to pause the flow. `srm-control status --flow '{name}'` prints every partition's position.\n"
    )


def _pace(seconds: float | None) -> str:
    return "no" if seconds is None else f"every {seconds:g} s at best"


def _warned(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    return "\nKeys without effect:\n\n" + "".join(f"- `{warning}`\n" for warning in warnings)


def _links(flow: FlowName, web_path: str, goes_back: bool) -> str:
    links = [
        f"[flow health]({web_path}/plugin/replications#/flows/{quote(flow.source)}/{quote(flow.target)})",
        f"[REST API]({web_path}/srm/docs)",
    ]
    if goes_back:
        back = FlowName(flow.target, flow.source)
        links.append(f"[the way back, {back}]({web_path}/dags/{back.dag_id})")
    return "\n" + " \u00b7 ".join(links) + "\n"


def _patterns(patterns: tuple[str, ...]) -> str:
    # A bar would end the table's cell.
    return ", ".join(f"`{pattern}`".replace("|", "\\|") for pattern in patterns) or "none"


def _example_names(settings: FlowSettings) -> str:
    return f"`orders` becomes `{settings.policy.format_remote_topic(settings.name.source, 'orders')}`"
