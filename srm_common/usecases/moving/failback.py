"""Groups go back to where they came from: a move along the flow in the other direction.

The positions that a group has on a copy are translated back by the map of the flow that made the copy; those on topics
that were written on the backup by the map of the flow that leads back. Neither needs names.
"""

from __future__ import annotations

from srm_common.domain.flow import FlowSettings
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest
from srm_common.errors import ConfigError
from srm_common.usecases.moving.failover import LastPass, Move
from srm_common.usecases.offsets.resume_points import opposite


def failback(
    flow: FlowSettings, back: FlowSettings | None, request: MoveRequest, last_pass: LastPass | None = None
) -> Move:
    """The move of a failback.

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
