"""Apply a plan that was printed to a file: exactly that, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.flow import FlowSettings
from srm_common.domain.plans.plan import Plan, PlanFile
from srm_common.domain.topics.actions import ActionResult
from srm_common.usecases.topics.apply_plan import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics


@dataclass(frozen=True)
class AppliedFile:
    """``changed`` says what is different from the file; with any, nothing was done. ``done`` are the file's actions
    that were not needed any more, ``results`` the others. ``plan`` is the one that was made now."""

    plan: Plan
    results: tuple[ActionResult, ...] = ()
    changed: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


def apply_printed(flow: FlowSettings, printed: PlanFile) -> AppliedFile:
    """Plan again, compare, and apply when nothing else would be done than what was printed.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at, or not be changed.
    """
    now = plan_topics(flow, restore=printed.restore)
    found = printed.compare(now)
    if found.changed:
        return AppliedFile(now, changed=found.changed)
    return AppliedFile(now, tuple(apply_plan(flow, now)), done=found.done)
