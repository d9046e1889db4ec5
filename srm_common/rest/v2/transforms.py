"""/flows/{source}/{target}/transforms: the transforms of a flow, and their preview on the newest records. No user code
and no Spark runs for it in this process (docs/adr/0017).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from srm_common.domain.flow import FlowSettings
from srm_common.errors import ConfigError
from srm_common.rest.app_context import AfterLogin, AppContextDep, CallerDep, EditableFlow
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.flow_dependency import LocalFlow
from srm_common.rest.live import CALLS, TAG, flow_now, hurried
from srm_common.rest.ports import Right
from srm_common.rest.query_parameters import now_ms
from srm_common.rest.schemas import Answer, RequestBody
from srm_common.settings_files.transform_settings import TRANSFORM_FIELDS, transform_keys, with_transforms
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.transforms.newest_records import ReadLimits
from srm_common.usecases.transforms.record_text import RecordTexts
from srm_common.usecases.transforms.transform_preview import FATES, Previewed, preview_transforms


class Transforms(Answer):
    """GET /flows/{s}/{t}/transforms. ``settings``: keys without a prefix. ``elsewhere``: why a preview is refused here,
    if the flow has transforms that only its runs and ``command`` execute."""

    settings: dict[str, str] = Field(json_schema_extra={"examples": [{"transforms": "sane"}]})
    editable: bool
    values_shown: bool
    elsewhere: str | None = None
    command: str = Field(json_schema_extra={"examples": ["srm-control transform --flow 'east->west' --sample 100"]})


class TransformPreviewRequest(RequestBody):
    """``settings``: keys that would replace all of the flow's own; null: no comparison.
    ``topics``: of the source; by default the first ten that are copied. ``sample``: the newest records of each
    topic; ``examples``: how many records the response contains, those that differ first."""

    settings: dict[str, str] | None = None
    topics: list[str] = Field(default=[], max_length=10)
    sample: int = Field(default=100, ge=1, le=1000)
    examples: int = Field(default=20, ge=0, le=200)


class ShownRecord(BaseModel):
    """``key``, ``value`` and headers as text, JSON or hexadecimal digits (``*_format``), no more than the first
    2 KiB; ``*_bytes`` are the true sizes. A timestamp of -1 is none.
    """

    timestamp_ms: int
    key: str | None
    key_format: str | None
    key_bytes: int | None
    value: str | None
    value_format: str | None
    value_bytes: int | None
    headers: list[tuple[str, str | None]]
    headers_count: int


class ShownOutcome(BaseModel):
    """``reason``: why it failed; only the step if values are not shown, since reasons may quote them."""

    result: Literal["unchanged", "changed", "dropped", "failed"]
    reason: str | None
    record: ShownRecord | None


class PreviewedRecord(BaseModel):
    """``offset``: at the source. ``difference``: what ``settings`` would alter; null for nothing."""

    topic: str
    partition: int
    offset: int
    before: ShownRecord | None
    after: ShownOutcome
    other: ShownOutcome | None
    difference: str | None


class TransformPreview(Answer):
    """POST /flows/{s}/{t}/transforms/preview. ``counts``, by result; ``other_counts``: the same by ``settings``.
    ``differences``: newly dropped, newly failed, no longer dropped, no longer failed, written differently.
    ``ended_early``: which limit was reached."""

    compared: int
    counts: dict[str, int]
    other_counts: dict[str, int] | None
    differences: dict[str, int]
    ended_early: str | None
    values_shown: bool
    records: list[PreviewedRecord]
    topics_left_out: list[str]


router = APIRouter(prefix="/api/v2/flows/{source}/{target}/transforms", tags=["transforms"], route_class=AfterLogin)

#: Half of what a live request may take: the rest is for connecting, and for the request that is under way then.
_LIMITS = ReadLimits(seconds=10.0, read_bytes=32 << 20)
#: The most bytes shown of a key, value or header.
_SHOWN_BYTES = 2048


@router.get("", responses=responses(404, 422, 502, 503))
def transforms(flow: LocalFlow, caller: CallerDep, context: AppContextDep) -> Transforms:
    """The flow's transform settings as in the file; references to secrets are not resolved."""
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
    """How the flow's transforms, and those of ``settings``, would change the newest records; nothing is written. After
    10 s, or 32 MiB of records, the response covers what was compared so far."""
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
                preview = preview_transforms(clusters, request.topics, request.sample, compared, limits=_LIMITS)
            except ConfigError as error:
                raise ApiError(409, "preview_refused", str(error), flow=str(flow)) from None
        examples = _examples(preview.records, compared is not None, request.examples)
        texts = RecordTexts(preview.schemas, values=now.preview_values_enabled, most_bytes=_SHOWN_BYTES)
        return TransformPreview(
            counts=_counts(record.after.fate(record.before) for record in preview.records),
            other_counts=None
            if compared is None
            else _counts(record.other.fate(record.before) for record in preview.records if record.other is not None),
            differences=dict(Counter(record.difference for record in preview.records if record.difference)),
            compared=len(preview.records),
            ended_early=preview.ended_early or None,
            values_shown=now.preview_values_enabled,
            records=[PreviewedRecord.model_validate(texts.to_json(example)) for example in examples],
            topics_left_out=preview.topics_left_out,
            now_ms=now_ms(),
        )

    return CALLS.ask(f"the preview of {flow}", look)


def _elsewhere(flows: Iterable[FlowSettings]) -> str | None:
    """Why they cannot be previewed here; None if they can."""
    for flow in flows:
        if flow.transforms_python:
            return "transforms.python is your own code, which this server does not run"
        if flow.needs_spark_sql:
            return "transforms.sql is evaluated by Spark, which this server does not start"
    return None


def _command(flow: FlowSettings) -> str:
    return f"srm-control transform --flow {shlex.quote(str(flow.name))} --sample 100"


def _counts(fates: Iterable[str]) -> dict[str, int]:
    counter = Counter(fates)
    return {fate: counter[fate] for fate in FATES}


def _examples(records: Sequence[Previewed], compared: bool, most: int) -> list[Previewed]:
    """Some of every kind: those that differ first, or, without a comparison, those that are altered."""
    seen: Counter[str] = Counter()
    ranked = []
    for record in records:
        kind = record.difference if compared else record.after.fate(record.before).removeprefix("unchanged")
        ranked.append((not kind, seen[kind]))
        seen[kind] += 1
    order = sorted(range(len(records)), key=ranked.__getitem__)
    return [records[number] for number in order[:most]]
