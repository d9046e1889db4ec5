"""The filters in effect for a flow: the edited lists if there are any, otherwise those of the properties file.

Edits are kept in the Airflow variable of the flow. Where that does not exist, the last edit that srm-control made
without an Airflow counts (its record in ``srm-control.internal``). If the variable cannot be read, the last valid lists
stay in effect: those of the last record.

So they do if the variable is not found although the last record is from it. Where Airflow cannot read its database or
secrets backend, it says that a variable does not exist, and topics that someone has excluded must not be copied because
of that. So deleting the variable is no edit; with ``{}`` in it, the lists of the file apply again.
"""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.filters.flow_filters import FilterLists, FlowFilters
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import ControlRecord
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.errors import AirflowError, ConfigError
from srm_common.usecases.filters.filter_history import IN_AIRFLOW, IN_ENVIRONMENT, IN_KAFKA, last_edit, record_edit
from srm_common.usecases.flows.flow_clusters import FlowClusters


@dataclass(frozen=True, slots=True)
class EditedLists:
    """What was found where edits are kept. ``text`` None: none was found, and ``unread`` is why there may be one
    nevertheless, if that is known. ``place`` for people, e.g. ``Airflow variable srm_filters__a__b``; ``origin`` one of
    the words of :mod:`srm_common.usecases.filters.filter_history`."""

    text: str | None
    place: str
    origin: str = IN_AIRFLOW
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class EffectiveFilters:
    """``flow`` has the filters that count. ``faults``: one sentence for each thing that keeps an edit from acting.
    ``lists`` are the edits that count, as they would be recorded; ``last`` is the record they are from, if any."""

    flow: FlowSettings
    filters: FlowFilters
    lists: FilterLists
    origin: str
    faults: tuple[str, ...] = ()
    last: ControlRecord | None = None

    def explain(self) -> str:
        """Where each list is from, in a line."""
        if not self.filters.edited:
            return f"filters: {self.filters.origin}"
        return f"filters: {', '.join(self.filters.edited)} from {self.filters.origin}; others from the properties file"


def effective_filters(clusters: FlowSettings | FlowClusters, found: EditedLists | None) -> EffectiveFilters:
    """The lists in effect for a flow, whose own lists are those of the properties file.

    Args:
        found: what the Airflow variable holds; None where there is no Airflow to ask.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: srm-control.internal was needed, and cannot be read.
        AirflowError: there may be lists that cannot be read, and no earlier ones are known.
    """
    flow = clusters.flow if isinstance(clusters, FlowClusters) else clusters
    if found is not None and found.text is not None:
        try:
            return _made(flow, FilterLists.parse(found.text), found.place, found.origin)
        except ConfigError as error:
            return _last_good(flow, last_edit(clusters), found, str(error))
    last = last_edit(clusters)
    if found is not None and (found.unread is not None or (last is not None and last.origin != IN_KAFKA)):
        return _not_found(flow, last, found)
    if last is None:
        return _made(flow, FilterLists(), "", IN_KAFKA if found is None else found.origin)
    lists = _recorded(last)
    if isinstance(lists, str):
        return _made(
            flow, FilterLists(), "", last.origin, f"{lists}; the lists of the properties file apply", last=last
        )
    place = f"{CONTROL_TOPIC} on cluster '{flow.target.alias}', of {last.when}"
    return _made(flow, lists, place, last.origin, last=last)


def record_found(flow: FlowSettings | FlowClusters, effective: EffectiveFilters) -> ControlRecord | None:
    """Record lists that were edited elsewhere, as in Airflow's own pages.

    Returns:
        The new record; None when the lists are those of the last one, or cannot be read.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateTopicInvalid: the record cannot be written.
    """
    if effective.faults:
        return None
    last = last_edit(flow)
    if effective.lists.to_json() == ({} if last is None else last.after):
        return None
    place = "environment variable" if effective.origin == IN_ENVIRONMENT else "variable"
    note = f"found in the Airflow {place}" if effective.lists.lists else f"the Airflow {place} has no lists"
    return record_edit(flow, effective.lists, origin=effective.origin, note=note)


def _not_found(flow: FlowSettings, last: ControlRecord | None, found: EditedLists) -> EffectiveFilters:
    if last is not None and last.after:
        reason = found.unread or (
            f"it was not found, and Airflow does not tell whether it was deleted or could not be read; if {flow.name} "
            f"is to go by the properties file, set it to {{}}"
        )
        return _last_good(flow, last, found, reason)
    if found.unread is not None:
        raise AirflowError(f"{found.unread}; {flow.name} has no other lists that are known to be valid")
    return _made(flow, FilterLists(), "", found.origin, last=last)


def _last_good(flow: FlowSettings, last: ControlRecord | None, found: EditedLists, reason: str) -> EffectiveFilters:
    fault = f"{found.place} cannot be used: {reason}"
    if last is None:
        return _made(flow, FilterLists(), "", found.origin, f"{fault}; the lists of the properties file apply")
    lists = _recorded(last)
    if isinstance(lists, str):
        fault = f"{fault}; {lists}; the lists of the properties file apply"
        return _made(flow, FilterLists(), "", found.origin, fault)
    if not lists.lists:
        return _made(flow, lists, "", last.origin, f"{fault}; the lists of the properties file apply, as before")
    return _made(
        flow,
        lists,
        f"the last good edit, of {last.when}",
        last.origin,
        f"{fault}; the flow continues with its last valid filters, of {last.when}",
    )


def _recorded(record: ControlRecord) -> FilterLists | str:
    try:
        return FilterLists.from_json(record.after)
    except ConfigError as error:
        return f"the record of {record.when} in {CONTROL_TOPIC} cannot be used: {error}"


def _made(
    flow: FlowSettings,
    lists: FilterLists,
    place: str,
    origin: str,
    *faults: str,
    last: ControlRecord | None = None,
) -> EffectiveFilters:
    filters = lists.over(flow, place)
    return EffectiveFilters(filters.applied_to(flow), filters, lists, origin, faults, last)
