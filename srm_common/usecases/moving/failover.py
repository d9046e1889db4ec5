"""Move consumer groups from a flow's source to its target, step by step; each step can be done again at any time.

A failback is the same along the flow in the other direction, and a change of direction one of everything. What a step
found and did is kept in the flow's state on the target, under ``move``, so that the steps may run in processes of their
own and a move that was interrupted can be looked at. Doing all steps once more is how to go on after a crash: positions
are queried again, and no group is moved back behind what it has committed on the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.moving.moves import MoveReport, MoveRequest, StepName, StepResult, StepState
from srm_common.domain.topics.state_topics import flow_state_topic
from srm_common.errors import ConfigError, CorruptRecord, SrmError
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.usecases.moving.move_steps import LastPass as LastPass
from srm_common.usecases.moving.move_steps import MoveSteps, failed

STATE_KEY = "move"
#: For what a step found, after its work: a target that is gone has been waited for already.
_KEEP_SECONDS = 10.0


def run_failover_step(
    flow: FlowSettings, request: MoveRequest, step: StepName, last_pass: LastPass | None = None
) -> StepResult:
    """Do one step in a process of its own; what the steps before it found is read from the flow's state.

    Args:
        flow: along which groups move, so for a failback the one that leads back.
        last_pass: copies once what is new, in the step ``drain``; without it that step waits for runs of others.

    Raises:
        ConfigError: the step before it was not done for the same request.
    """
    return Move(flow, request, last_pass).run(step)


def last_move(flow: FlowSettings) -> MoveReport | None:
    """The newest move along the flow, as far as it is; None before the first.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, CorruptRecord: as the target answers.
    """
    with FlowState(flow) as store:
        found = store.read(STATE_KEY)
    if found is None:
        return None
    try:
        return MoveReport.from_json(found)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptRecord(
            f"the record of the last move along {flow.name} on cluster '{flow.target.alias}' cannot be read "
            f"({error!r}); it is replaced when a move starts with step {StepName.CHECK}"
        ) from error


class Move:
    """One move. ``report`` is complete as far as steps were done.

    Args:
        flow, last_pass: as for :func:`run_failover_step`.
    """

    def __init__(self, flow: FlowSettings, request: MoveRequest, last_pass: LastPass | None = None) -> None:
        self._flow = flow
        self._request = request
        self._begun = False
        self._steps = MoveSteps(flow, request, MoveReport(str(flow.name), request), last_pass)

    @property
    def report(self) -> MoveReport:
        return self._steps.report

    def run(self, step: StepName) -> StepResult:
        """Do one step. What goes wrong is its result, and what was done before it stays.

        Raises:
            ConfigError: the request has no such step, or the step before was not done for this request.
        """
        if step not in self._request.steps:
            raise ConfigError(f"a {self._request.kind} in mode {self._request.mode} has no step {step}")
        if not self._begun:
            self._go_on_with(step)
        begun = _now_ms()
        try:
            result = self._work()[step]()
        except SrmError as error:
            result = failed(step, str(error), exit_code=error.exit_code)
        result = replace(result, started_ms=begun, ended_ms=_now_ms())
        self._steps.report = self.report.with_step(result)
        return result if self._request.dry_run else self._keep(result)

    def _work(self) -> dict[StepName, Callable[[], StepResult]]:
        return {
            StepName.CHECK: self._check,
            StepName.STOP: self._steps.stop,
            StepName.DRAIN: self._steps.drain,
            StepName.TRANSLATE: self._steps.translate,
            StepName.APPLY: self._steps.apply,
            StepName.VERIFY: self._steps.verify,
            StepName.TURN: self._turn,
            StepName.REPORT: self._steps.conclude,
        }

    def _check(self) -> StepResult:
        return self._steps.check()

    def _turn(self) -> StepResult:
        raise ConfigError("only srm_common.usecases.moving.switch_direction turns a flow round")

    def _go_on_with(self, step: StepName) -> None:
        if step is self._request.steps[0] or self._request.dry_run:
            self._begun = True
            return
        found = last_move(self._flow)
        if found is None or found.request != self._request:
            raise ConfigError(
                f"step {step} of this {self._request.kind} along {self._flow.name} depends on the steps before "
                f"it, and the last move was another one; start with step {self._request.steps[0]}"
            )
        self._steps.report = found
        self._begun = True

    def _keep(self, result: StepResult) -> StepResult:
        try:
            ensure_topics(self._flow.target, [flow_state_topic(self._flow)], timeout_seconds=_KEEP_SECONDS)
            with FlowState(self._flow) as store:
                store.write(STATE_KEY, self.report.to_json())
        except SrmError as error:
            sentence = f"the result of this step could not be kept: {error}"
            result = replace(
                result,
                state=StepState.FAILED,
                sentences=(*result.sentences, sentence),
                exit_code=result.exit_code or error.exit_code,
            )
            self._steps.report = self.report.with_step(result)
        return result


def _now_ms() -> int:
    return int(time.time() * 1000)
