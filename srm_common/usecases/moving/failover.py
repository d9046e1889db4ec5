"""Move consumer groups from a flow's source to its target, step by step; each step may be repeated at any time.

A failback is the same along the flow in the other direction, and a change of direction is a failover of everything. The
results of each step are kept in the flow's state on the target, under ``move``, so that each step may run in its own
process and an interrupted move can be inspected. Doing all steps once more is how to go on after a crash: positions are
queried again, and no group is moved back behind what it has committed on the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import StateKey
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepName, StepResult, StepState
from srm_common.domain.topics.state_topics import flow_state_topic
from srm_common.errors import ConfigError, CorruptRecord, SrmError
from srm_common.kafka.state.source_offsets import STABLE_WITHIN_SECONDS
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.moving.left_cluster import request_limits
from srm_common.usecases.moving.move_steps import LastPass as LastPass
from srm_common.usecases.moving.move_steps import MoveSteps, failed
from srm_common.usecases.offsets.resume_points import opposite

#: For what a step found, after its work: a target that is gone has been waited for already.
_KEEP_SECONDS = 10.0


def last_move(flow: FlowSettings | FlowClusters) -> MoveReport | None:
    """The newest move along the flow, as far as it is; None before the first. What the step before wrote a moment ago
    is seen even if a run writes to the flow's state meanwhile.

    Raises:
        StateUnavailable: a transaction of a run stays open.
        UnreachableCluster, AccessDenied, ClusterError, CorruptRecord: as the target answers.
    """
    with clusters_of(flow) as clusters:
        found = clusters.state.read(StateKey.MOVE, stable_within_seconds=STABLE_WITHIN_SECONDS)
    flow = clusters.flow
    if found is None:
        return None
    try:
        return MoveReport.from_json(found)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CorruptRecord(
            f"the record of the last move along {flow.name} on cluster '{flow.target.alias}' cannot be read "
            f"({error!r}); it is replaced when a move starts with step {StepName.CHECK}"
        ) from error


class Move:
    """One move. ``report`` is complete as far as steps were done; each may be done by a process of its own, as what the
    steps before it found is in the flow's state.

    Args:
        flow: along which groups move, so for a failback the one that leads back.
        last_pass: copies once what is new, in the step ``drain``; without it that step waits for runs of others.
        clock: epoch seconds.
    """

    def __init__(
        self,
        flow: FlowSettings,
        request: MoveRequest,
        last_pass: LastPass | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._flow = flow
        self._clock = clock
        self._request = request
        self._last_pass = last_pass
        self._begun = False
        self.report = MoveReport(str(flow.name), request)

    def run(self, step: StepName) -> StepResult:
        """Do one step. What goes wrong is its result, and what was done before it stays.

        Raises:
            ConfigError: the request has no such step, or the step before was not done for this request.
        """
        if step not in self._request.steps:
            raise ConfigError(f"a {self._request.kind} in mode {self._request.mode} has no step {step}")
        # Connections of one step: before the next one, either cluster may go away or come back.
        limits = request_limits(self._flow.source.alias, self._request)
        with FlowClusters(self._flow, limits=limits, clock=self._clock) as clusters:
            if not self._begun:
                self._go_on_with(step, clusters)
            steps = MoveSteps(clusters, self._request, self.report, self._last_pass)
            begun = clusters.now_ms()
            try:
                result = self._work(steps)[step]()
            except SrmError as error:
                result = failed(step, str(error), exit_code=error.exit_code)
            result = replace(result, started_ms=begun, ended_ms=clusters.now_ms())
            self.report = steps.report.with_step(result)
            return result if self._request.dry_run else self._keep(result, clusters)

    def _work(self, steps: MoveSteps) -> dict[StepName, Callable[[], StepResult]]:
        return {
            StepName.CHECK: lambda: self._check(steps),
            StepName.STOP: steps.stop,
            StepName.DRAIN: steps.drain,
            StepName.TRANSLATE: steps.translate,
            StepName.APPLY: steps.apply,
            StepName.VERIFY: steps.verify,
            StepName.TURN: self._turn,
            StepName.REPORT: steps.conclude,
        }

    def _check(self, steps: MoveSteps) -> StepResult:
        return steps.check()

    def _turn(self) -> StepResult:
        raise ConfigError("only srm_common.usecases.moving.switch_direction turns a flow round")

    def _go_on_with(self, step: StepName, clusters: FlowClusters) -> None:
        if step is self._request.steps[0] or self._request.dry_run:
            self._begun = True
            return
        report = last_move(clusters)
        if report is None or report.request != self._request:
            raise ConfigError(
                f"step {step} of this {self._request.kind} along {self._flow.name} depends on the steps before "
                f"it, and the last move was another one; start with step {self._request.steps[0]}"
            )
        self.report = report
        self._begun = True

    def _keep(self, result: StepResult, clusters: FlowClusters) -> StepResult:
        try:
            clusters.target.ensure([flow_state_topic(self._flow)], timeout_seconds=_KEEP_SECONDS)
            clusters.state.write(StateKey.MOVE, self.report.to_json())
        except SrmError as error:
            sentence = f"the result of this step could not be kept: {error}"
            result = replace(
                result,
                state=StepState.FAILED,
                sentences=(*result.sentences, sentence),
                exit_code=result.exit_code or error.exit_code,
            )
            self.report = self.report.with_step(result)
        return result


def failback(
    flow: FlowSettings, back: FlowSettings | None, request: MoveRequest, last_pass: LastPass | None = None
) -> Move:
    """The move of a failback: groups go back to where they came from, along the flow in the other direction.

    The positions that a group has on a copy are translated back by the map of the flow that made the copy; those on
    topics that were written on the backup by the map of the flow that leads back. Neither needs names.

    Args:
        flow: along which the groups came.
        back: the flow in the other direction, None where there is none: then only positions on copies can be taken
            back, and what was written on the backup meanwhile stays there.
        last_pass: copies once what is new along ``back``.

    Raises:
        ConfigError: the request is for something else.
    """
    if request.kind is not MoveKind.FAILBACK or request.mode is MoveMode.DISASTER:
        raise ConfigError(
            f"a failback has mode {MoveMode.CONTROLLED} or {MoveMode.CONTINUOUS}; where '{flow.target.alias}' is gone, "
            f"fail over along the flow in the other direction"
        )
    return Move(back or opposite(flow), request, None if back is None else last_pass)
