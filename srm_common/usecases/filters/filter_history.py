"""The history of a flow's filters in ``srm-control.internal``: reads it, and adds to it."""

from __future__ import annotations

from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import FILTERS, ControlRecord
from srm_common.errors import EditConflict
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of

#: Origins of a record of kind "filters": where the lists were edited.
IN_AIRFLOW = "airflow"
IN_ENVIRONMENT = "environment"
IN_KAFKA = "kafka"


def filter_history(flow: FlowSettings | FlowClusters) -> tuple[list[ControlRecord], list[str]]:
    """The edits that took effect, the oldest first; and one sentence for each record that cannot be read.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    with clusters_of(flow) as clusters, clusters.control_log() as log:
        return log.standing(FILTERS), log.unreadable


def last_edit(flow: FlowSettings | FlowClusters) -> ControlRecord | None:
    """The record of the lists that were in force last. Raises as :func:`filter_history`."""
    standing, _ = filter_history(flow)
    return standing[-1] if standing else None


def record_edit(
    flow: FlowSettings | FlowClusters,
    after: FilterLists,
    *,
    origin: str,
    who: str | None = None,
    note: str = "",
    writes_to: ClusterSettings | None = None,
) -> ControlRecord:
    """Add an edit that was made elsewhere to the history. Raises as :func:`filter_history`."""
    with clusters_of(flow) as clusters, clusters.control_log(writes_to) as log:
        standing = log.standing(FILTERS)
        last = standing[-1] if standing else None
        return log.append(
            FILTERS, before=_after(last), after=after.to_json(), who=who, origin=origin, note=note, based_on=last
        )


def make_edit(
    flow: FlowSettings,
    after: FilterLists,
    *,
    based_on: ControlRecord | None,
    who: str,
    note: str = "",
    writes_to: ClusterSettings | None = None,
) -> ControlRecord:
    """Make an edit where the history itself is where edits are kept.

    Args:
        based_on: the last edit that its author has seen.

    Raises:
        EditConflict: there is a later one by now; nothing was changed.
        UnreachableCluster, AccessDenied, ClusterError, StateTopicInvalid: as the target answers.
    """
    with FlowClusters(flow) as clusters, clusters.control_log(writes_to) as log:
        _refuse_later(log.standing(FILTERS), based_on, flow)
        made = log.append(
            FILTERS,
            before=_after(based_on),
            after=after.to_json(),
            who=who,
            origin=IN_KAFKA,
            note=note,
            based_on=based_on,
        )
        standing = log.standing(FILTERS)
        if all(record.key != made.key for record in standing):
            _refuse_later(standing, based_on, flow)
    return made


def _refuse_later(standing: list[ControlRecord], based_on: ControlRecord | None, flow: FlowSettings) -> None:
    last = standing[-1] if standing else None
    if last is not None and (based_on is None or last.key != based_on.key):
        raise EditConflict(
            f"the filters of {flow.name} were edited concurrently by {last.who or 'an unknown user'} at {last.when}; "
            f"nothing was changed, check them and repeat the edit"
        )


def _after(record: ControlRecord | None) -> Any:
    return {} if record is None else record.after
