"""``srm-control run``: the tasks of a flow's DAG, in this process."""

from __future__ import annotations

import signal
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, Seconds, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, console, table
from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.metrics.stats import PERCENTILES
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.runs.run_options import RunOptions, narrowing
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.topics.actions import ActionResult
from srm_common.errors import SrmError

if TYPE_CHECKING:
    from srm_common.replication.driver.passes import PassRunner
    from srm_common.usecases.filters.effective_filters import EffectiveFilters
    from srm_common.usecases.flows.flow_clusters import FlowClusters

#: Partitions in the table for people; JSON has all.
_ROWS = 40


def _split(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else split_list(value)


@dataclass(frozen=True)
class _SideTask:
    """What a task besides the copy did: its result for machines, or why it failed."""

    task: str
    result: Any = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"task": self.task, "result": self.result, "error": self.error}


@click.command("run")
@flow_option
@config_option
@output_option
@click.option("--max-seconds", type=Seconds(), metavar="S", help="Keep reading for this long; 0: one pass.")
@click.option("--topics", callback=_split, metavar="A,B.*", help="Only topics that match one of these expressions.")
@click.option("--topics-exclude", callback=_split, metavar="A,B.*", help="Not the topics that match one of these.")
@click.option(
    "--start",
    default="committed",
    show_default=True,
    metavar="WHERE",
    help="Where this run starts: committed, earliest, latest, timestamp:<milliseconds or ISO 8601>.",
)
@click.option("--run-id", metavar="ID", help="Repeat a failed run under its id, so that --start applies only once.")
@click.option("--master", metavar="URL", help="Spark's master.  [default: local, as many slots as tasks.max]")
@click.option(
    "--no-report",
    "unreported",
    is_flag=True,
    help="Do not store the report of the run for top, serve and the page.",
)
@pass_invocation
def run_command(
    invocation: Invocation,
    flow: str | None,
    max_seconds: float | None,
    topics: tuple[str, ...] | None,
    topics_exclude: tuple[str, ...] | None,
    start: str,
    run_id: str | None,
    master: str | None,
    unreported: bool,
) -> Answer:
    """Run a flow once, without Airflow: refresh topics, write a heartbeat, copy, write checkpoints.

    The same code as the tasks of the flow's DAG. Interrupting it is safe: the next run resumes where it stopped. Its
    report is stored where top, serve and the page on this machine find it (docs/metrics-store.md).

    \b
    Exit codes: 0 all partitions are copied; 1 some partition or topic failed, the output says which; 2 the
    configuration is invalid; 3 a cluster cannot be reached; 4 a state topic is not trustworthy; 5 another run owns
    the flow.
    """
    from srm_common.kafka.client.connections.event_loop import interrupt
    from srm_common.usecases.filters.effective_filters import record_found
    from srm_common.usecases.flows.flow_clusters import FlowClusters
    from srm_common.usecases.runs.replicate import replicate
    from srm_common.usecases.topics.refresh_topics import refresh_topics

    now = invocation.flow_now(flow)
    settings = now.flow
    options = RunOptions(
        run_id=run_id or f"manual__{time.strftime('%Y-%m-%dT%H:%M:%S')}__{uuid.uuid4().hex[:6]}",
        topics=topics,
        topics_exclude=topics_exclude,
        max_seconds=max_seconds,
        start=StartPosition.parse(start),
        notes=now.faults,
    )
    with FlowClusters(settings) as clusters:
        record_found(clusters, now)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: interrupt())
        narrow = narrowing(options)
        watched = invocation.output == "table" and sys.stderr.isatty()
        try:
            actions = list(refresh_topics(clusters, at_once=True, narrow=narrow).results)
            beat = _beat(clusters)
            with _progress() if watched else nullcontext() as progress:
                record = replicate(clusters, options, pass_runner(settings, master), progress)
        except SrmError as error:
            if not unreported:
                _report(invocation, clusters, now, options.run_id, str(error))
            raise
        beside = [*_checkpoints(clusters), *beat]
        if not unreported:
            _report(invocation, clusters, now, options.run_id)
        # A run of other topics brings no heartbeats.
        limited = topics is not None or topics_exclude is not None
        return answer(record, actions, beside, None if limited else _silence(clusters, record))


def _report(
    invocation: Invocation, clusters: FlowClusters, now: EffectiveFilters, run_id: str, unable: str | None = None
) -> None:
    """Into the history; a failure to write it is a warning, since the run is done."""
    from srm_common.usecases.monitoring.report_run import report_by_hand

    configuration = invocation.configuration()
    for fault in report_by_hand(clusters, run_id, configuration, unable=unable, filters=now):
        print(f"srm-control: warning: {fault}", file=sys.stderr)


def answer(
    record: RunRecord, actions: list[ActionResult], beside: list[_SideTask], silence: str | None = None
) -> Answer:
    """A run for people and machines; ``silence`` says that the source's heartbeats stay away."""
    unhappy = [result for result in actions if result.error is not None]
    failed = record.state is RunState.FAILED or bool(unhappy) or any(task.error for task in beside)
    return Answer(
        data={
            "flow": record.flow,
            "run_id": record.run_id,
            "state": record.state.value,
            "started_ms": record.started_ms,
            "finished_ms": record.finished_ms,
            "passes": record.passes,
            "records": record.records,
            "bytes": record.bytes,
            "lag": record.backlog.most,
            "lag_bounds": record.backlog.to_json(),
            "notes": [*record.notes, *filter(None, [silence])],
            "topics": [result.to_json() for result in actions],
            "partitions": [_partition_json(partition) for partition in record.partitions],
            "after": [task.to_json() for task in beside],
        },
        text=_text(record, unhappy, beside, silence),
        exit_code=1 if failed else 0,
    )


def _progress() -> Any:
    from srm_common.cli.run_progress import RunProgress

    return RunProgress(console(stderr=True))


def pass_runner(settings: FlowSettings, master: str | None) -> PassRunner:
    """Copies the slots of a pass in Spark, where that is worth it; ``master`` None: on this machine."""
    from srm_common.replication.driver.run_folder import folder_of_process
    from srm_common.replication.spark.driver_pass import DriverPassRunner
    from srm_common.replication.spark.spark_application import spark_context
    from srm_common.replication.spark.spark_conf import local_master, spark_settings
    from srm_common.replication.spark.spark_pass import SparkPassRunner

    name = f"srm {settings.name}"
    spark = SparkPassRunner(
        lambda: spark_context(
            lambda chosen: spark_settings(
                chosen,
                settings.tasks_max,
                app_name=name,
                temporary=folder_of_process(),
                statements=settings.needs_spark_sql,
            ),
            master or local_master(settings.tasks_max),
        )
    )
    return DriverPassRunner(settings.spark_min_bytes, spark)


def _beat(clusters: FlowClusters) -> list[_SideTask]:
    from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat

    return [_done("emit_heartbeat", lambda: emit_heartbeat(clusters))] if clusters.flow.emit_heartbeats else []


def _checkpoints(clusters: FlowClusters) -> list[_SideTask]:
    from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints

    wanted = clusters.flow.emit_checkpoints or clusters.flow.emit_offset_syncs
    return [_done("sync_checkpoints", lambda: sync_checkpoints(clusters, at_once=True))] if wanted else []


def _done(task: str, work: Callable[[], Any]) -> _SideTask:
    """A task that fails does not keep the others from their work."""
    try:
        result = work()
    except SrmError as error:
        return _SideTask(task, error=str(error))
    faults = getattr(result, "faults", ())
    fault = f"{counted(len(faults), 'fault')}, the first: {faults[0]}" if faults else None
    return _SideTask(task, _plain(result), fault)


def _plain(result: Any) -> Any:
    to_json = getattr(result, "to_json", None)
    return to_json() if to_json is not None else str(result)


def _partition_json(one: PartitionRecord) -> dict[str, Any]:
    names = [name for name in PartitionRecord.__slots__ if name != "latencies"]
    percentiles = {
        f"latency_ms_{name}": None if one.latencies is None else one.latencies.percentile(share)
        for name, share in PERCENTILES.items()
    }
    return {name: getattr(one, name) for name in (*names, "lag")} | percentiles


def _silence(clusters: FlowClusters, record: RunRecord) -> str | None:
    from srm_common.usecases.monitoring.heartbeats import heartbeat_report

    return heartbeat_report(clusters, run=record).silence if clusters.flow.emit_heartbeats else None


def _text(
    record: RunRecord, unhappy: list[ActionResult], beside: list[_SideTask], silence: str | None
) -> list[RenderableType]:
    from srm_common.usecases.runs.replicate import summary

    moved = [partition for partition in record.partitions if partition.records or partition.error or partition.lag != 0]
    text: list[RenderableType] = []
    if moved:
        rows = [
            [
                partition_record.upstream_topic,
                partition_record.partition,
                partition_record.records,
                partition_record.bytes,
                partition_record.position,
                partition_record.end,
                partition_record.lag,
                partition_record.error,
            ]
            for partition_record in sorted(
                moved, key=lambda one: (one.error is None, one.upstream_topic, one.partition)
            )[:_ROWS]
        ]
        text.append(table(["TOPIC", "PARTITION", "RECORDS", "BYTES", "POSITION", "END", "LAG", "ERROR"], rows))
        if len(moved) > _ROWS:
            text.append(f"... and {len(moved) - _ROWS} more; --output json has all")
        text.append("")
    text += [f"Note: {note}" for note in (*record.notes, *filter(None, [silence]))]
    text += [str(result) for result in unhappy]
    text += [f"FAILED: {task.task}: {task.error}" for task in beside if task.error is not None]
    text.append(summary(record))
    return text
