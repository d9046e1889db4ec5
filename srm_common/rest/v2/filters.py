"""/flows/{source}/{target}/filters: the filters of a flow, which may be edited while it runs."""

from __future__ import annotations

from fastapi import APIRouter

from srm_common.domain.filters.flow_filters import FIELDS, Edited, FilterEdit, FilterLists, FlowFilters, edited
from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.selection import TopicDecision
from srm_common.errors import ConfigError, EditConflict, SrmError
from srm_common.rest.app_context import AfterLogin, AppContextDep, CallerDep, EditableFlow, ReadableFlow
from srm_common.rest.faults import ApiError, fault_of, responses
from srm_common.rest.live import CALLS, TAG, Writing, filters_of
from srm_common.rest.ports import Right
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import Decision, Fault
from srm_common.rest.v2.steering_schemas import Done, FilterEditRequest, FilterPreview, Filters
from srm_common.usecases.filters.edited_filters import FilterPlace
from srm_common.usecases.filters.effective_filters import EffectiveFilters
from srm_common.usecases.filters.filter_effect import groups_effect, topics_effect
from srm_common.usecases.filters.filter_history import filter_history

router = APIRouter(prefix="/api/v2", tags=["filters", TAG], route_class=AfterLogin)

#: The newest edits in an answer; srm-control topics --history has all.
_EDITS = 100
_GROUPS = ("groups", "groups.exclude")
#: The most notes in the response to an edit.
_SAID = 5
#: How long to wait for the edits; after that, the lists of the file are shown.
_SHOWING_SECONDS = 5.0


@router.get("/flows/{source}/{target}/filters", responses=responses(404, 422, 503, 504))
def filters(flow: ReadableFlow, caller: CallerDep, context: AppContextDep) -> Filters:
    """The lists in effect, those of the file, and the history of edits; if the edits cannot be read, the lists of the
    file."""
    settings, place = filters_of(context, flow, caller)
    in_file = FlowFilters.of(settings)
    faults: list[Fault] = []
    effective: EffectiveFilters | None = None
    history = []
    try:
        effective = CALLS.ask(f"the filters of {flow}", place.effective, _SHOWING_SECONDS)
        faults += [Fault(code="filters_unusable", message=fault, flow=str(flow)) for fault in effective.faults]
        records, unreadable = CALLS.ask(f"the history of {flow}", lambda: filter_history(settings), _SHOWING_SECONDS)
        history = [record.to_json() for record in records[: -_EDITS - 1 : -1]]
        faults += [Fault(code="state_unusable", message=one, flow=str(flow)) for one in unreadable]
    except SrmError as error:
        faults.append(fault_of(error, flow=str(flow)))
    except ApiError as error:
        faults.append(error.fault)
    now = in_file if effective is None else effective.filters
    return Filters(
        lists=now.lists().to_json(),
        in_file=in_file.lists().to_json(),
        edited=list(now.edited),
        origin=now.origin,
        editable=effective is not None and caller.may(Right.EDIT, flow),
        revision=None if effective is None else place.revision,
        history=history,
        errors=faults,
        now_ms=now_ms(),
    )


@router.put("/flows/{source}/{target}/filters", responses=responses(404, 409, 415, 422, 502, 503, 504))
def edit_filters(flow: EditableFlow, request: FilterEditRequest, caller: CallerDep, context: AppContextDep) -> Done:
    """Edit the lists; the edit takes effect in the flow's next run. With ``revision`` it is refused if the lists were
    edited since that revision."""
    if not request.model_fields_set & {"lists", "reset"}:
        raise ApiError(422, "invalid_parameter", "lists: say which to edit, in lists or reset", field="lists")
    settings, place = filters_of(context, flow, caller)

    writing = Writing()

    def make() -> str:
        effective = place.effective()
        result = _edited(settings, place, effective, request)
        if result.lists == effective.lists and not effective.faults:
            return f"the filters of {flow} in {place.place} are already like this"
        writing.begin()
        notes = [*result.notes, *place.write(result.lists, effective, request.note or "edited by the REST API")]
        sentence = f"the filters of {flow} are edited in {place.place}; the edit takes effect in the next run"
        return "; ".join([sentence, *notes[:_SAID]])

    return Done(done=CALLS.ask(f"the edit of {flow}", make, writing=writing), now_ms=now_ms())


@router.post("/flows/{source}/{target}/filters/preview", responses=responses(404, 409, 415, 422, 502, 503, 504))
def preview(flow: EditableFlow, request: FilterEditRequest, caller: CallerDep, context: AppContextDep) -> FilterPreview:
    """What the edit would start and stop copying, for the topics and groups that exist now."""
    settings, place = filters_of(context, flow, caller)

    def look() -> FilterPreview:
        effective = place.effective()
        result = _edited(settings, place, effective, request)
        before, after = effective.flow, result.lists.over(settings, place.place).applied_to(settings)
        filter_preview = FilterPreview(starts=[], stops=[], unchanged=0, warnings=list(result.notes), now_ms=now_ms())
        topics = topics_effect(before, after)
        filter_preview.starts = [decision_shown(start) for start in topics.starts]
        filter_preview.stops = [decision_shown(stop) for stop in topics.stops]
        filter_preview.unchanged = sum(decision.accepted for decision in topics.before) - len(filter_preview.stops)
        filter_preview.warnings += topics.notes
        if any(getattr(before, FIELDS[key]) != getattr(after, FIELDS[key]) for key in _GROUPS):
            groups = groups_effect(before, after)
            filter_preview.groups_start = sorted(groups.after - groups.before)
            filter_preview.groups_stop = sorted(groups.before - groups.after)
            filter_preview.warnings += groups.notes
        return filter_preview

    return CALLS.ask(f"the preview of {flow}", look)


def decision_shown(one: TopicDecision) -> Decision:
    return Decision(topic=one.topic, remote_topic=one.remote_topic, copied=one.accepted, reason=one.reason)


def _edited(
    settings: FlowSettings, place: FilterPlace, effective: EffectiveFilters, request: FilterEditRequest
) -> Edited:
    """The lists after the edit. A list that is sent unchanged does not count as edited, so it keeps following the file.

    Raises:
        EditConflict: the lists have changed since the caller read them.
        ApiError: 422 for a list or an expression that cannot be used.
    """
    if request.revision is not None and request.revision != place.revision:
        raise EditConflict(
            f"the filters of {settings.name} in {place.place} were edited concurrently; nothing was changed, check "
            f"them and repeat the edit"
        )
    try:
        sent = FilterLists.of(request.lists)
        FilterLists.of(dict.fromkeys(request.reset, ()))
        unusable = bool(effective.faults)
        put = FilterLists(
            tuple(
                (key, patterns)
                for key, patterns in sent.lists
                if unusable or patterns != effective.filters.patterns(key)
            )
        )
        return edited(FlowFilters.of(settings), effective.lists, FilterEdit(put=put, reset=tuple(request.reset)))
    except ConfigError as error:
        raise ApiError(422, "invalid_filter", str(error), flow=str(settings.name), field="lists") from None
