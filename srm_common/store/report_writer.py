"""Stores one report: the newest status, the run, and its samples."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Insert,
    Table,
    case,
    column,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.samples import copying_seconds, flow_samples
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.domain.monitoring.folding import fold, too_far_ahead
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.store.report_rows import Row, group_row, partition_row, run_row, sample_rows, sentences, topic_rows
from srm_common.store.roll_up import forget_silent_flows, recompute, roll_up
from srm_common.store.tables import (
    CODES,
    DOCUMENT,
    FLOW,
    GROUP,
    PARTITION,
    RUN,
    SAMPLE,
    TOPIC,
    TOTALS,
    inserting,
    storable,
)
from srm_common.store.tiers import RAW, Level, Retention

# What all runs together have copied and left out: totals that only grow, of partitions, topics and flows.
#
# A flow itself counts what it copies, from run to run (``records_total`` of its run record): so a run whose report got
# lost is not missing, and one that is reported again is not counted twice. That count restarts when the flow forgets a
# partition, as when a topic is left out for a while; totals continue.


#: Of a partition: its topic's id and its number.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Count:
    """One figure of one partition: its total, and the flow's own count of the newest report; None before there is
    one."""

    total: int | None = None
    reported: int | None = None

    def after(self, reported: int | None, of_run: int, again: bool) -> Count:
        """After a report with the flow's count ``reported``, ``of_run`` of it by the reported run; ``again``: that run
        was reported before."""
        if reported is None:
            return self
        known = self.reported or 0
        if not again and reported - of_run < known:
            known = 0  # the flow's counter has restarted
        return Count((self.total or 0) + max(0, reported - known), reported if not again else max(reported, known))


_NO_COUNT = Count()
#: Columns of partitions: the flow's own counts.
_TOLD = tuple(name.replace("_total", "_told") for name in TOTALS)


@dataclass(frozen=True, slots=True)
class Totals:
    """Of one partition."""

    records: Count = _NO_COUNT
    bytes: Count = _NO_COUNT
    skipped_records: Count = _NO_COUNT
    dead_letters: Count = _NO_COUNT

    def after(self, one: PartitionRecord, again: bool) -> Totals:
        return Totals(
            self.records.after(one.records_total, one.records, again),
            self.bytes.after(one.bytes_total, one.bytes, again),
            self.skipped_records.after(one.skipped_records_total, one.skipped_records or 0, again),
            self.dead_letters.after(one.dead_letters_total, one.dead_letters or 0, again),
        )

    @property
    def counts(self) -> tuple[Count, ...]:
        """In the order of :data:`TOTALS`."""
        return self.records, self.bytes, self.skipped_records, self.dead_letters

    def columns(self) -> Row:
        totals, reported = zip(*((count.total, count.reported) for count in self.counts), strict=True)
        return dict(zip((*TOTALS, *_TOLD), (*totals, *reported), strict=True))


_UNKNOWN = Totals()


def partition_totals(connection: Connection, flow_id: int) -> dict[Place, Totals]:
    """Of all partitions of the flow with any report."""
    c = PARTITION.c
    columns = (column for total, told in zip(TOTALS, _TOLD, strict=True) for column in (c[total], c[told]))
    mine = select(c.topic_id, c.number, *columns).select_from(TOPIC.join(PARTITION, c.topic_id == TOPIC.c.id))
    return {
        (topic, number): Totals(
            *(
                _NO_COUNT if total is None and told is None else Count(total, told)
                for total, told in zip(counts[::2], counts[1::2], strict=True)
            )
        )
        for topic, number, *counts in connection.execute(
            mine.where(TOPIC.c.flow_id == flow_id, or_(*(c[name].is_not(None) for name in TOTALS)))
        )
    }


def next_totals(
    known: Mapping[Place, Totals], partitions: Iterable[tuple[Place, PartitionRecord]], again: bool
) -> dict[Place, Totals]:
    """Of the partitions of a report. ``again``: the run was reported before."""
    return {place: known.get(place, _UNKNOWN).after(one, again) for place, one in partitions}


def grown(before: Row, known: Mapping[Place, Totals], now: Mapping[Place, Totals]) -> Row:
    """Columns of a topic or flow whose partitions have gone on from ``known`` to ``now``; ``before`` has the columns as
    they are. None if nothing was ever reported."""
    sums = [before[name] for name in TOTALS]
    for place, totals in now.items():
        pairs = zip(totals.counts, known.get(place, _UNKNOWN).counts, strict=True)
        for number, (count, earlier) in enumerate(pairs):
            if count.total is not None:
                sums[number] = (sums[number] or 0) + count.total - (earlier.total or 0)
    return dict(zip(TOTALS, sums, strict=True))


DOCUMENTS = ("decisions", "plan", "filters", "verified")


def write_report(
    connection: Connection, report: RunReport, retention: Retention, configured: Collection[str], at_ms: int
) -> None:
    """In the transaction of ``connection``, at ``at_ms`` (epoch milliseconds). ``configured``: flows that are kept
    although they do not report."""
    flow = _locked_flow(connection, report.flow)
    flow_id, newest_ms = int(flow["id"]), flow["reported_ms"]
    if too_far_ahead(newest_ms, at_ms) and report.reported_ms < newest_ms:
        newest_ms = report.reported_ms
        _take_back(connection, flow_id, newest_ms)
    before = _keep_run(connection, flow_id, report)
    before_ms = None if before is None else int(before["reported_ms"])
    # A late report adds to the history, and leaves the current state as it is.
    newest = newest_ms is None or report.reported_ms >= newest_ms
    now_ms = max(report.reported_ms, newest_ms or 0)
    topics, totals = _keep_topics(connection, flow, report, newest, again=before is not None)
    spread = _latencies_total(connection, flow, report, before)
    _keep_samples(connection, flow_id, report, topics, retention, before_ms, newest_ms)
    history = FlowHistory.from_json(json.loads(flow["history"] or "{}"))
    history = fold(history, report, at_ms)
    changed: Row = {"history": json.dumps(history.to_json(), ensure_ascii=False), **totals, **spread}
    if newest:
        changed |= _standing(report)
        if report.tells_groups:
            _keep_groups(connection, flow_id, report)
        _keep_documents(connection, flow_id, report)
    connection.execute(update(FLOW).where(FLOW.c.id == flow_id).values(**changed))
    if newest_ms is not None and newest and roll_up(connection, flow_id, newest_ms, now_ms, retention):
        forget_silent_flows(connection, now_ms - retention.flows_ms, configured)


def _take_back(connection: Connection, flow_id: int, before_ms: int) -> None:
    """Let what was reported at ``before_ms`` (epoch milliseconds) or later have been reported just before, so that the
    report of that time is newer. Only the current state: runs and samples keep their times, which may be right."""
    last_ms = before_ms - 1
    flow = FLOW.c
    times: Row = {name: case((flow[name] > last_ms, last_ms), else_=flow[name]) for name in ("figures_ms", "groups_ms")}
    connection.execute(update(FLOW).where(flow.id == flow_id).values(**times))
    mine = select(TOPIC.c.id).where(TOPIC.c.flow_id == flow_id)
    for table, of_flow in (
        (TOPIC, TOPIC.c.flow_id == flow_id),
        (PARTITION, PARTITION.c.topic_id.in_(mine)),
        (GROUP, GROUP.c.flow_id == flow_id),
        (DOCUMENT, DOCUMENT.c.flow_id == flow_id),
    ):
        later = of_flow & (table.c.reported_ms > last_ms)
        connection.execute(update(table).where(later).values(reported_ms=last_ms))


def _keep_documents(connection: Connection, flow_id: int, report: RunReport) -> None:
    """One that is as it was gets the report's time only: with 10,000 topics the decisions are a megabyte, which
    PostgreSQL would write again after each run."""
    c, at = DOCUMENT.c, {"reported_ms": report.reported_ms}
    for key in DOCUMENTS:
        document: Mapping[str, Any] | None = getattr(report, key)
        if document is None:
            continue
        value = json.dumps(document, ensure_ascii=False)
        same = update(DOCUMENT).where(c.flow_id == flow_id, c.key == key, c.value == value).values(**at)
        if not connection.execute(same).rowcount:
            put(connection, DOCUMENT, [{"flow_id": flow_id, "key": key, "value": value, **at}])


def put(connection: Connection, table: Table, rows: Sequence[Row], keep: tuple[str, ...] = ()) -> None:
    """Insert rows, or update those with the same primary key. Where the new value of a column in ``keep`` is None, the
    old one stays."""
    if not rows:
        return
    dialect = connection.dialect.name
    statement = _putting(dialect, table, tuple(rows[0]), keep)
    # One statement for all rows: a round trip for each would take most of the time.
    values: Any = {"rows": _json_rows(rows)} if dialect == "postgresql" else list(rows)
    connection.execute(statement, values)


#: In JSON: what :func:`storable` replaces, or looks like it.
_NOT_STORABLE = re.compile("\\\\u0000|[\ud800-\udfff]")


def _json_rows(rows: Sequence[Row]) -> str:
    text = json.dumps(rows, ensure_ascii=False)
    if _NOT_STORABLE.search(text) is None:
        return text
    plain = [{name: storable(one) if isinstance(one, str) else one for name, one in row.items()} for row in rows]
    return json.dumps(plain, ensure_ascii=False)


@cache
def _putting(dialect: str, table: Table, columns: tuple[str, ...], keep: tuple[str, ...]) -> Insert:
    statement = inserting(dialect, table)
    keys = [column.name for column in table.primary_key]
    new = {
        name: func.coalesce(statement.excluded[name], table.c[name]) if name in keep else statement.excluded[name]
        for name in columns
        if name not in keys
    }
    if dialect == "postgresql":
        given = text(f'json_populate_recordset(NULL::"{table.name}", :rows)')
        statement = statement.from_select(columns, select(*(column(name) for name in columns)).select_from(given))
    return statement.on_conflict_do_update(index_elements=keys, set_=new)


def _locked_flow(connection: Connection, name: str) -> Row:
    """The flow's row, which no other writer changes until the transaction ends."""
    wanted = select(FLOW).where(FLOW.c.name == name).with_for_update()
    found = connection.execute(wanted).mappings().one_or_none()
    if found is None:
        # Not for each report: in PostgreSQL each try uses up one of 2^31 numbers. Another writer may be faster.
        connection.execute(inserting(connection.dialect.name, FLOW).values(name=name).on_conflict_do_nothing())
        found = connection.execute(wanted).mappings().one()
    return dict(found)


def _keep_run(connection: Connection, flow_id: int, report: RunReport) -> Row | None:
    """The run's row as it was reported before (``reported_ms``, ``started_ms``), None when it was not. One without
    figures does not replace one that has them."""
    row = run_row(flow_id, report)
    mine = (RUN.c.flow_id == flow_id) & (RUN.c.run_id == report.run_id)
    columns = (RUN.c.id, RUN.c.reported_ms, RUN.c.started_ms)
    before = connection.execute(select(*columns).where(mine)).mappings().one_or_none()
    if before is None:
        connection.execute(insert(RUN).values(**row))
        return None
    if report.run is None and before["started_ms"] is not None:
        return None
    connection.execute(update(RUN).where(RUN.c.id == before["id"]).values(**row))
    return dict(before)


def _latencies_total(connection: Connection, flow: Row, report: RunReport, before: Row | None) -> Row:
    """The flow's column with the records of this run; those in an earlier report of the same attempt are not
    counted twice. ``before``: the run's row of that report."""
    latency = flow_samples(report).get(Metric.REPLICATION_LATENCY)
    counted = None if latency is None else latency.latencies
    if counted is None:
        return {}
    if before is not None and report.run is not None and before["started_ms"] == report.run.started_ms:
        c = SAMPLE.c
        mine = (c.flow_id == flow["id"], c.level == int(Level.FLOW), c.tier == RAW, c.at_ms == before["reported_ms"])
        rows = connection.execute(select(c.metric, c.latencies).where(*mine))
        earlier = {row.metric: row.latencies for row in rows}
        if not earlier:
            return {}  # too long ago to know its report
        counted = counted.without(LatencyHistogram.parse(earlier.get(CODES[Metric.REPLICATION_LATENCY]) or ""))
    return {"latencies_total": (LatencyHistogram.parse(flow["latencies_total"] or "") + counted).text()}


def _standing(report: RunReport) -> Row:
    """Columns of the flow that a newest report sets."""
    found: Row = {
        "reported_ms": report.reported_ms,
        "run_id": report.run_id,
        "warnings": sentences(report.warnings),
        "heartbeats": None if report.heartbeats is None else json.dumps(report.heartbeats.to_json()),
        "clock": json.dumps({name: getattr(report.clock, name) for name in report.clock.__slots__}),
    }
    if report.run is not None and report.has_figures:
        found |= {
            "figures_ms": report.reported_ms,
            "topics": len({partition.upstream_topic for partition in report.run.partitions}),
            "partitions": len(report.run.partitions),
        }
    found["failed_partitions"] = len(report.run.failed_partitions) if report.run is not None else 0
    if report.tells_groups:
        found |= {"groups_ms": report.reported_ms, "consumer_groups": len(report.groups)}
    return found


def _keep_topics(
    connection: Connection, flow: Row, report: RunReport, newest: bool, *, again: bool
) -> tuple[dict[str, int], Row]:
    """Store the current topics and partitions; returns the ids of the report's topics, and the flow's totals."""
    flow_id = int(flow["id"])
    rows = [(row, partitions) for row, partitions in topic_rows(flow_id, report)]
    if not rows:
        return {}, {}
    known = _topics(connection, flow_id)
    new = [row for row, _ in rows if row["name"] not in known]
    if new:
        connection.execute(insert(TOPIC), new)
        known = _topics(connection, flow_id)
    ids = {row["name"]: int(known[row["name"]]["id"]) for row, _ in rows}
    if not newest:
        return ids, {}
    before = partition_totals(connection, flow_id)
    topics: list[Row] = []
    standing: list[Row] = []
    all_totals: dict[Place, Totals] = {}
    seconds = copying_seconds(report)
    for row, partitions in rows:
        topic = known[row["name"]]
        totals = next_totals(
            before, (((topic["id"], partition.partition), partition) for partition in partitions), again
        )
        topics.append({"id": topic["id"], **row, **grown(topic, before, totals)})
        standing += [
            partition_row(topic["id"], partition, report.reported_ms, seconds)
            | totals[topic["id"], partition.partition].columns()
            for partition in partitions
        ]
        all_totals |= totals
    put(connection, TOPIC, topics, keep=("newest_record_ms", "consumer_groups"))
    put(connection, PARTITION, standing, keep=("newest_record_ms",))
    return ids, grown(flow, before, all_totals)


def _topics(connection: Connection, flow_id: int) -> dict[str, Row]:
    """Id and totals of each, by name."""
    columns = (TOPIC.c.name, TOPIC.c.id, *(TOPIC.c[name] for name in TOTALS))
    rows = connection.execute(select(*columns).where(TOPIC.c.flow_id == flow_id)).mappings()
    return {row["name"]: dict(row) for row in rows}


def _keep_groups(connection: Connection, flow_id: int, report: RunReport) -> None:
    put(connection, GROUP, [group_row(flow_id, group, report.reported_ms) for group in report.groups])
    gone = (GROUP.c.flow_id == flow_id) & (GROUP.c.reported_ms < report.reported_ms)
    connection.execute(delete(GROUP).where(gone))


def _keep_samples(
    connection: Connection,
    flow_id: int,
    report: RunReport,
    topics: Mapping[str, int],
    retention: Retention,
    before_ms: int | None,
    newest_ms: int | None,
) -> None:
    """``before_ms``: when this run was reported before; the samples of then are replaced."""
    at = report.reported_ms
    if before_ms is not None:
        old = (SAMPLE.c.flow_id == flow_id) & SAMPLE.c.level.in_(list(Level)) & (SAMPLE.c.tier == RAW)
        connection.execute(delete(SAMPLE).where(old, SAMPLE.c.at_ms == before_ms))
    rows = list(sample_rows(flow_id, report, topics, retention.makes(Level.PARTITION, RAW)))
    put(connection, SAMPLE, rows)
    if newest_ms is not None:
        recompute(connection, flow_id, {at} if before_ms is None else {at, before_ms}, newest_ms, retention)
