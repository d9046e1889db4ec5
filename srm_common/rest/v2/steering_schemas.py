"""JSON of the requests that change something, and of their responses; see :mod:`srm_common.rest.schemas`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from srm_common.rest.schemas import Answer, Decision, GroupOffset, RequestBody

GroupName = Annotated[str, Field(min_length=1)]


class Filters(Answer):
    """GET /flows/{s}/{t}/filters. ``lists`` by key (topics, topics.exclude, groups, ...): in effect now; ``in_file``:
    as in the file; ``revision`` is sent back with an edit, which is refused after a concurrent edit."""

    lists: dict[str, list[str]]
    in_file: dict[str, list[str]]
    edited: list[str] = Field(default=[], description="keys of the lists that are not the file's")
    origin: str
    editable: bool
    revision: str | None = None
    history: list[dict[str, Any]] = Field(default=[])


class FilterEditRequest(RequestBody):
    """Whole lists by key; keys left out stay. ``reset``: keys of lists that should follow the file again. ``note``: the
    reason, for the history."""

    lists: dict[str, list[str]] = Field(default={})
    reset: list[str] = Field(default=[])
    note: str = ""
    revision: str | None = None


class FilterPreview(Answer):
    """POST /flows/{s}/{t}/filters/preview: what the edit would start and stop; nothing is changed."""

    starts: list[Decision]
    stops: list[Decision]
    unchanged: int
    groups_start: list[str] = Field(default=[])
    groups_stop: list[str] = Field(default=[])
    warnings: list[str] = Field(default=[])


class Note(RequestBody):
    """Body of a request without parameters. ``note``: the reason, which is recorded."""

    note: str = Field(default="", max_length=1000)


class Done(Answer):
    """Response to a write: what was done, in one sentence. ``run_id`` and ``url`` if a run was started."""

    done: str
    run_id: str | None = None
    url: str | None = None


class MoveRequest(RequestBody):
    """POST /flows/{s}/{t}/moves. ``kind``: failover, failback, switch-direction. A dry run may leave it out, and
    ``mode``; what is carried out has both, unless the kind has one mode only."""

    kind: str | None = Field(default=None, description="failover, failback or switch-direction; of a dry run: failover")
    mode: str | None = None
    groups: list[GroupName] = Field(default=[])
    dry_run: bool = True
    approved: bool = Field(default=True, description="false: the run waits for a person under Required Actions")
    wait_seconds: float = Field(
        default=60.0, ge=0, le=86_400, description="how long each step waits for clusters, consumers and the copy"
    )


class MoveStep(BaseModel):
    step: str
    state: str
    sentences: list[str] = Field(default=[])


class MoveState(Answer):
    """GET /moves/{kind}/{run_id}. ``state``: queued, running, waiting (for a confirmation), success, failed."""

    kind: str
    run_id: str
    flow: str | None = None
    dry_run: bool
    state: str
    steps: list[MoveStep] = Field(default=[])
    positions: list[dict[str, Any]] = Field(default=[])
    read_again: dict[str, Any] | None = Field(
        default=None,
        description="records that all groups together may read twice; most is null if there is no upper limit",
    )
    url: str | None = None


class OffsetToSet(RequestBody, GroupOffset):
    """A row of GET /flows/{s}/{t}/group-offsets; ``translated`` is set at ``remote_topic``, the rest has no effect."""


class OffsetsRequest(RequestBody):
    """POST /flows/{s}/{t}/offsets: set where groups resume at the target. ``offsets`` empty: as translated."""

    groups: list[GroupName] = Field(json_schema_extra={"minItems": 1})
    offsets: list[OffsetToSet] = Field(default=[])
    dry_run: bool = True
    rewind: bool = Field(default=False, description="also move groups back that are already further ahead")


class OffsetsApplied(Answer):
    applied: list[dict[str, Any]]
    dry_run: bool
