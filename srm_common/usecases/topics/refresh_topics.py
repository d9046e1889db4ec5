"""The task ``refresh_topics``: determine what is due, plan it, apply the plan, record the result."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.flow.names import StateKey
from srm_common.domain.plans.plan import Plan, plan_record
from srm_common.domain.topics.actions import ActionResult, Job, failed
from srm_common.domain.topics.refresh_memory import EVERYTHING, Failure, RefreshMemory
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.state_topics import flow_state_topic, written_heartbeats
from srm_common.errors import AccessDenied, ClusterError, UnreachableCluster
from srm_common.kafka.state.flow_state import FlowState
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refreshed:
    """``plan`` is None when nothing was due; ``next_seconds`` is then the time until something is. ``standing`` is what
    failed in earlier runs and was not tried again in this one; that is done in ``retry_seconds``."""

    due: frozenset[Job]
    plan: Plan | None = None
    results: tuple[ActionResult, ...] = ()
    next_seconds: float | None = None
    standing: tuple[Failure, ...] = ()
    retry_seconds: float | None = None

    def __str__(self) -> str:
        if self.plan is not None:
            return f"refreshed {', '.join(sorted(self.due))}: {counted(len(self.results), 'action')}"
        if self.next_seconds is None:
            return "nothing is refreshed: refresh.topics.enabled and both sync.topic...enabled are off"
        return f"nothing is due; the next refresh is in {self.next_seconds:.0f} s (srm-control apply: at once)"

    @property
    def fault(self) -> str | None:
        """What the target lacks after it, in one sentence; None when all is well."""
        if failures := failed(self.results):
            return f"{len(failures)} of {len(self.results)} changes failed, the first: {failures[0]}"
        if lost := self.plan.lost if self.plan is not None else ():
            return f"{len(lost)} topics are not copied, the first: {_not_copied(lost[0])}"
        if not self.standing:
            return None
        count = sum(failure.count for failure in self.standing)
        return (
            f"{counted(count, 'change')} failed in an earlier run, to be tried again in "
            f"{self.retry_seconds or 0:.0f} s (srm-control apply: at once), the first: {self.standing[0].sentences[0]}"
        )


def _not_copied(decision: TopicDecision) -> str:
    return f"{decision.topic}: {decision.reason}"


def refresh_topics(
    flow: FlowSettings | FlowClusters,
    *,
    at_once: bool = False,
    narrow: Callable[[Plan], Plan] | None = None,
    restore: Mapping[str, OnDataLoss] | None = None,
    show_plan: Callable[[Plan], None] = lambda plan: None,
) -> Refreshed:
    """Make the target's topics ready, as far as it is due.

    The plan with the result of every action is in the flow's state afterwards (``plan``), also when actions failed;
    so are the decisions on all topics (``decisions``), when they are others than before.

    Args:
        at_once: do everything now, whatever the intervals say.
        narrow: leaves some of the plan to later runs; everything is then due now, and remains so.
        restore: what to do about single topics whose copies are lost, by topic or copy.
        show_plan: called with the plan before it is applied.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: a cluster cannot be queried, or not be changed at
            all. What of the plan was carried out before is not known.
    """
    with clusters_of(flow) as clusters:
        return _refreshed(clusters, at_once, narrow, restore, show_plan)


def _refreshed(
    clusters: FlowClusters,
    at_once: bool,
    narrow: Callable[[Plan], Plan] | None,
    restore: Mapping[str, OnDataLoss] | None,
    show_plan: Callable[[Plan], None],
) -> Refreshed:
    flow, state = clusters.flow, clusters.state
    known = state.read(StateKey.REFRESH)
    memory = RefreshMemory.from_json(known)
    now_ms = clusters.now_ms()
    due = EVERYTHING if at_once or narrow is not None else memory.due(flow, now_ms)
    waiting = replace(memory, failures={job: one for job, one in memory.standing(flow).items() if job not in due})
    standing, retry_seconds = tuple(waiting.failures.values()), waiting.retry_seconds(flow, now_ms)
    if not due:
        next_seconds = memory.next_seconds(flow, now_ms)
        return Refreshed(due, None, (), next_seconds, standing, retry_seconds)
    if Job.TOPICS in due:
        _heartbeats_to_copy(clusters)
    plan = plan_topics(clusters, due=due, alterations=memory.alterations, restore=restore)
    if narrow is not None:
        plan = narrow(plan)
    plan = plan.with_more((), [f"not tried again yet: {one}" for failure in standing for one in failure.sentences])
    show_plan(plan)
    results = apply_plan(clusters, plan)
    if known is None:
        clusters.target.ensure([flow_state_topic(flow)])
    _write(state, flow, memory, frozenset() if narrow else due, plan, results, now_ms)
    return Refreshed(due, plan, tuple(results), standing=standing, retry_seconds=retry_seconds)


def _heartbeats_to_copy(clusters: FlowClusters) -> None:
    """Make the source's heartbeats topic, so that the plan has its copy from the first run on."""
    try:
        clusters.source.ensure(
            [heartbeat for heartbeat in written_heartbeats(clusters.flow) if heartbeat.location == "source"]
        )
    except UnreachableCluster:
        raise
    except ClusterError as error:
        # The task that writes heartbeats fails with it; topics are made ready all the same.
        otherwise = ", or set heartbeats.topic.location = target" if isinstance(error, AccessDenied) else ""
        _LOG.warning("%s: no heartbeats on its source: %s%s", clusters.flow.name, error, otherwise)


def _write(
    state: FlowState,
    flow: FlowSettings,
    memory: RefreshMemory,
    due: frozenset[Job],
    plan: Plan,
    results: Sequence[ActionResult],
    now_ms: int,
) -> None:
    decisions = [decision.to_json() for decision in plan.decisions]
    digest = hashlib.sha256(json.dumps(decisions).encode()).hexdigest()[:16]
    if digest != memory.decisions:
        state.write(StateKey.DECISIONS, decisions)
    state.write(StateKey.PLAN, plan_record(plan, results, now_ms))
    lost = {decision.topic: f"not copied: {_not_copied(decision)}" for decision in plan.lost}
    after = memory.after(flow, due, results, now_ms, lost=lost)
    state.write(StateKey.REFRESH, replace(after, decisions=digest).to_json())
