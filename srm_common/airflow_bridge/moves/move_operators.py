"""The tasks of the DAGs that move consumer groups: each one calls one step, logs what it did and returns it.

They hold the path of the configuration file only; flow, mode and groups are params of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRuntimeError,
    AirflowSkipException,
)

from srm_common.airflow_bridge.failures import translate_errors
from srm_common.airflow_bridge.moves.flow_schedule import FlowSchedule
from srm_common.airflow_bridge.moves.move_tasks import MoveWork
from srm_common.airflow_bridge.params import MoveParams
from srm_common.airflow_bridge.variables import flow_now
from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import not_scheduled
from srm_common.domain.moving.moves import (
    POSITIONS,
    READ_AGAIN,
    MoveKind,
    MoveMode,
    StepName,
    StepResult,
    StepState,
    shown_positions,
)
from srm_common.errors import AirflowError, ClusterError, ConfigError, StateError
from srm_common.settings_files.configuration import load_configuration

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

    from srm_common.domain.flow import FlowSettings
    from srm_common.usecases.moving.failover import Move

#: Runs of a flow that read on for longer than this are ended rather than waited for.
_PATIENCE_SECONDS = 60.0
#: How long a source may take to say, on a bad day, that it lives.
_SOURCE_SECONDS = 5.0


class MoveOperator(BaseOperator):
    """A task of a move. ``kind`` is that of the move, ``config`` the path of the properties file."""

    ui_color = "#fff1d6"

    def __init__(self, *, kind: str, config: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.config = config

    def move(self, context: Context) -> MoveParams:
        return MoveParams.of(MoveKind(self.kind), context["params"])

    def settings(self, name: FlowName) -> FlowSettings:
        """A flow as it is to run now, with the filters of its Airflow variable. One that the file does not have is the
        opposite of the one that it has."""
        if self.is_configured(name):
            return flow_now(self.config, str(name)).flow
        from srm_common.usecases.offsets.resume_points import opposite

        return opposite(flow_now(self.config, str(FlowName(name.target, name.source))).flow)

    def is_configured(self, name: FlowName) -> bool:
        """Whether the file has the flow, with all that it needs."""
        return name in load_configuration(Path(self.config), connections=None).flows

    def is_disabled(self, name: FlowName) -> bool:
        """Whether the file says ``enabled = false``, so that no run of the flow is scheduled."""
        return load_configuration(Path(self.config), connections=None).says_enabled(name) is False

    def schedule(self, name: FlowName, context: Context) -> FlowSchedule:
        return FlowSchedule(name.dag_id, context["ti"])

    def _me(self, context: Context) -> str:
        return f"{context['run_id']} of {self.dag_id}"


class MoveStepOperator(MoveOperator):
    """One step. What it did is in the log, and as JSON in the XCom ``return_value``; where groups resume, in the XCom
    ``positions`` of ``translate``, a dry run's too; how many records are read again in all, in its XCom
    ``read_again``."""

    def __init__(self, *, step: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.step = step

    def execute(self, context: Context) -> dict[str, Any]:
        move, step = self.move(context), StepName(self.step)
        if step not in move.request.steps:
            raise AirflowSkipException(why_without(move))
        with translate_errors():
            if step is StepName.STOP and self.is_configured(move.copying):
                for sentence in self.schedule(move.copying, context).pause(f"ended by {self._me(context)}"):
                    self.log.info("%s", sentence)
            work = self._work(move)
            result = work.run(step)
            if step is StepName.CHECK and not result.failed:
                result = replace(result, sentences=(*result.sentences, *self._by_hand(move, context)))
        if step is StepName.TRANSLATE:
            context["ti"].xcom_push(key=POSITIONS, value=shown_positions(work.report.positions))
            context["ti"].xcom_push(key=READ_AGAIN, value=work.report.shown_read_again)
        return self._returned(result, context)

    def _by_hand(self, move: MoveParams, context: Context) -> list[str]:
        """What a person will have to do, since the task that has to do it may not: better known before a disaster, and
        by whoever approves."""
        if StepName.STOP not in move.request.steps or not self.is_configured(move.copying):
            return []
        said = self.schedule(move.copying, context).why_not_steered()
        return [] if said is None else [said]

    def _work(self, move: MoveParams) -> Move:
        from srm_common.usecases.moving.failover import Move
        from srm_common.usecases.moving.switch_direction import SwitchMove

        flow = self.settings(move.copying)
        if move.request.kind is MoveKind.SWITCH_DIRECTION:
            return SwitchMove(flow, self.settings(move.opposite), move.request)
        return Move(flow, move.request)

    def _returned(self, result: StepResult, context: Context) -> dict[str, Any]:
        log = self.log.error if result.failed else self.log.info
        for sentence in result.sentences:
            log("%s", sentence)
        document = result.to_json()
        if result.state is StepState.DONE:
            return document
        # An exception leaves no return value by itself.
        context["ti"].xcom_push(key="return_value", value=document)
        sentence = " ".join(result.sentences)
        if result.failed:
            # A cluster may answer the next time; what a person has to fix takes longer than retries do.
            passing = result.exit_code in (ClusterError.exit_code, StateError.exit_code)
            raise AirflowException(sentence) if passing else AirflowFailException(sentence)
        raise AirflowSkipException(sentence)


class ConfirmOperator(ApprovalOperator, MoveOperator):
    """Waits for a person, who sees what ``check`` found. Rejected: all that follows is skipped, nothing is changed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            subject="{{ dag.dag_id }}: move groups of {{ params.flow }} ({{ params.mode }})?",
            body="{% for one in ti.xcom_pull(task_ids='check')['sentences'] %}- {{ one }}\n{% endfor %}",
            ignore_downstream_trigger_rules=True,
            **kwargs,
        )

    def execute(self, context: Context) -> Any:
        move = self.move(context)
        if move.request.dry_run:
            raise AirflowSkipException(why_without(move))
        if move.approved:
            self.log.info("approved beforehand, when this run was started")
            return None
        return super().execute(context)


class FlowRunLink(BaseOperatorLink):
    """Leads to the flow's own run."""

    name = "Run of the flow"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        from airflow.utils.helpers import build_airflow_dagrun_url

        if not isinstance(operator, LastPassOperator) or operator.flow_run is None:
            return ""
        dag_id, run_id = operator.flow_run
        return build_airflow_dagrun_url(dag_id=dag_id, run_id=run_id)


class LastPassOperator(MoveOperator):
    """Runs the flow's own DAG once more, where its source is said to live."""

    operator_extra_links: Sequence[BaseOperatorLink] = (FlowRunLink(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.flow_run: tuple[str, str] | None = None

    def execute(self, context: Context) -> str:
        move = self.move(context)
        if move.request.dry_run:
            raise AirflowSkipException(why_without(move))
        if not self.is_configured(move.copying):
            raise AirflowSkipException(f"flow {move.copying} is not configured, so it has copied nothing")
        with translate_errors():
            return self._ended_well(move, context)

    def _ended_well(self, move: MoveParams, context: Context) -> str:
        from srm_common.usecases.flows.flow_clusters import FlowClusters
        from srm_common.usecases.offsets.resume_points import answers

        disaster = move.request.mode is MoveMode.DISASTER
        settings = self.settings(move.copying)
        if disaster:
            with FlowClusters(settings) as clusters:
                away = answers(clusters.source, _SOURCE_SECONDS)
            if away is not None:
                raise AirflowSkipException(f"{away}: there is nothing more to copy")
        if move.request.kind is not MoveKind.FAILOVER and not settings.enabled:
            raise AirflowSkipException(f"flow {settings.name} is not enabled in {self.config}, so it copies nothing")
        schedule = self.schedule(move.copying, context)
        note = f"last pass for {self._me(context)}"
        said = schedule.end_runs(f"ended: {note}") if settings.run_max_seconds > _PATIENCE_SECONDS else []
        for sentence in said + schedule.resume():
            self.log.info("%s", sentence)
        # A task that is cleared has its reasons: there is something new to copy.
        run_id = f"{self.dag_id}__{context['run_id']}__{context['ti'].try_number}"
        self.flow_run = schedule.dag_id, run_id
        self.log.info("run %s of %s copies what is new, and writes checkpoints", run_id, schedule.dag_id)
        try:
            limit = max(move.request.wait_seconds, _PATIENCE_SECONDS) if disaster else None
            # What was created since the last refresh belongs to what is left.
            conf = {"run.max.seconds": 0, "refresh.at.once": True}
            state = schedule.run_once(run_id, conf, note, limit)
        except AirflowError as error:
            if not disaster:
                raise
            raise AirflowSkipException(f"{error}; the move continues with what is already copied") from error
        if state == "success":
            return f"run {run_id} of {schedule.dag_id} ended well"
        if disaster:
            raise AirflowSkipException(
                f"run {run_id} of {schedule.dag_id} failed; the move continues with what is already copied"
            )
        raise AirflowFailException(
            f"run {run_id} of {schedule.dag_id} failed; its tasks say why. Fix it and clear this task, or, where the "
            f"source is gone, start {self.dag_id} with mode {MoveMode.DISASTER}"
        )


class ResumeOperator(MoveOperator):
    """Lets the flows copy that are to copy after the move."""

    def execute(self, context: Context) -> list[str]:
        move = self.move(context)
        if move.request.dry_run:
            raise AirflowSkipException(why_without(move))
        said: list[str] = []
        with translate_errors():
            for name in self._flows(move):
                said += self.schedule(name, context).resume()
                if self.is_disabled(name):
                    said[-1] = f"{name.dag_id} is not paused, but {not_scheduled(name)}"
        for sentence in said:
            self.log.info("%s", sentence)
        return said

    def _flows(self, move: MoveParams) -> list[FlowName]:
        if move.request.kind is MoveKind.SWITCH_DIRECTION:
            return [move.opposite]
        back = [move.opposite] if self.is_configured(move.opposite) and self.settings(move.opposite).enabled else []
        return [move.flow, *back]


class MoveReportOperator(MoveStepOperator):
    """Reports the whole move. If a task failed, or a step did not run, says which one, and how to continue."""

    def execute(self, context: Context) -> dict[str, Any]:
        move = self.move(context)
        results = self._results(move, context)
        for result in results.values():
            self.log.info("%s", result.render())
        states = self._states(context)
        if (unfinished := self._unfinished(move, results, states)) is not None:
            sentence = (
                f"the move is not finished: {unfinished}. Fix that and clear the task with its downstream tasks; every "
                f"step may be repeated{self._goes_on(move, states, context)}"
            )
            context["ti"].xcom_push(key="return_value", value={"sentences": [sentence]})
            # So that it is among the tasks that failed, when these are cleared.
            raise AirflowFailException(sentence)
        if move.request.dry_run:
            return {"sentences": [f"nothing was changed; {StepName.TRANSLATE} says where groups would resume"]}
        return super().execute(context)

    def _unfinished(
        self, move: MoveParams, results: Mapping[StepName, StepResult], states: Mapping[str, str]
    ) -> str | None:
        """The first task that failed, or else the first step that did not run."""
        # Not all that fails is a step: what follows the last pass of the flow has not run when that failed.
        for task in self.dag.task_dict:
            if states.get(task) == "failed":
                return f"{'step' if task in move.request.steps else 'task'} '{task}' failed, its log says why"
        lacking = [step for step in move.request.steps if step not in results or results[step].failed]
        lacking = [step for step in lacking if step is not StepName.REPORT]
        if not lacking:
            return None
        if lacking[0] in results or not states:
            return f"step '{lacking[0]}' failed, its log says why"
        return f"step '{lacking[0]}' did not run (its state is {states.get(lacking[0]) or 'none'})"

    def _goes_on(self, move: MoveParams, states: Mapping[str, str], context: Context) -> str:
        """That the flow copies on, since the last pass needed it unpaused and nothing has paused it again."""
        began = states.get(MoveWork.LAST_PASS) in ("success", "failed")
        if not began or states.get(StepName.STOP) == "success" or StepName.STOP not in move.request.steps:
            return ""
        schedule = self.schedule(move.copying, context)
        try:
            if self.is_disabled(move.copying) or schedule.is_paused():
                return ""
        except (AirflowError, ConfigError):
            return ""
        return (
            f". Meanwhile {move.copying} copies on its schedule: {MoveWork.LAST_PASS} leaves {schedule.dag_id} "
            f"unpaused; pause it if it must not copy"
        )

    def _states(self, context: Context) -> dict[str, str]:
        """Of the tasks of this run; none if Airflow does not say."""
        run_id = context["run_id"]
        # The protocol lacks it.
        task: Any = context["ti"]
        try:
            found = task.get_task_states(dag_id=self.dag_id, run_ids=[run_id]).get(run_id) or {}
        except AirflowRuntimeError as error:
            self.log.warning("Airflow does not say how the tasks of this run ended: %s", error)
            return {}
        return {name: str(getattr(state, "value", state)) for name, state in found.items() if state is not None}

    def _results(self, move: MoveParams, context: Context) -> dict[StepName, StepResult]:
        """What the steps of this run have returned."""
        results: dict[StepName, StepResult] = {}
        for step in move.request.steps:
            document = context["ti"].xcom_pull(task_ids=step.value)
            if document is not None and step is not StepName.REPORT:
                results[step] = StepResult.from_json(document)
        return results


def why_without(move: MoveParams) -> str:
    """Why a task has nothing to do."""
    if move.request.dry_run:
        return "a dry run changes nothing"
    return f"mode {move.request.mode} does not need this step"
