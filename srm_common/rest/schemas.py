"""JSON of the API, version 2: the contract with the page. Times are epoch milliseconds, durations milliseconds.

Every figure has the time at which it was measured (``at_ms``, ``latest_ms`` or the object's ``reported_ms``), so that
nothing stale is shown as fresh.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Fault(BaseModel):
    """One error. ``code`` is stable; ``message`` one sentence for people."""

    code: str
    message: str
    flow: str | None = None
    service: str | None = None
    field: str | None = None


class Answer(BaseModel):
    """Part of every response: what is missing, and when the rest was computed. ``service``: the other service
    whose answer it is, null for this one's own."""

    errors: list[Fault] = []
    service: str | None = None
    now_ms: int


class RequestBody(BaseModel):
    """What a request sends. A field that it does not have is refused: a misspelt one, left out, would mean its default,
    such as all groups."""

    model_config = ConfigDict(extra="forbid")


class Page(Answer):
    """Rows ``offset`` and following, of ``total``."""

    total: int
    offset: int


class Range(BaseModel):
    start_ms: int
    end_ms: int


class Stat(BaseModel):
    """Statistics of one metric over a range; all but ``count`` are null without samples. ``p50``, ``p95`` and ``p99``:
    what 50, 95 and 99 of 100 records did not exceed, to within an eighth; for replication-latency-ms only, null where
    no run has reported them."""

    min: float | None = None
    max: float | None = None
    avg: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    sum: float | None = None
    count: int = 0
    latest: float | None = None
    latest_ms: int | None = None


class Point(Stat):
    """A bucket of a series."""

    start_ms: int
    end_ms: int


class Helping(BaseModel):
    """``action`` is one of: resume, run, filters, failover; ``anchor`` one of the page help/operations."""

    text: str
    command: str | None = None
    action: str | None = None
    anchor: str | None = None


class HealthModel(BaseModel):
    """``state``: running, catching_up, idle, heartbeat_only, not_run, paused, stalled, failing, lost_data, unknown.
    ``error_kind``: the class of the error in ``cause``, such as UnreachableCluster or DataLost; null if there is
    none."""

    state: str
    cause: str
    since_ms: int | None = None
    error_kind: str | None = None
    help: Helping | None = None


class AlarmModel(BaseModel):
    """``kind``: lag_objective, stalled, heartbeat_absent, lost_data, untranslated_groups, foreign_writer,
    skipped_records, certificate_expiry, open_transaction, copies_differ; ``severity``: warning, critical."""

    kind: str
    severity: str
    flow: str
    text: str
    since_ms: int | None = None
    help: Helping | None = None


class Heartbeats(BaseModel):
    """Of the flow's source. ``latency_ms`` end to end, ``hops`` [{flow, latency_ms, corrected_ms}] where known."""

    age_ms: int | None = None
    latency_ms: float | None = None
    corrected_latency_ms: float | None = None
    silent: bool = False
    sentence: str | None = None
    hops: list[dict[str, Any]] = []


class Bounds(BaseModel):
    """Bounds of a sum over ``parts`` partitions, ``unknown`` of which are unknown: ``least``, and ``most``, which is
    null if a part is unknown; ``known_most`` is that of the known parts. ``text`` has the same in words."""

    least: int
    most: int | None
    known_most: int
    parts: int
    unknown: int
    text: str


class Run(BaseModel):
    """One run. ``url`` is Airflow's page of it, relative to Airflow's base, null without Airflow. ``lag`` as for a
    flow; with ``lag_bounds`` it is null if the run could not measure it."""

    run_id: str
    started_ms: int | None
    finished_ms: int | None
    reported_ms: int
    ok: bool
    state: str = Field(description="running, done or failed")
    error: str | None = None
    error_kind: str | None = None
    passes: int = 0
    partitions: int = 0
    failed_partitions: int = 0
    records: int = 0
    bytes: int = 0
    lag: int | None = None
    lag_bounds: Bounds | None = None
    transactions: int = 0
    retries: int = 0
    reencoded_records: int = 0
    lost_records: int = 0
    dropped_records: int = Field(default=0, description="records that a transform dropped, as it was told to")
    skipped_records: int = Field(default=0, description="records that a transform could not handle")
    dead_letters: int = Field(default=0, description="those of them in the dead letter topic")
    notes: list[str] = []
    partition_errors: list[str] = []
    url: str | None = None


class Sparkline(BaseModel):
    """``values[i]`` is the average of bucket i of the range, null if nothing was reported."""

    start_ms: int
    step_ms: int
    values: list[float | None]


class Totals(BaseModel):
    """Totals over all runs (docs/metrics.md); null if no run has reported them. Skipped records and dead letters are
    counted in flows with transforms and ``errors.tolerance = all``."""

    records_total: int | None = None
    bytes_total: int | None = None
    skipped_records_total: int | None = None
    dead_letters_total: int | None = None


class FlowSummary(Totals):
    """A row of the list. ``metrics`` by name (docs/metrics.md); ``sparklines`` of byte-rate and
    replication-records-lag. ``service``: the peer that reported it, null for this one. ``reported_ms``: when figures
    were measured, null before the first report. ``lag`` is in offsets of the source, ``behind_ms`` the age of the
    oldest record that is not copied (0 when all are, null where it is unknown); both were measured at ``lag_ms``, which
    is later than the report while the figures are in use. ``lag_fault``: why nothing newer is known. Where a partition
    cannot be queried, ``lag`` and ``behind_ms`` are null, and ``lag_bounds`` says what is known."""

    flow: str
    source: str
    target: str
    dag_id: str
    service: str | None = None
    paused: bool | None = None
    misconfigured: bool = False
    health: HealthModel
    alarms: list[AlarmModel] = []
    topics: int = 0
    partitions: int = 0
    failed_partitions: int = 0
    groups: int = 0
    untranslated_groups: int = 0
    proved_partitions: int = Field(default=0, description="copies that a verification has proved")
    unproved_partitions: int = Field(default=0, description="copies that were proved in part, or could not be read")
    different_partitions: int = Field(default=0, description="copies that differ from what was committed")
    uncompared_partitions: int = Field(default=0, description="copies with records that no verification has compared")
    verified_ms: int | None = Field(default=None, description="when the first of the compared copies was compared")
    lag: int | None = None
    lag_bounds: Bounds | None = None
    lag_ms: int | None = None
    behind_ms: float | None = None
    lag_fault: str | None = None
    warnings: list[str] = Field(default=[], description="what needs attention although the flow copies")
    metrics: dict[str, Stat] = {}
    sparklines: dict[str, Sparkline] = {}
    heartbeats: Heartbeats | None = None
    last_run: Run | None = None
    next_run_ms: int | None = None
    reported_ms: int | None = None
    late: bool = Field(default=False, description="whether the newest report is older than stalled.after.seconds")
    dag_url: str | None = None


class FlowList(Answer):
    """GET /flows?source=&status=&search=&offset=&limit= and a range."""

    flows: list[FlowSummary]
    total: int
    range: Range


class FlowDetail(Answer):
    """GET /flows/{source}/{target}. ``settings``: the flow's settings by name, as text (no secrets). ``ignored``: a
    sentence for each key of the file that has no effect on the flow, although a user may rely on it.
    """

    flow: FlowSummary
    settings: dict[str, str] = {}
    ignored: list[str] = []
    range: Range


class Group(BaseModel):
    group: str
    positions: int
    translated: int
    reason: str | None = None
    synced: bool = False
    checkpoint_latency_ms: float | None = None
    checkpoint_ms: int | None = None
    reported_ms: int


class GroupList(Page):
    """GET /flows/{s}/{t}/groups?search=&offset=&limit="""

    groups: list[Group]


class GroupOffset(BaseModel):
    """One partition of a group. ``source_offset``: committed at the source; ``translated``: where it would resume at
    the target; ``applied``: committed at the target; ``age_ms``: age of the checkpoint; ``reason``: why there is
    none."""

    topic: str
    remote_topic: str
    partition: int
    source_offset: int | None = None
    translated: int | None = None
    applied: int | None = None
    age_ms: int | None = None
    reason: str | None = None


class GroupOffsets(Answer):
    """GET /flows/{s}/{t}/group-offsets?group=NAME. Queried from the clusters now."""

    group: str
    offsets: list[GroupOffset]


class Decision(BaseModel):
    """Why a topic of the source is, or is not, copied."""

    topic: str
    remote_topic: str | None = None
    copied: bool
    reason: str


class DecisionList(Page):
    """GET /flows/{s}/{t}/decisions?search=&copied=true|false&offset=&limit="""

    decisions: list[Decision]
    reported_ms: int | None = None


class PlannedAction(BaseModel):
    topic: str | None = None
    kind: str
    sentence: str
    done: bool | None = None
    error: str | None = None


class PlanAnswer(Answer):
    """GET /flows/{s}/{t}/plan: the last refresh. POST /flows/{s}/{t}/plan: what the next run would change, now."""

    actions: list[PlannedAction]
    notes: list[str] = []
    computed_ms: int | None = None


class RunList(Page):
    """GET /flows/{s}/{t}/runs?offset=&limit="""

    runs: list[Run]


class Series(Answer):
    """GET /flows/{s}/{t}/metrics/{metric}?topic=&partition=&samples= and a range."""

    flow: str
    metric: str
    unit: str
    topic: str | None = None
    partition: int | None = None
    points: list[Point]
    range: Range


class Service(BaseModel):
    """A service that advertises itself. ``reachable`` null: not queried in this request."""

    name: str
    targets: list[str]
    url: str
    seen_ms: int
    reachable: bool | None = None


class HealthAnswer(Answer):
    """GET /health. ``status``: up, degraded or down, as DISTRIBUTED_HERDER_STATUS of Streams Replication Manager."""

    status: str
    store: str | None = Field(default=None, description="null: the history can be read; else why not")
    schedule: str | None = Field(default=None, description="null if Airflow can be queried, otherwise why not")
    flows: dict[str, HealthModel] = {}
    services: list[Service] = []
    version: str = ""
