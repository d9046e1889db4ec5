"""The last step of a migration: the flow in the other direction takes over, after what was copied.

Under a policy whose names show the origin of a topic there is nothing to do: copies are never copied back. If names are
kept, the topics on the new source hold two kinds of records: first those that were copied there, then those that
producers have written since. The offset map of the flow that ends, which lies on the new source, says where the one
ends and the other begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.start_position import StartKind, StartRules
from srm_common.domain.moving.moves import MoveRequest, StepName, StepResult, StepState
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.policy import is_cycle
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError, DataLost, StateError
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.moving.failover import LastPass, Move
from srm_common.usecases.moving.move_steps import MoveSteps
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.opposite_ends import opposite_ends
from srm_common.usecases.offsets.source_offsets import list_source_offsets, logs_of

#: Any name will do to ask a policy what it makes of names.
_ANY = "topic"


class SwitchMove(Move):
    """A change of direction: everything of a controlled failover, and the turn.

    Args:
        flow: the one that ends.
        back: the one in the other direction.
        last_pass: as for :class:`Move`.
    """

    def __init__(
        self, flow: FlowSettings, back: FlowSettings, request: MoveRequest, last_pass: LastPass | None = None
    ) -> None:
        super().__init__(flow, request, last_pass)
        self._back = back

    def _check(self, steps: MoveSteps) -> StepResult:
        result = super()._check(steps)
        if result.failed:
            return result
        return replace(result, sentences=(*result.sentences, *check_turn(self._flow, self._back)))

    def _turn(self) -> StepResult:
        said = turn(self._flow, self._back, dry_run=self._request.dry_run)
        return StepResult(StepName.TURN, StepState.DONE, said)


def recognizes_copies(flow: FlowSettings, back: FlowSettings) -> bool:
    """Whether ``back`` knows by its name what ``flow`` has copied, and leaves it where it is."""
    return is_cycle(back.policy, back.name.target, flow.policy.format_remote_topic(flow.name.source, _ANY))


def check_turn(flow: FlowSettings, back: FlowSettings) -> tuple[str, ...]:
    """What will have to be done to turn ``flow`` round, for people; changes nothing.

    Raises:
        ConfigError: ``back`` would send records back to where they came from.
        StateError: where the copied records end is not known.
        UnreachableCluster, AccessDenied, ClusterError: as the flow's target answers.
    """
    if recognizes_copies(flow, back):
        return (f"{back.name} takes over at once: it knows by their names the topics that {flow.name} has copied",)
    with FlowClusters(back) as clusters:
        ends = _ends(flow, clusters)
    said = [f"{back.name} will start after what {flow.name} has copied into {counted(len(ends), 'partition')}"]
    if flow.enabled or not back.enabled:
        said.append(f"before it does, turn the configuration file: {_lines(flow, back)}")
    return tuple(said)


def turn(flow: FlowSettings, back: FlowSettings, *, dry_run: bool = False) -> tuple[str, ...]:
    """Make ``back`` start after what ``flow`` has copied; returns sentences about what was done. May be repeated at any
    time.

    Both flows are idle, and every record of ``flow`` is copied.

    Raises:
        ConfigError: the file still says that ``flow`` copies, or ``back`` would send records back.
        StateError: where the copied records end is not known.
        DataLost: they end outside a log.
        FlowRunning: ``back`` is active; nothing was changed.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    if recognizes_copies(flow, back):
        return (f"nothing to do: {back.name} knows by their names the topics that {flow.name} has copied",)
    with FlowClusters(back) as clusters:
        ends = _ends(flow, clusters)
        if not dry_run and (flow.enabled or not back.enabled):
            raise ConfigError(
                f"records would form a loop while the configuration file has {flow.name} enabled; set "
                f"{_lines(flow, back)}, then repeat this step"
            )
        offsets = _beginnings(clusters, ends)
        if not offsets:
            return (f"nothing to do: {back.name} starts after what {flow.name} has copied everywhere",)
        request = Request("", offsets=offsets, command="switch-direction")
        edits = edit_source_offsets(clusters, request, dry_run=dry_run)
    for edit in edits:
        if edit.problem is not None:
            raise DataLost(f"{edit.topic}-{edit.partition} cannot be reversed: {edit.problem}")
    verb = "would be moved" if dry_run else "moved"
    moved = f"{counted(len(offsets), 'partition')} of {len(ends)}"
    return (f"{moved} {verb} after what {flow.name} has copied, where {back.name} starts",)


def _ends(flow: FlowSettings, clusters: FlowClusters) -> Mapping[TopicPartition, int]:
    """Where the copied records end, in the topics of the flow's target."""
    back = clusters.flow
    partitions = clusters.source.admin.topics().partitions
    places = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    found: dict[TopicPartition, int] = {}
    rules = StartRules(back.start_positions)
    for place, end in opposite_ends(clusters, places).items():
        if is_cycle(back.policy, back.name.target, place[0]):
            continue  # heartbeats have names that tell, under every policy
        if isinstance(end, str):
            raise StateError(end)
        if rules.of(place[0])[0].kind is not StartKind.OPPOSITE:
            raise ConfigError(
                f"{back.name} would copy records of {place[0]} back to where they came from; set "
                f"'{back.name}.start.positions = .*=opposite', as docs/start-positions.md explains"
            )
        found[place] = end
    return found


def _beginnings(clusters: FlowClusters, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Start offsets of partitions that would start before the end; records that are gone need not be copied."""
    now = {(offset.topic, offset.partition): offset.offset for offset in list_source_offsets(clusters)}
    logs = logs_of(clusters, ends)
    wanted = {}
    for place, end in ends.items():
        log, position = logs[place], now.get(place)
        begin = max(end, log.start) if isinstance(log, LogRange) else end
        if position is None or position < begin:
            wanted[place] = begin
    return wanted


def _lines(flow: FlowSettings, back: FlowSettings) -> str:
    return f"'{flow.name}.enabled = false' and '{back.name}.enabled = true'"
