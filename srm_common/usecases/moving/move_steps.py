"""The steps of a move: what each one checks, does and reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from srm_common.domain.amount import Amount, counted, duration
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.groups.group_offsets import IDLE
from srm_common.domain.moving.moves import (
    MoveMode,
    MoveReport,
    MoveRequest,
    PositionReport,
    StepName,
    StepResult,
    StepState,
)
from srm_common.domain.offsets.checkpoints import Checkpoint, why_not_moved
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord, FlowRunning, SrmError
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.idle_flow import idle_flow
from srm_common.usecases.moving.left_cluster import LeftCluster
from srm_common.usecases.offsets.backlog import chosen_topics, uncopied
from srm_common.usecases.offsets.group_standings import groups_left_out, left_out_of_the_record, untold
from srm_common.usecases.offsets.resume_points import group_states, move_positions, own_offsets
from srm_common.usecases.runs.replicate import raise_if_failed
from srm_common.usecases.runs.run_journal import last_run

#: One pass of the flow, in whatever way the caller runs flows.
LastPass = Callable[[FlowSettings], RunRecord]

_PAUSE_SECONDS = 1.0
#: Sentences about single groups or partitions in a step's result; the positions have all of them.
_NAMED = 20


class MoveSteps:
    """The work of a move on ``report``, which :meth:`translate` gives its positions.

    Every step raises UnreachableCluster, AccessDenied, ClusterError, StateError as the clusters answer; what the step
    itself finds wrong is its result.
    """

    def __init__(
        self, clusters: FlowClusters, request: MoveRequest, report: MoveReport, last_pass: LastPass | None
    ) -> None:
        self.clusters = clusters
        self.flow = flow = clusters.flow
        self.request = request
        self.report = report
        self.last_pass = last_pass
        self._here, self._there = flow.target.alias, flow.source.alias
        self._source = LeftCluster(clusters, request)

    def check(self) -> StepResult:
        flow, mode = self.flow, self.request.mode
        self.clusters.target.admin_within(10.0).topics()
        away = self._source.away()
        if away is not None and mode is not MoveMode.DISASTER:
            return failed(
                StepName.CHECK,
                f"{away}; mode {mode} needs the source. Where it is gone, use mode {MoveMode.DISASTER}",
                exit_code=3,
            )
        positions = self._source.positions(away)
        if away is None and not positions.live:
            away = f"'{self._there}' does not answer everything: {positions.notes[0]}"
        said = [f"'{self._here}' responds, '{self._there}' does, too"]
        if away is not None:
            said = [f"'{self._here}' responds; {away}", f"checkpoints on '{self._here}' have the positions of groups"]
        others, unlisted = groups_left_out(self.clusters, self.request.groups, source_answers=away is None)
        said += [why_not_moved(name, kind, self._here) for name, kind in others[:_NAMED]]
        said += unlisted
        kinds = dict(others)
        if positions.unknown:
            where = f"has no committed offsets on '{self._there}'"
            if away is not None:
                where = f"has no checkpoints of flow {flow.name} on '{self._here}'"
            nowhere = (
                why_not_moved(group, kinds[group], self._here) if group in kinds else f"group {group} {where}"
                for group in positions.unknown
            )
            return failed(StepName.CHECK, *nowhere, exit_code=2)
        groups = sorted({report.group for report in positions.reports})
        if not groups:
            return failed(
                StepName.CHECK,
                f"no group that flow {flow.name} translates has read anything that is copied between "
                f"'{self._there}' and '{self._here}'; srm-control groups --flow \"{flow.name}\" lists them",
                *said[1:],
            )
        busy = self._still_busy(groups, away)
        if busy and self.request.groups is not None:
            return failed(StepName.CHECK, *_first(busy.values()))
        said += _first(busy.values())
        said.append(f"groups to move: {_listed(groups)}")
        if away is None:
            said += self._without_copy()
        if away is not None:
            said += self._left_behind()
        return _done(StepName.CHECK, *said)

    def stop(self) -> StepResult:
        flow = self.flow
        if not self.clusters.target.reader.partitions(names.offsets_topic(flow.name.source)):
            return _skipped(StepName.STOP, f"flow {flow.name} has never run")
        deadline = time.monotonic() + self.request.wait_seconds
        while True:
            try:
                with idle_flow(self.clusters, f"no group was moved along {flow.name}") as owner:
                    if owner is None:
                        return _done(StepName.STOP, "no run is active; a flow that copies at least once has no fence")
                    return _done(StepName.STOP, "no run is active, and a forgotten one is fenced")
            except FlowRunning:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def drain(self) -> StepResult:
        away = self._source.away()
        mode = self.request.mode
        if mode is MoveMode.DISASTER:
            if away is not None:
                return _skipped(
                    StepName.DRAIN, f"'{self._there}' does not respond: its records beyond the copy stay there"
                )
            return self._drain_if_possible()
        if away is not None:
            return failed(StepName.DRAIN, f"{away}; start again with mode {MoveMode.DISASTER}", exit_code=3)
        if mode is MoveMode.CONTINUOUS:
            return self._await(self._positions_not_copied, "everything that the groups have read is copied")
        return self._await(self._records_not_copied, "everything is copied, and nothing more is written")

    def _drain_if_possible(self) -> StepResult:
        """The source lives, perhaps not for long."""
        if self.last_pass is None:
            return _skipped(StepName.DRAIN, self._source.backlog())
        try:
            raise_if_failed(self.last_pass(self.flow))
        except SrmError as error:
            return _skipped(
                StepName.DRAIN, f"the last pass failed; the move continues with what is already copied: {error}"
            )
        return _done(StepName.DRAIN, self._source.backlog())

    def _await(self, missing: Callable[[], str], well: str) -> StepResult:
        deadline = time.monotonic() + self.request.wait_seconds
        while True:
            if self.last_pass is not None and self.request.mode is not MoveMode.CONTINUOUS:
                raise_if_failed(self.last_pass(self.flow))
            left = missing()
            if not left:
                return _done(StepName.DRAIN, well)
            if time.monotonic() >= deadline:
                return failed(StepName.DRAIN, left)
            time.sleep(_PAUSE_SECONDS)

    def _records_not_copied(self) -> str:
        left = uncopied(self.clusters)
        if left.partitions:
            return (
                f"{left}; stop the producers and run the flow once more "
                f'(srm-control run --flow "{self.flow.name}"), then repeat this step'
            )
        time.sleep(_PAUSE_SECONDS)
        if not left.held and uncopied(self.clusters) != left:
            return "records still arrive; stop the producers, then repeat this step"
        return left.held

    def _positions_not_copied(self) -> str:
        positions = move_positions(self.clusters, self.request.groups, source_answers=True)
        # No run brings a stopped topic on: it would be waited for in vain.
        left = uncopied(self.clusters, going_on=True)

        def copied(report: PositionReport) -> bool:
            place = TopicPartition(report.from_topic, report.partition)
            return left.copied_to.get(place, report.upstream) >= report.upstream

        behind = [report for report in positions.reports if not copied(report)]
        if not behind:
            return ""
        return (
            f"{behind[0].from_topic}-{behind[0].partition} is not copied up to {behind[0].upstream} yet, where group "
            f"{behind[0].group} stands; let flow {self.flow.name} run, then repeat this step"
        )

    def translate(self) -> StepResult:
        away = self._source.away()
        if away is not None and self.request.mode is not MoveMode.DISASTER:
            return failed(StepName.TRANSLATE, f"{away}; start again with mode {MoveMode.DISASTER}", exit_code=3)
        found = self._source.positions(away)
        busy = self._busy(sorted({report.group for report in found.reports}), away)
        positions = tuple(
            replace(report, applied=None, read_again=Amount.not_known(), reason=busy[report.group])
            if report.group in busy
            else report
            for report in found.reports
        )
        if found.live and self.request.mode is MoveMode.DISASTER:
            positions = self._source.with_readers_left(positions)
        self.report = self.report.with_positions(positions)
        placed = [position for position in positions if position.translated]
        said = [
            f"{counted(len(placed), 'position')} of {counted(len({report.group for report in placed}), 'group')} "
            f"translated; {self.report.bound}"
        ]
        nowhere = [position for position in positions if not position.translated and position.group not in busy]
        if nowhere:
            said.append(f"{counted(len(nowhere), 'position')} without a place, the first: {nowhere[0].reason}")
        said += [*busy.values()][:_NAMED]
        said += found.notes
        return _done(StepName.TRANSLATE, *said, exit_code=1 if busy else 0)

    def apply(self) -> StepResult:
        todo: dict[str, list[Checkpoint]] = {}
        wanted = [position for position in self.report.positions if position.changes]
        # The step may be repeated when its consumers have long begun to read here.
        now = own_offsets(self.clusters.target, sorted({report.group for report in wanted}))
        for report in wanted:
            if not _gone_on(report, now.get(report.group, {}).get(TopicPartition(report.topic, report.partition))):
                todo.setdefault(report.group, []).append(_as_checkpoint(report))
        busy = self._busy(todo, None) if todo else {}
        free = {group: places for group, places in todo.items() if group not in busy}
        faults = list(busy.values())
        committed = groups = 0
        for group, done in self.clusters.target.group_offsets.commit_all(free).items():
            committed += done.positions
            groups += bool(done.positions)
            faults += [fault.reason for fault in done.faults]
            if done.forbidden is not None:
                faults.append(f"group {group} is {done.forbidden} on '{self._here}'")
        said = f"{counted(committed, 'offset')} of {counted(groups, 'group')} committed on '{self._here}'"
        if faults:
            return failed(
                StepName.APPLY, f"{said}, which stay; repeat this step once the others are fixed", *_first(faults)
            )
        kept = sum(position.translated for position in self.report.positions) - committed
        return _done(StepName.APPLY, said, *([f"{counted(kept, 'offset')} needed no change"] if kept else []))

    def verify(self) -> StepResult:
        wanted = [position for position in self.report.positions if position.translated]
        offsets, faults = self.clusters.target.groups().offsets(sorted({report.group for report in wanted}))
        at = {(group.group, *place): offset.offset for group in offsets for place, offset in group.offsets.items()}
        wrong = [fault.reason for fault in faults]
        gone_on = 0
        for report in wanted:
            now = at.get((report.group, report.topic, report.partition))
            assert report.applied is not None
            if now is None or now < report.applied:
                place = f"{report.topic}-{report.partition}"
                wrong.append(f"group {report.group} is at {now} in {place}, not at {report.applied}")
            gone_on += now is not None and now > report.applied
        if self.request.mode is not MoveMode.DISASTER and self._source.away() is None:
            wrong += self._moved_since()
        if wrong:
            return failed(StepName.VERIFY, *_first(wrong))
        said = [f"{counted(len(wanted), 'position')} read back from '{self._here}'"]
        if gone_on:
            said.append(f"at {gone_on} of them consumers have read on already")
        return _done(StepName.VERIFY, *said)

    def conclude(self) -> StepResult:
        report = self.report
        placed = [position for position in report.positions if position.translated]
        nowhere = [position for position in report.positions if not position.translated]
        groups = sorted({position.group for position in placed})
        # Positions have an age where they are from the target; so is what is known of those that have none.
        from_here = any(position.age_ms for position in report.positions)
        left_out = left_out_of_the_record(self.clusters) if from_here else 0
        skipped = "none is skipped"
        if left_out is None:
            skipped = "where groups have an offset none is skipped; which positions have none is not known in full"
        elif nowhere or left_out:
            without = counted(len(nowhere) + left_out, "position")
            skipped = f"where groups have an offset none is skipped; auto.offset.reset applies to {without} without one"
        said = [
            f"{counted(len(groups), 'group')} moved to '{self._here}': {_listed(groups)}",
            f"{report.bound}; {skipped}",
        ]
        oldest = max((position.age_ms for position in placed), default=0)
        if oldest:
            said.append(f"positions are as they were known up to {duration(oldest)} ago")
        topics = sorted({position.topic for position in placed})
        said.append(f"start the consumers on '{self._here}'; their topics there: {_listed(topics)}")
        said += _first(
            f"group {position.group} has no offset in {position.topic}-{position.partition}: {position.reason}"
            for position in nowhere
        )
        if left_out:
            said.append(untold(left_out))
        broken = [step.step for step in report.steps if step.failed]
        if broken:
            return failed(StepName.REPORT, f"step {broken[0]} failed: repeat it once that is fixed", *said)
        return _done(StepName.REPORT, *said)

    # ---- what steps look at

    def _busy(self, groups: Iterable[str], away: str | None) -> dict[str, str]:
        """The groups that cannot be moved now, each with a message: they have active members."""
        wanted = set(groups)
        busy = {
            group: f"group {group} is in use on '{self._here}' ({state}): stop its consumers there"
            for group, state in group_states(self.clusters.target, wanted).items()
            if state not in IDLE
        }
        if away is None and self.request.mode is not MoveMode.DISASTER:
            for group, state in group_states(self.clusters.source, wanted).items():
                if state not in IDLE:
                    busy[group] = (
                        f"group {group} is in use on '{self._there}' ({state}): stop its consumers there first"
                    )
        return busy

    def _still_busy(self, groups: Iterable[str], away: str | None) -> dict[str, str]:
        """The same, once consumers had their time to leave: a member that died stays for the group's session."""
        deadline = time.monotonic() + (0.0 if self.request.dry_run else self.request.wait_seconds)
        while (busy := self._busy(groups, away)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        return busy

    def _without_copy(self) -> list[str]:
        """Groups that read new topics only are not among those to move."""
        try:
            return chosen_topics(self.clusters).without_copy(str(self.flow.name))
        except SrmError:
            if self.request.mode is MoveMode.DISASTER:
                return []
            raise

    def _left_behind(self) -> list[str]:
        try:
            record = last_run(self.clusters)
        except CorruptRecord as error:
            return [f"what the last run left uncopied is unknown: {error}"]
        if record is None:
            return []
        ago = duration(max(0, self.clusters.now_ms() - record.started_ms))
        left = record.backlog.text("partition")
        return [f"offsets that the last run, {ago} ago, left uncopied: {left}; what arrived since is unknown"]

    def _moved_since(self) -> list[str]:
        """What has changed at the source since positions were translated."""
        positions = move_positions(self.clusters, self.request.groups, source_answers=True)
        before = {position.upstream_place: position.upstream for position in self.report.positions}
        moved = [
            f"group {report.group} has read on from {before[key]} to {report.upstream} in "
            f"{report.from_topic}-{report.partition} on '{self._there}': stop its consumers there and do this again"
            for report in positions.reports
            if (key := report.upstream_place) in before and before[key] < report.upstream
        ]
        if self.request.mode is MoveMode.CONTROLLED:
            left = str(uncopied(self.clusters))
            moved += [f"{left}: there is still a writer; repeat this step"] if left else []
        return moved


def failed(step: StepName, *sentences: str, exit_code: int = 1) -> StepResult:
    return StepResult(step, StepState.FAILED, sentences, exit_code=exit_code)


def _done(step: StepName, *sentences: str, exit_code: int = 0) -> StepResult:
    return StepResult(step, StepState.DONE, sentences, exit_code=exit_code)


def _skipped(step: StepName, *sentences: str) -> StepResult:
    return StepResult(step, StepState.SKIPPED, sentences)


def _gone_on(position: PositionReport, now: int | None) -> bool:
    """Whether the group has been put there, or has read on from there, since its place was translated."""
    assert position.applied is not None
    return now is not None and now != position.before and now >= position.applied


def _as_checkpoint(position: PositionReport) -> Checkpoint:
    assert position.applied is not None
    group, topic, partition = position.group, position.topic, position.partition
    return Checkpoint(group, topic, partition, position.upstream, position.applied, position.metadata)


def _first(sentences: Iterable[str]) -> list[str]:
    found = list(sentences)
    more = len(found) - _NAMED
    return found if more <= 0 else [*found[:_NAMED], f"and {more} more; the positions of the report have all"]


def _listed(words: Iterable[str]) -> str:
    listed = list(words)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
