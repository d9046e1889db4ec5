"""The cluster that groups leave, the source of the flow of a move.

In a disaster it may be gone, or half dead: it answers, but some partitions have no leader, or a broker swallows what it
is asked. So in mode ``disaster`` what it does not answer is said, and never an error; and it is not asked for long.
"""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.amount import counted
from srm_common.domain.groups.group_offsets import IDLE
from srm_common.domain.moving.moves import MoveMode, MoveRequest, PositionReport
from srm_common.errors import SrmError
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.backlog import known_backlog
from srm_common.usecases.offsets.resume_points import Positions, answers, move_positions

#: How long it has to respond: every step queries it, and it may be gone.
_PATIENCE, _PATIENCE_ON_A_BAD_DAY = 15.0, 4.0
#: How long any other request may take on a bad day. Later ones of a step are not sent once one has failed.
_REQUEST_SECONDS_ON_A_BAD_DAY = 10.0


def request_limits(alias: str, request: MoveRequest) -> dict[str, float]:
    """How long requests to the cluster ``alias`` that groups leave may take, as FlowClusters takes it."""
    return {alias: _REQUEST_SECONDS_ON_A_BAD_DAY} if request.mode is MoveMode.DISASTER else {}


class LeftCluster:
    """What a step asks of it.

    Every method raises UnreachableCluster, AccessDenied, ClusterError, StateError as the target answers; in modes other
    than ``disaster`` also as this cluster answers.
    """

    def __init__(self, clusters: FlowClusters, request: MoveRequest) -> None:
        self._clusters = clusters
        self._request = request
        self._alias = clusters.flow.source.alias

    @property
    def _disaster(self) -> bool:
        return self._request.mode is MoveMode.DISASTER

    def away(self) -> str | None:
        """Why it cannot be queried, None when it answers in time."""
        return answers(self._clusters.source, _PATIENCE_ON_A_BAD_DAY if self._disaster else _PATIENCE)

    def positions(self, away: str | None) -> Positions:
        """Where the groups resume: by what it says where it answers, otherwise by checkpoints."""
        groups = self._request.groups
        try:
            return move_positions(self._clusters, groups, source_answers=away is None)
        except SrmError as error:
            if away is not None or not self._disaster:
                raise
            # It answers, but not to everything. Errors of the target come again.
            positions = move_positions(self._clusters, groups, source_answers=False)
            positions.notes.insert(0, str(error))
            return positions

    def backlog(self) -> str:
        """What is not copied, for a disaster: as far as it answers, and how far it does not."""
        found = known_backlog(self._clusters)
        left = str(found)
        if not found.faults:
            return left or "everything is copied"
        if not found.copied_to:
            return f"how much is not copied is unknown: {found.faults[0]}"
        known = left or f"everything is copied of the {counted(len(found.copied_to), 'partition')} that can be read"
        return f"{known}; how much is not copied of the rest is unknown: {found.faults[0]}"

    def with_readers_left(self, positions: tuple[PositionReport, ...]) -> tuple[PositionReport, ...]:
        """Consumers that are left there keep reading an unknown number of records."""
        left = self._in_use({position.group for position in positions})
        return tuple(
            position.with_more_to_read(left[position.group])
            if position.group in left and position.translated
            else position
            for position in positions
        )

    def _in_use(self, groups: Iterable[str]) -> dict[str, str]:
        """The groups that are in use there, or may be, each with a sentence."""
        wanted = set(groups)
        try:
            listed, faults = self._clusters.source.groups().groups()
        except SrmError as error:
            listed, doubt = [], str(error)
        else:
            doubt = str(faults[0]) if faults else ""
        used = f"the group is in use on '{self._alias}': what it reads there from now on is read again"
        left = {group.name: used for group in listed if group.name in wanted and group.state not in IDLE}
        if doubt:
            why = f"whether the group is still in use on '{self._alias}' is unknown: {doubt}"
            left |= dict.fromkeys(wanted - {group.name for group in listed}, why)
        return left
