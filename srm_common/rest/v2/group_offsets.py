"""/flows/{source}/{target}/group-offsets and /offsets: offsets of consumer groups on both sides, and setting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from srm_common.domain.flow import FlowSettings
from srm_common.domain.groups.group_offsets import AppliedOffset, GroupOffset
from srm_common.rest import schemas
from srm_common.rest.app_context import AfterLogin, AppContextDep, CallerDep, EditableFlow
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.flow_dependency import LocalFlow
from srm_common.rest.live import CALLS, TAG, Writing, flow_now, hurried
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.v2.steering_schemas import OffsetsApplied, OffsetsRequest
from srm_common.usecases.groups.apply_offsets import apply_offsets
from srm_common.usecases.groups.explain_offsets import export_offsets, group_positions

router = APIRouter(prefix="/api/v2", tags=["groups", TAG], route_class=AfterLogin)

Group = Annotated[str, Query(min_length=1, max_length=1000, examples=["billing"])]
#: The most problems in a response.
_TOLD = 100


@router.get("/flows/{source}/{target}/group-offsets", responses=responses(404, 422, 502, 503, 504))
def group_offsets(flow: LocalFlow, group: Group, caller: CallerDep, context: AppContextDep) -> schemas.GroupOffsets:
    """Each partition of a group: the offset at the source, the translated one, the one at the target, and the reason if
    there is none."""
    positions = CALLS.ask(
        f"the offsets of group {group}", lambda: group_positions(hurried(flow_now(context, flow, caller)), group)
    )
    now = now_ms()
    offsets = [
        schemas.GroupOffset(
            topic=row.topic,
            remote_topic=row.remote_topic or "",
            partition=row.partition,
            source_offset=row.upstream,
            translated=row.translated,
            applied=row.applied,
            age_ms=None if row.written_ms is None else max(0, now - row.written_ms),
            reason=row.reason or None,
        )
        for row in positions.rows
    ]
    notes = [schemas.Fault(code="group_note", message=note, flow=str(flow)) for note in positions.notes]
    return schemas.GroupOffsets(group=group, offsets=offsets, errors=notes, now_ms=now)


@router.post("/flows/{source}/{target}/offsets", responses=responses(404, 409, 415, 422, 502, 503, 504))
def set_offsets(flow: EditableFlow, request: OffsetsRequest, context: AppContextDep) -> OffsetsApplied:
    """Commit offsets for groups without active members at the target: those of the newest checkpoints, or those in the
    request. If a single one cannot be set, none is; each is read back afterwards."""
    settings = hurried(context.configuration().flow(flow))
    sent, writing = _sent(request), Writing()
    applied = CALLS.ask(
        f"the offsets of {', '.join(request.groups[:3])}",
        lambda: apply_offsets(
            settings.target,
            _of_checkpoints(settings, request.groups) if sent is None else sent,
            dry_run=request.dry_run,
            rewind=request.rewind,
            begin=writing.begin,
        ),
        writing=None if request.dry_run else writing,
    )
    problems = [offset for offset in applied if offset.problem is not None]
    if problems and not request.dry_run and all(offset.after is None for offset in applied):
        raise ApiError(
            409,
            "offsets_refused",
            f"nothing was set: {len(problems)} of {len(applied)} offsets cannot be set, such as "
            f"{_sentence(problems[0])}",
            flow=str(flow),
        )
    errors = [
        schemas.Fault(code="offset_refused", message=_sentence(problem), flow=str(flow)) for problem in problems[:_TOLD]
    ]
    return OffsetsApplied(
        applied=[offset.to_json() for offset in applied], dry_run=request.dry_run, errors=errors, now_ms=now_ms()
    )


def _sent(request: OffsetsRequest) -> list[GroupOffset] | None:
    """The offsets of the request, None when those of the checkpoints are meant. Raises :class:`ApiError`."""
    if not request.groups:
        raise ApiError(422, "invalid_parameter", "groups: name at least one consumer group", field="groups")
    if not request.offsets:
        return None
    if len(request.groups) > 1:
        raise ApiError(422, "invalid_parameter", "groups: with offsets, name exactly one group", field="groups")
    made: dict[tuple[str, int], GroupOffset] = {}
    for place, one in enumerate(request.offsets):
        if one.translated is None:
            field = f"offsets.{place}.translated"
            raise ApiError(422, "invalid_parameter", f"{field}: the offset to set is missing", field=field)
        where = one.remote_topic, one.partition
        if where in made:
            field, name = f"offsets.{place}", f"{one.remote_topic}-{one.partition}"
            raise ApiError(422, "invalid_parameter", f"{field}: {name} is listed twice; nothing was set", field=field)
        made[where] = GroupOffset(request.groups[0], one.remote_topic, one.partition, one.translated)
    return list(made.values())


def _of_checkpoints(flow: FlowSettings, groups: Sequence[str]) -> list[GroupOffset]:
    checkpoints = [offset.checkpoint for offset in export_offsets(flow, groups).offsets]
    known = {checkpoint.group for checkpoint in checkpoints}
    for group in groups:
        if group not in known:
            raise ApiError(
                409,
                "no_checkpoint",
                f"group {group} has no checkpoint of flow {flow.name} on cluster '{flow.target.alias}', so nothing was "
                f"set; its group-offsets say why",
                flow=str(flow.name),
            )
    return [
        GroupOffset(
            checkpoint.group, checkpoint.topic, checkpoint.partition, checkpoint.downstream, checkpoint.metadata
        )
        for checkpoint in checkpoints
    ]


def _sentence(one: AppliedOffset) -> str:
    return f"{one.wanted.group}: {one.wanted.topic}-{one.wanted.partition}: {one.problem}"
