"""POST /flows/{source}/{target}/plan, /pause, /resume, /runs: what the next run would change, and the schedule of the
flow's DAG."""

from __future__ import annotations

from fastapi import APIRouter

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import not_scheduled
from srm_common.domain.plans.plan import Plan
from srm_common.rest.app_context import AfterLogin, AppContext, AppContextDep, CallerDep, ReadableFlow, TriggerableFlow
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.live import CALLS, TAG, flow_now
from srm_common.rest.ports import Scheduler
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import PlanAnswer, PlannedAction
from srm_common.rest.v2.steering_schemas import Done, Note
from srm_common.usecases.topics.apply import UNPLANNED
from srm_common.usecases.topics.plan_topics import plan_topics

router = APIRouter(prefix="/api/v2", tags=["steering"], route_class=AfterLogin)


@router.post("/flows/{source}/{target}/plan", tags=[TAG], responses=responses(404, 415, 422, 502, 503, 504))
def plan(flow: ReadableFlow, note: Note, caller: CallerDep, context: AppContextDep) -> PlanAnswer:
    """What the next run would change, from both clusters; changes nothing. The same as ``srm-control plan``."""
    return plan_answer(CALLS.ask(f"the plan of {flow}", lambda: plan_topics(flow_now(context, flow, caller))))


def plan_answer(plan: Plan) -> PlanAnswer:
    now = now_ms()
    refused = [f"{decision.topic} is not copied: {decision.reason}" for decision in plan.lost]
    return PlanAnswer(
        actions=[
            PlannedAction(
                topic=action.topic,
                kind=action.kind,
                sentence=str(action),
                error=action.reason if isinstance(action, UNPLANNED) else None,
            )
            for action in plan.actions
        ],
        notes=[*refused, *plan.notices],
        computed_ms=now,
        now_ms=now,
    )


def scheduler_of(context: AppContext, instead: str) -> Scheduler:
    """Raises :class:`ApiError` (409) where there is no Airflow; ``instead`` says what else can be done."""
    if context.scheduler is None:
        raise ApiError(
            409, "no_scheduler", f"no Airflow is configured for this service; set SRM_AIRFLOW_URL, or {instead}"
        )
    return context.scheduler


def known(context: AppContext, flow: FlowName) -> None:
    """Raises :class:`UnknownFlow` for a flow that the file does not have; its keys may be wrong, unless its DAG id is
    that of another flow, whose DAG is then not touched: :class:`ConfigError`."""
    configuration = context.configuration()
    if flow not in configuration.faults or flow in configuration.without_dag:
        configuration.flow(flow)


@router.post("/flows/{source}/{target}/pause", responses=responses(404, 409, 415, 422, 502, 503))
def pause(flow: TriggerableFlow, note: Note, caller: CallerDep, context: AppContextDep) -> Done:
    """Start no more runs. An active run continues to the end of its current task."""
    known(context, flow)
    scheduler_of(context, "stop whatever starts srm-control run").set_paused(flow, True, caller)
    return Done(done=f"{flow} is paused: no more runs start", now_ms=now_ms())


@router.post("/flows/{source}/{target}/resume", responses=responses(404, 409, 415, 422, 502, 503))
def resume(flow: TriggerableFlow, note: Note, caller: CallerDep, context: AppContextDep) -> Done:
    """Resume the flow's schedule."""
    known(context, flow)
    scheduler_of(context, f'run it with srm-control run --flow "{flow}"').set_paused(flow, False, caller)
    if context.configuration().says_enabled(flow) is False:
        return Done(done=f"{flow} is not paused any more, but {not_scheduled(flow)}", now_ms=now_ms())
    return Done(done=f"{flow} runs on its schedule again", now_ms=now_ms())


@router.post("/flows/{source}/{target}/runs", responses=responses(404, 409, 415, 422, 502, 503))
def run(flow: TriggerableFlow, note: Note, caller: CallerDep, context: AppContextDep) -> Done:
    """Start a run now. If a run is active, the new one starts after it; if the flow is paused, once it is resumed."""
    known(context, flow)
    scheduler = scheduler_of(context, f'run it with srm-control run --flow "{flow}"')
    started = scheduler.trigger(flow.dag_id, {}, note.note or f"started by {caller.name}", caller)
    scheduled = next((scheduled_flow for scheduled_flow in scheduler.flows() if scheduled_flow.flow == flow), None)
    waits = ""
    if scheduled is not None and scheduled.paused:
        waits = "; the flow is paused, so the run waits until it is resumed"
    elif scheduled is not None and scheduled.running_run_id is not None:
        waits = f"; it waits until run {scheduled.running_run_id} has ended"
    return Done(
        done=f"started run {started.run_id} of {flow}{waits}", run_id=started.run_id, url=started.url, now_ms=now_ms()
    )
