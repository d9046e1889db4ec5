"""POST /flows/{source}/{target}/plan: what the next run would change on the target, asked of both clusters now."""

from __future__ import annotations

from fastapi import APIRouter

from srm_common.domain.plans.plan import Plan
from srm_common.rest.access import CallerDep, ReadableFlow
from srm_common.rest.app_context import AppContextDep
from srm_common.rest.faults import responses
from srm_common.rest.flow_filters import flow_now
from srm_common.rest.live import CALLS, TAG
from srm_common.rest.ranges import now_ms
from srm_common.rest.schemas import PlanAnswer, PlannedAction
from srm_common.rest.v2.steering_schemas import Note
from srm_common.usecases.topics.plan_topics import plan_topics

router = APIRouter(prefix="/api/v2", tags=["steering", TAG])


@router.post("/flows/{source}/{target}/plan", responses=responses(404, 415, 422, 502, 503, 504))
def plan(flow: ReadableFlow, note: Note, caller: CallerDep, house: AppContextDep) -> PlanAnswer:
    """Looks at both clusters and changes nothing; the same as ``srm-control plan``."""
    return shown(CALLS.ask(f"the plan of {flow}", lambda: plan_topics(flow_now(house, flow, caller))))


def shown(plan: Plan) -> PlanAnswer:
    now = now_ms()
    refused = [f"{one.topic} is not copied: {one.reason}" for one in plan.lost]
    return PlanAnswer(
        actions=[PlannedAction(topic=one.topic, kind=one.kind, sentence=str(one)) for one in plan.actions],
        notes=[*refused, *plan.notices],
        computed_ms=now,
        now_ms=now,
    )
