"""/flows/{source}/{target}/moves and /moves/{kind}/{run_id}: failover, failback and change of direction, which are runs
of their DAGs; each task is one step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Path

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import ScheduledRun
from srm_common.domain.moving.moves import MODES, POSITIONS, READ_AGAIN, MoveKind, MoveMode, StepName
from srm_common.errors import ConfigError
from srm_common.rest.app_context import AfterLogin, AppContextDep, CallerDep, EditableFlow, require
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.ports import Right
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.v2.steering import scheduler_of
from srm_common.rest.v2.steering_schemas import Done, MoveRequest, MoveState, MoveStep

router = APIRouter(prefix="/api/v2", tags=["moves"], route_class=AfterLogin)

#: Tasks of a move's DAG in their order; the last, which does nothing, is left out.
TASKS = (
    *("check", "confirm", "last_pass", "stop", "drain", "translate", "apply", "verify", "turn", "resume"),
    *("report",),
)
_WAITS_FOR_A_PERSON = frozenset({"awaiting_input", "deferred"})


_ELSEWHERE = "where groups resume is not shown: Airflow's XCom backend keeps it elsewhere; the log of this task has it"


class Kind(StrEnum):
    """The kind of a move in paths and bodies."""

    FAILOVER = "failover"
    FAILBACK = "failback"
    SWITCH_DIRECTION = "switch-direction"

    @property
    def move(self) -> MoveKind:
        return MoveKind[self.name]

    @property
    def dag_id(self) -> str:
        return self.move.dag_id


RunId = Annotated[str, Path(min_length=1, max_length=250, examples=["srm__2026-11-21T20:02:06.826+00:00_3f9c0a1e"])]


@router.post("/flows/{source}/{target}/moves", responses=responses(404, 409, 415, 422, 502, 503))
def move(flow: EditableFlow, request: MoveRequest, caller: CallerDep, context: AppContextDep) -> Done:
    """Start a move of consumer groups; a dry run unless ``dry_run`` is false. Its progress is under ``run_id``."""
    kind = _kind(request)
    mode = _mode(kind, request)
    context.configuration().flow(flow)
    verb = f'use srm-control {kind} --flow "{flow}"'
    conf: dict[str, Any] = {
        "flow": str(flow),
        "mode": mode.value,
        "groups": request.groups or None,
        "dry_run": request.dry_run,
        # The caller has seen the dry run, or does not want one.
        "approved": request.approved,
        "wait_seconds": request.wait_seconds,
    }
    scheduler = scheduler_of(context, verb)
    if scheduler.is_paused(kind.dag_id):
        # Its run would begin by itself some day, when nobody expects it.
        raise ApiError(
            409, "dag_paused", f"{kind.dag_id} is paused in Airflow, so no move was started: unpause it, or {verb}"
        )
    started = scheduler.trigger(kind.dag_id, conf, f"started by {caller.name}", caller)
    what = f"a dry run of the {kind}" if request.dry_run else f"the {kind}"
    return Done(
        done=f"started {what} of {flow} in mode {mode}", run_id=started.run_id, url=started.url, now_ms=now_ms()
    )


@router.get("/moves/{kind}/{run_id}", responses=responses(404, 409, 422, 502, 503))
def move_state(kind: Kind, run_id: RunId, caller: CallerDep, context: AppContextDep) -> MoveState:
    """Progress of a move: each step with its messages, and where groups resume once that is known."""
    require(caller, Right.READ)
    scheduler = scheduler_of(context, "see the output of srm-control")
    run = scheduler.run(kind.dag_id, run_id)
    flow = None if run is None else _flow(run.conf)
    if run is None or flow is None or not caller.may(Right.READ, flow):
        raise ApiError(404, "unknown_run", f"there is no {kind} {run_id}")
    steps = _steps(run, scheduler.results(kind.dag_id, run_id))
    positions = scheduler.results(kind.dag_id, run_id, POSITIONS).get(StepName.TRANSLATE, [])
    if not isinstance(positions, list):
        # A reference: only processes of that Airflow can ask its XCom backend.
        steps = [
            step.model_copy(update={"sentences": [*step.sentences, _ELSEWHERE]})
            if step.step == StepName.TRANSLATE
            else step
            for step in steps
        ]
    again = scheduler.results(kind.dag_id, run_id, READ_AGAIN).get(StepName.TRANSLATE)
    return MoveState(
        kind=kind,
        run_id=run_id,
        flow=str(flow),
        dry_run=bool(run.conf.get("dry_run")),
        state=_state(run),
        steps=steps,
        positions=positions if isinstance(positions, list) else [],
        read_again=again if isinstance(again, dict) else None,
        url=run.url,
        now_ms=now_ms(),
    )


def _kind(request: MoveRequest) -> Kind:
    if request.kind is None and request.dry_run:
        return Kind.FAILOVER
    known = ", ".join(Kind)
    if request.kind is None:
        raise _wrong("kind", f"say which move is to be carried out, one of {known}")
    try:
        return Kind(request.kind)
    except ValueError:
        raise _wrong("kind", f"it must be one of {known}, not '{request.kind}'") from None


def _mode(kind: Kind, request: MoveRequest) -> MoveMode:
    modes = MODES[kind.move]
    known = ", ".join(modes)
    if request.mode is None:
        if len(modes) > 1 and not request.dry_run:
            raise _wrong("mode", f"say in which mode the {kind} is to be carried out, one of {known}")
        return modes[0]
    if request.mode not in modes:
        raise _wrong("mode", f"a {kind} has mode {known}, not '{request.mode}'")
    return MoveMode(request.mode)


def _wrong(field: str, what: str) -> ApiError:
    return ApiError(422, "invalid_parameter", f"{field}: {what}", field=field)


def _flow(conf: Mapping[str, Any]) -> FlowName | None:
    try:
        return FlowName.parse(str(conf.get("flow")))
    except ConfigError:
        return None


def _state(run: ScheduledRun) -> str:
    if run.state == "running" and any(state in _WAITS_FOR_A_PERSON for _, state in run.tasks):
        return "waiting"
    return run.state


def _steps(run: ScheduledRun, results: Mapping[str, Any]) -> list[MoveStep]:
    states = dict(run.tasks)
    return [
        MoveStep(step=task, state=_step_state(states[task]), sentences=_sentences(results.get(task)))
        for task in TASKS
        if task in states
    ]


def _step_state(state: str | None) -> str:
    """A task's state in the words of a move's."""
    if state in _WAITS_FOR_A_PERSON:
        return "waiting"
    words = {None: "pending", "success": "done", "scheduled": "queued", "upstream_failed": "not reached"}
    return words.get(state) or str(state)


def _sentences(result: Any) -> list[str]:
    """What a task returned: a step's result, a sentence, or several."""
    if isinstance(result, Mapping):
        result = result.get("sentences", [])
    if isinstance(result, str):
        return [result]
    return [str(one) for one in result] if isinstance(result, list) else []
