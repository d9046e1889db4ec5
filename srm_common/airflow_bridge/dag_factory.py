"""From flows to DAGs: the only module in which plain task values become Airflow objects.

Runs whenever Airflow parses the DAG file, so it reads one properties file and nothing else: no broker, no Spark, no
database. Its result depends on that file alone; a value that changed from parse to parse would give each flow a new
DAG version every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, BaseOperator, Param, get_parsing_context
from airflow.sdk.configuration import conf

from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.airflow_bridge.dag_arguments import Additions
from srm_common.airflow_bridge.flow_tasks import DagSpec, TaskSpec, Work, dag_ids, flow_dag, misconfigured_dag
from srm_common.airflow_bridge.operators import (
    EmitHeartbeatOperator,
    MisconfiguredOperator,
    RefreshTopicsOperator,
    ReportLagOperator,
    SyncCheckpointsOperator,
)
from srm_common.airflow_bridge.replicate_operator import ReplicateOperator
from srm_common.airflow_bridge.watch_dag import build_watch_dag
from srm_common.airflow_bridge.watch_overdue import DAG_ID as WATCH_DAG_ID
from srm_common.domain.flow import FlowName
from srm_common.settings_files.checks import notices
from srm_common.settings_files.configuration import Configuration, load_configuration


def build_dags(config: str | Path | None, additions: Additions) -> dict[str, DAG]:
    """See :func:`srm_common.airflow_bridge.flow_dags`."""
    path = configuration_path(config)
    # A worker parses the file for one task of one DAG.
    only = get_parsing_context().dag_id
    # Airflow connections are for tasks; asking for them here would open Airflow's database at every parse.
    configuration = load_configuration(path, connections=None)
    ids = dag_ids(configuration)
    specs = _specs(configuration, {flow: dag_id for flow, dag_id in ids.items() if only in (None, dag_id)})
    dags = {spec.dag_id: _build_dag(spec, path, additions) for spec in specs}
    if only in (None, WATCH_DAG_ID) and (watched := _watched(configuration)):
        assets = [flow_asset(flow, ids[flow]) for flow in watched]
        dags[WATCH_DAG_ID] = build_watch_dag(watched, assets, path, additions)
    return dags


def flow_asset(flow: FlowName, dag_id: str) -> Asset:
    """The asset that represents a flow's copy; its state holds the last figures."""
    return Asset(name=dag_id, uri=f"srm://{flow.source}/{flow.target}", group="srm")


def _watched(configuration: Configuration) -> list[FlowName]:
    """Flows with alarm notifiers."""
    return sorted(flow for flow in configuration.names if configuration.notifiers(flow))


def _specs(configuration: Configuration, ids: Mapping[FlowName, str]) -> Iterator[DagSpec]:
    """The DAGs of the flows of ``ids``, by their DAG ids."""
    warnings = notices(configuration, next(iter(ids)) if len(ids) == 1 else None) if ids else {}
    web_path = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    known = set(configuration.names)
    for name in sorted(ids):
        fault = configuration.faults.get(name)
        if fault is not None:
            yield misconfigured_dag(name, fault, ids[name], enabled=configuration.says_enabled(name))
            continue
        yield flow_dag(
            configuration.flows[name],
            web_path,
            goes_back=FlowName(name.target, name.source) in known,
            warnings=[str(warning) for warning in warnings[name]],
        )


def _build_dag(spec: DagSpec, config: Path, additions: Additions) -> DAG:
    dag = DAG(
        dag_id=spec.dag_id,
        dag_display_name=spec.display_name,
        description=spec.fault or f"Copies {spec.flow.source} to {spec.flow.target}",
        schedule=spec.schedule,
        max_active_runs=1,
        is_paused_upon_creation=spec.paused_at_first,
        doc_md=spec.doc,
        params=None if spec.fault else _params(spec),
        **additions.dag_arguments(spec.tags),
    )
    operators = {task.work: _build_task(dag, spec, task, config) for task in spec.tasks}
    for task in spec.tasks:
        for earlier in task.after:
            operators[earlier].set_downstream(operators[task.work])
    return dag


def _build_task(dag: DAG, spec: DagSpec, task: TaskSpec, config: Path) -> BaseOperator:
    common: dict[str, Any] = {
        "dag": dag,
        "task_id": task.work.value,
        "doc_md": task.doc,
        "trigger_rule": "all_done" if task.always else "all_success",
        "retries": task.retries,
        "retry_delay": task.retry_delay,
        "execution_timeout": task.execution_timeout,
        "pool": task.pool,
    }
    flow = {"flow": str(spec.flow), "config": str(config)}
    match task.work:
        case Work.REFRESH_TOPICS:
            return RefreshTopicsOperator(**flow, **common)
        case Work.REPLICATE:
            return ReplicateOperator(**flow, conn_id=spec.spark_connection, **common)
        case Work.SYNC_CHECKPOINTS:
            return SyncCheckpointsOperator(**flow, **common)
        case Work.EMIT_HEARTBEAT:
            # Where slots are few, before anything that copies: it takes a second, and counts from when it was due.
            return EmitHeartbeatOperator(**flow, **common, priority_weight=1000, weight_rule="absolute")
        case Work.REPORT_LAG:
            return ReportLagOperator(**flow, asset=flow_asset(spec.flow, spec.dag_id), **common)
        case Work.OUTCOME:
            return EmptyOperator(**common)
        case Work.MISCONFIGURED:
            return MisconfiguredOperator(**flow, **common)


def _params(spec: DagSpec) -> dict[str, Param]:
    """What may differ for one run, asked for when the DAG is triggered by hand; see
    :mod:`srm_common.airflow_bridge.params` for the way back."""
    patterns: dict[str, Any] = {"type": ["null", "array"], "items": {"type": "string"}, "section": "For this run only"}
    in_file = ", ".join(spec.topics)
    return {
        "topics": Param(
            None,
            title="Topics",
            description=f"Only these of the flow's topics ({in_file}): expressions, one per line.",
            **patterns,
        ),
        "topics.exclude": Param(
            None,
            title="Topics left out",
            description="Not these of the flow's topics: expressions, one per line.",
            **patterns,
        ),
        "run.max.seconds": Param(
            None,
            type=["null", "number"],
            minimum=0,
            title="Keep reading for (seconds)",
            description=f"0: one pass. Empty: as in the file ({spec.run_max_seconds:g}).",
            section="For this run only",
        ),
        "start": Param(
            "committed",
            type="string",
            pattern=r"^(committed|earliest|latest|timestamp:\S+)$",
            examples=["committed", "earliest", "latest", "timestamp:2026-01-31T12:00:00Z"],
            title="Start at",
            description="committed: continue where the last run ended. The others apply to all its partitions: "
            "earliest copies again what was copied before, latest skips the records in between.",
            section="For this run only",
        ),
        "refresh.at.once": Param(
            False,
            type="boolean",
            title="Refresh topics at once",
            description="Find new topics, partitions and settings now, also before the next refresh is due.",
            section="For this run only",
        ),
    }
