"""What all runs together have copied: totals that only grow, of partitions, topics and flows.

A flow counts by itself what it copies, from run to run (``records_total`` of its run record): so nothing is missing of
a run whose report did not come, and nothing is counted twice of one that is reported again. That count begins again
where the flow forgets a partition, as when a topic is left out for a while; totals go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.store.report_rows import Row
from srm_common.store.tables import PARTITION, TOPIC, TOTALS

#: Of a partition: its topic's id and its number.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Count:
    """One figure of one partition: its total, and the flow's own count of the newest report; None before there is
    one."""

    total: int | None = None
    told: int | None = None

    def after(self, told: int | None, of_run: int, again: bool) -> Count:
        """When the flow has counted ``told``, ``of_run`` of them by the run that is reported; ``again``: that run was
        reported before."""
        if told is None:
            return self
        known = self.told or 0
        if not again and told - of_run < known:
            known = 0  # it has begun again since
        return Count((self.total or 0) + max(0, told - known), told if not again else max(told, known))


@dataclass(frozen=True, slots=True)
class Totals:
    """Of one partition."""

    records: Count = Count()
    bytes: Count = Count()

    def after(self, one: PartitionRecord, again: bool) -> Totals:
        return Totals(
            self.records.after(one.records_total, one.records, again),
            self.bytes.after(one.bytes_total, one.bytes, again),
        )

    def columns(self) -> Row:
        return {
            "records_total": self.records.total,
            "bytes_total": self.bytes.total,
            "records_told": self.records.told,
            "bytes_told": self.bytes.told,
        }


_UNKNOWN = Totals()


def partition_totals(connection: Connection, flow_id: int) -> dict[Place, Totals]:
    """Of all partitions of the flow that anything was told of."""
    c = PARTITION.c
    columns = (c.topic_id, c.number, c.records_total, c.records_told, c.bytes_total, c.bytes_told)
    mine = select(*columns).select_from(TOPIC.join(PARTITION, c.topic_id == TOPIC.c.id))
    return {
        (topic, number): Totals(Count(records, records_told), Count(size, bytes_told))
        for topic, number, records, records_told, size, bytes_told in connection.execute(
            mine.where(TOPIC.c.flow_id == flow_id, c.records_total.is_not(None))
        )
    }


def next_totals(
    known: Mapping[Place, Totals], partitions: Iterable[tuple[Place, PartitionRecord]], again: bool
) -> dict[Place, Totals]:
    """Of the partitions of a report. ``again``: the run was reported before."""
    return {place: known.get(place, _UNKNOWN).after(one, again) for place, one in partitions}


def grown(before: Row, known: Mapping[Place, Totals], now: Mapping[Place, Totals]) -> Row:
    """Columns of a topic or flow whose partitions have gone on from ``known`` to ``now``; ``before`` has the columns as
    they are. None where nothing was ever told."""
    records, size = (before[name] for name in TOTALS)
    for place, totals in now.items():
        earlier = known.get(place, _UNKNOWN)
        if totals.records.total is not None:
            records = (records or 0) + totals.records.total - (earlier.records.total or 0)
        if totals.bytes.total is not None:
            size = (size or 0) + totals.bytes.total - (earlier.bytes.total or 0)
    return dict(zip(TOTALS, (records, size), strict=True))
