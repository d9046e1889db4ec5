"""The last plan of a flow with what became of it, as the flow's state keeps it (``plan``) and run records tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import ActionResult, failed

#: Actions that are kept; a first plan of thousands needs no second copy of the topics.
_ACTIONS_KEPT = 500
_NOTES = 20


def plan_record(plan: Plan, results: Sequence[ActionResult], now_ms: int) -> dict[str, Any]:
    """A carried out plan as plain values: failed actions first."""
    ordered = sorted(results, key=lambda result: result.error is None)
    return {
        "made_ms": now_ms,
        "copied": len(plan.accepted),
        "topics": len(plan.decisions),
        "failed": len(failed(results)),
        "lost": [f"{decision.topic}: {decision.reason}" for decision in plan.lost],
        "actions": [{"text": str(result), **result.to_json()} for result in ordered[:_ACTIONS_KEPT]],
        "actions_left_out": max(0, len(results) - _ACTIONS_KEPT),
        "notices": list(plan.notices),
    }


def plan_notes(record: Mapping[str, Any] | None, since_ms: int) -> list[str]:
    """The plan in sentences for a run record, when it was made after ``since_ms``, the start of the run before."""
    if record is None or record["made_ms"] < since_ms:
        return []
    notes = [action["text"] for action in record["actions"]]
    left_out = len(notes) - _NOTES + int(record["actions_left_out"])
    more = [f"{left_out} more changes of topics"] if left_out > 0 else []
    return ["refresh_topics: " + note for note in (*notes[:_NOTES], *more, *record["notices"][:_NOTES])]
