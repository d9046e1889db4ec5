"""POST /flows/{source}/{target}/pause, /resume, /runs: the schedule of a flow, which is that of its DAG."""

from __future__ import annotations

from fastapi import APIRouter

from srm_common.domain.flow import FlowName
from srm_common.rest.access import CallerDep, TriggerableFlow
from srm_common.rest.app_context import AppContext, AppContextDep
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.ports import Scheduler
from srm_common.rest.ranges import now_ms
from srm_common.rest.v2.steering_schemas import Done, Note

router = APIRouter(prefix="/api/v2", tags=["steering"])


def scheduler_of(house: AppContext, instead: str) -> Scheduler:
    """Raises :class:`ApiError` (409) where there is no Airflow; ``instead`` says what else can be done."""
    if house.scheduler is None:
        raise ApiError(
            409, "no_scheduler", f"this service knows no Airflow; name one with SRM_AIRFLOW_URL, or {instead}"
        )
    return house.scheduler


def known(house: AppContext, flow: FlowName) -> None:
    """Raises :class:`UnknownFlow` for a flow that the file does not have; its keys may be wrong."""
    configuration = house.configuration()
    if flow not in configuration.faults:
        configuration.flow(flow)


@router.post("/flows/{source}/{target}/pause", responses=responses(404, 409, 415, 422, 502, 503))
def pause(flow: TriggerableFlow, note: Note, caller: CallerDep, house: AppContextDep) -> Done:
    """Start no more runs. A run that is at work goes on to the end of the task it is in."""
    known(house, flow)
    scheduler_of(house, "stop whatever starts srm-control run").set_paused(flow, True, caller)
    return Done(done=f"{flow} is paused: no more runs begin", now_ms=now_ms())


@router.post("/flows/{source}/{target}/resume", responses=responses(404, 409, 415, 422, 502, 503))
def resume(flow: TriggerableFlow, note: Note, caller: CallerDep, house: AppContextDep) -> Done:
    """Let the flow run by its schedule again."""
    known(house, flow)
    scheduler_of(house, f'run it with srm-control run --flow "{flow}"').set_paused(flow, False, caller)
    return Done(done=f"{flow} runs by its schedule again", now_ms=now_ms())


@router.post("/flows/{source}/{target}/runs", responses=responses(404, 409, 415, 422, 502, 503))
def run(flow: TriggerableFlow, note: Note, caller: CallerDep, house: AppContextDep) -> Done:
    """Start a run now. Where one is at work, it begins after that; where the flow is paused, once it is resumed."""
    known(house, flow)
    scheduler = scheduler_of(house, f'run it with srm-control run --flow "{flow}"')
    started = scheduler.trigger(flow.dag_id, {}, note.note or f"started by {caller.name}", caller)
    at_hand = next((one for one in scheduler.flows() if one.flow == flow), None)
    waits = ""
    if at_hand is not None and at_hand.paused:
        waits = "; the flow is paused, so it waits until it is resumed"
    elif at_hand is not None and at_hand.running_run_id is not None:
        waits = f"; it waits until run {at_hand.running_run_id} has ended"
    return Done(
        done=f"started run {started.run_id} of {flow}{waits}", run_id=started.run_id, url=started.url, now_ms=now_ms()
    )
