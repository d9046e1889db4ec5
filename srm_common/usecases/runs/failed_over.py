"""Runs of a flow along which groups have failed over. It was paused for that, which only Airflow's database knows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from srm_common.domain.amount import duration
from srm_common.domain.flow.names import StateKey
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport
from srm_common.errors import ClusterError
from srm_common.usecases.flows.flow_clusters import FlowClusters

_LOG = logging.getLogger(__name__)
#: So long runs say it, where others have followed the failover already: the flow was resumed on purpose by then.
_SAID_FOR_MS = 24 * 3_600_000


def failed_over(clusters: FlowClusters, newest_move: Mapping[str, Any] | None, last_run_ms: int | None) -> str | None:
    """One sentence if the flow's groups are on the target, since they failed over and nothing moved them back.

    Args:
        newest_move: the record of the newest move along the flow, as it is in the flow's state.
        last_run_ms: when the last run began, in epoch milliseconds.
    """
    flow = clusters.flow
    if newest_move is None:
        return None
    try:
        move = _without_positions(newest_move)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        return (
            f"the record of the last move along {flow.name} cannot be read ({error!r}), so check where its groups are"
        )
    moved_ms, now_ms = move.moved_ms, clusters.now_ms()
    if move.request.kind is not MoveKind.FAILOVER or move.request.mode is MoveMode.CONTINUOUS or moved_ms is None:
        return None
    if last_run_ms is not None and last_run_ms > moved_ms and now_ms - moved_ms > _SAID_FOR_MS:
        return None
    if _moved_back(clusters) > moved_ms:
        return None
    name = flow.name
    return (
        f"groups failed over along {name} {duration(now_ms - moved_ms)} ago and have not come back since: what is "
        f"copied now was not on '{name.target}' then, so groups that had read it on '{name.source}' read it again; "
        "pause the flow until the failback (Airflow's database has lost the pause, or someone ended it)"
    )


def _without_positions(found: Mapping[str, Any]) -> MoveReport:
    return MoveReport.from_json({**found, "positions": []})


def _moved_back(clusters: FlowClusters) -> int:
    """When groups were last moved in the other direction, 0 if that is not known."""
    try:
        reports = clusters.source.kept_by_flow(clusters.flow.name.target, StateKey.MOVE, _without_positions)
    except ClusterError as error:
        _LOG.info("%s: it is unknown whether groups have failed back: %s", clusters.flow.name, error)
        return 0
    return max((report.moved_ms or 0 for report in reports), default=0)
