"""JSON of the preview of transforms; see :mod:`srm_common.rest.schemas`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from srm_common.rest.schemas import Answer


class Transforms(Answer):
    """GET /flows/{s}/{t}/transforms. ``settings``: keys without a prefix. ``elsewhere``: why a preview is refused here,
    where the flow has something that only its runs and ``command`` carry out."""

    settings: dict[str, str] = Field(json_schema_extra={"examples": [{"transforms": "sane"}]})
    editable: bool
    values_shown: bool
    elsewhere: str | None = None
    command: str = Field(json_schema_extra={"examples": ["srm-control transform --flow 'east->west' --sample 100"]})


class TransformPreviewRequest(BaseModel):
    """``settings``: keys that the flow would have in place of its own, all of them; null compares with nothing.
    ``topics``: of the source; the first ten that are copied where none is named. ``sample``: the newest records of each
    topic; ``examples``: how many of all of them are in the response, the ones that differ first."""

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
    """``reason``: why it failed; only the step where values are not shown, since reasons may quote them."""

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
