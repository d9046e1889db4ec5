"""From the moves of :mod:`srm_common.airflow_bridge.moves.move_tasks` to DAGs. Parsing reads one properties file, as
for the DAGs of flows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, BaseOperator, Param, get_parsing_context

from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.airflow_bridge.dag_arguments import Additions, runs_at_once
from srm_common.airflow_bridge.moves.move_operators import (
    ConfirmOperator,
    LastPassOperator,
    MoveReportOperator,
    MoveStepOperator,
    ResumeOperator,
)
from srm_common.airflow_bridge.moves.move_tasks import (
    MODE_TITLES,
    RETRY_DELAY,
    STEP_TIMEOUT,
    TAG,
    MoveDagSpec,
    MoveTaskSpec,
    MoveWork,
    move_specs,
)
from srm_common.domain.moving.moves import StepName
from srm_common.settings_files.configuration import load_configuration


def build_move_dags(config: str | Path | None, additions: Additions) -> dict[str, DAG]:
    """See :func:`srm_common.airflow_bridge.move_dags`."""
    path = configuration_path(config)
    only = get_parsing_context().dag_id
    specs = [spec for spec in move_specs() if only is None or spec.dag_id == only]
    # Airflow connections are for tasks; asking for them here would open Airflow's database at every parse.
    flows = sorted(map(str, load_configuration(path, connections=None).flows)) if specs else []
    return {spec.dag_id: _build_dag(spec, flows, path, additions) for spec in specs} if flows else {}


def _build_dag(spec: MoveDagSpec, flows: list[str], config: Path, additions: Additions) -> DAG:
    dag = DAG(
        dag_id=spec.dag_id,
        description=spec.title,
        schedule=None,
        max_active_runs=runs_at_once(len(flows)),
        is_paused_upon_creation=False,
        doc_md=spec.doc,
        params=_params(spec, flows),
        **additions.dag_arguments([TAG]),
    )
    tasks = [_build_task(dag, spec, task, config) for task in spec.tasks]
    outcome = tasks[-1]
    for task, following in itertools.pairwise(tasks):
        task.set_downstream(following)
    # Failed, where any of them failed, whatever the report says afterwards.
    for task in tasks[:-2]:
        task.set_downstream(outcome)
    return dag


def _build_task(dag: DAG, spec: MoveDagSpec, task: MoveTaskSpec, config: Path) -> BaseOperator:
    common: dict[str, Any] = {
        "dag": dag,
        "task_id": task.task_id,
        "doc_md": task.doc,
        "trigger_rule": "all_done" if task.always else "none_failed",
    }
    if task.work is MoveWork.OUTCOME:
        return EmptyOperator(**common)
    move: dict[str, Any] = {"kind": spec.kind.value, "config": str(config)}
    common |= {"retries": task.retries, "retry_delay": RETRY_DELAY}
    if task.work is MoveWork.CONFIRM:
        # A person takes the time that it takes.
        return ConfirmOperator(**move, **common)
    common["execution_timeout"] = STEP_TIMEOUT
    match task.work:
        case MoveWork.LAST_PASS:
            return LastPassOperator(**move, **common)
        case MoveWork.RESUME:
            return ResumeOperator(**move, **common)
        case StepName.REPORT:
            return MoveReportOperator(step=StepName.REPORT.value, **move, **common)
        case _:
            return MoveStepOperator(step=task.work.value, **move, **common)


def _params(spec: MoveDagSpec, flows: list[str]) -> dict[str, Param]:
    """The form of the DAG's params; :mod:`srm_common.airflow_bridge.params` parses them."""
    modes = [mode.value for mode in spec.modes]
    # With several flows there is no default: the form insists on a choice.
    chosen: dict[str, Any] = {"default": flows[0]} if len(flows) == 1 else {}
    return {
        "flow": Param(type="string", enum=flows, title="Flow", description=spec.flow_help, **chosen),
        "mode": Param(
            modes[0],
            type="string",
            enum=modes,
            values_display={mode.value: MODE_TITLES[mode] for mode in spec.modes},
            title="Mode",
            description="Which clients are stopped, and whether the source is up; see this DAG's documentation.",
        ),
        "groups": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            title="Consumer groups",
            description="Names, one per line. Empty: every group that the flow translates.",
        ),
        "dry_run": Param(
            False, type="boolean", title="Dry run", description="Only print what would be done; nothing is changed."
        ),
        "approved": Param(
            False,
            type="boolean",
            title="Approved",
            description="Do not ask for approval. Otherwise the run waits under Required Actions.",
        ),
        "wait_seconds": Param(
            60,
            type="number",
            minimum=0,
            title="Patience (seconds)",
            description="How long each step waits: for the copy to catch up, for consumers to leave.",
        ),
    }
