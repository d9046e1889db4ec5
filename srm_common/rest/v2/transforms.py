"""/flows/{source}/{target}/transforms: what a flow does to records, and what it would make of the newest ones.

No code of the user's and no Spark runs for it in this process (docs/adr/0017).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fastapi import APIRouter

from srm_common.domain.flow import FlowSettings
from srm_common.errors import ConfigError
from srm_common.rest.app_context import AppContextDep, CallerDep, EditableFlow
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.flow_dependency import LocalFlow
from srm_common.rest.live import CALLS, TAG, flow_now, hurried
from srm_common.rest.ports import Right
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.v2.transform_schemas import PreviewedRecord, TransformPreview, TransformPreviewRequest, Transforms
from srm_common.settings_files.transform_settings import TRANSFORM_FIELDS, transform_keys, with_transforms
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.newest_records import ReadLimits
from srm_common.usecases.runs.record_text import RecordTexts
from srm_common.usecases.runs.transform_preview import FATES, Previewed, preview_transforms

router = APIRouter(prefix="/api/v2/flows/{source}/{target}/transforms", tags=["transforms"])

#: Half of what a live request may take: the rest is for connecting, and for the request that is under way then.
_LIMITS = ReadLimits(seconds=10.0, read_bytes=32 << 20)
#: Of a key, value or header.
_SHOWN_BYTES = 2048


@router.get("", responses=responses(404, 422, 502, 503))
def transforms(flow: LocalFlow, caller: CallerDep, context: AppContextDep) -> Transforms:
    """The flow's keys of transforms as the file has them; references to secrets stay references."""
    configuration = context.configuration()
    settings = configuration.flow(flow)
    return Transforms(
        settings=transform_keys(configuration, flow),
        editable=caller.may(Right.EDIT, flow),
        values_shown=settings.preview_values_enabled,
        elsewhere=_elsewhere([settings]),
        command=_command(settings),
        now_ms=now_ms(),
    )


@router.post("/preview", tags=[TAG], responses=responses(404, 409, 415, 422, 502, 503, 504))
def transform_preview(
    flow: EditableFlow, request: TransformPreviewRequest, caller: CallerDep, context: AppContextDep
) -> TransformPreview:
    """What becomes of the newest records, by the flow's transforms and by those of ``settings``; nothing is written.
    After 10 s, or 32 MiB of records, the answer is what was compared until then."""
    configuration = context.configuration()
    settings = configuration.flow(flow)
    other = None
    if request.settings is not None:
        try:
            other = with_transforms(configuration, settings, request.settings)
        except ConfigError as error:
            raise ApiError(422, "invalid_transforms", str(error), flow=str(flow), field="settings") from None
    reason = _elsewhere([settings, *([] if other is None else [other])])
    if reason is not None:
        raise ApiError(409, "preview_refused", f"{reason}: {_command(settings)}", flow=str(flow))

    def look() -> TransformPreview:
        now = hurried(flow_now(context, flow, caller), _LIMITS.seconds)
        compared = None
        if other is not None:
            compared = replace(now, **{name: getattr(other, name) for name in TRANSFORM_FIELDS})
        with FlowClusters(now) as clusters:
            try:
                found = preview_transforms(clusters, request.topics, request.sample, compared, limits=_LIMITS)
            except ConfigError as error:
                raise ApiError(409, "preview_refused", str(error), flow=str(flow)) from None
        examples = _examples(found.records, compared is not None, request.examples)
        texts = RecordTexts(found.schemas, values=now.preview_values_enabled, most_bytes=_SHOWN_BYTES)
        return TransformPreview(
            counts=_counts(one.after.fate(one.before) for one in found.records),
            other_counts=None
            if compared is None
            else _counts(one.other.fate(one.before) for one in found.records if one.other is not None),
            differences=dict(Counter(one.difference for one in found.records if one.difference)),
            compared=len(found.records),
            ended_early=found.ended_early or None,
            values_shown=now.preview_values_enabled,
            records=[PreviewedRecord.model_validate(texts.to_json(one)) for one in examples],
            topics_left_out=found.topics_left_out,
            now_ms=now_ms(),
        )

    return CALLS.ask(f"the preview of {flow}", look)


def _elsewhere(flows: Iterable[FlowSettings]) -> str | None:
    """Why they are not tried here; None where they are."""
    for flow in flows:
        if flow.transforms_python:
            return "transforms.python is code of yours, which this server does not run"
        if flow.statements:
            return "transforms.sql is evaluated by Spark, which this server does not start"
    return None


def _command(flow: FlowSettings) -> str:
    return f"srm-control transform --flow {shlex.quote(str(flow.name))} --sample 100"


def _counts(fates: Iterable[str]) -> dict[str, int]:
    found = Counter(fates)
    return {fate: found[fate] for fate in FATES}


def _examples(records: Sequence[Previewed], compared: bool, most: int) -> list[Previewed]:
    """Some of every kind: those that differ first, or without a comparison those to which something happens."""
    seen: Counter[str] = Counter()
    ranked = []
    for one in records:
        kind = one.difference if compared else one.after.fate(one.before).removeprefix("unchanged")
        ranked.append((not kind, seen[kind]))
        seen[kind] += 1
    order = sorted(range(len(records)), key=ranked.__getitem__)
    return [records[number] for number in order[:most]]
