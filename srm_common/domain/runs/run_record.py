"""The record of one run of a flow, partition by partition: written to the flow-state topic, and read by reports, status
and later runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.amount import Amount, duration
from srm_common.domain.document import known_fields, reading
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.open_transaction import OpenTransaction

# Which installation runs a flow: two that run the same one take it from each other, which fencing makes harmless and
# no reader needs.


#: After so long another installation counts as given up: the flow was moved.
_REMEMBERED_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation ``id`` began run ``run_id`` on ``host`` at ``when_ms`` (epoch milliseconds)."""

    id: str
    host: str
    run_id: str
    when_ms: int

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "host": self.host, "run_id": self.run_id, "when_ms": self.when_ms}

    @classmethod
    def from_json(cls, found: Mapping[str, Any] | None) -> Self | None:
        """Read plain values; None if it is not such a record, which costs one warning at most."""
        try:
            if found is None:
                return None
            return cls(str(found["id"]), str(found["host"]), str(found["run_id"]), int(found["when_ms"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def other_installation(flow: object, last: Installation | None, own: Installation) -> str | None:
    """One sentence when another installation ran the flow before this run, None otherwise.

    A flow that was moved to a new installation is reported once; one that two have enabled, in every run.
    """
    if last is None or last.id == own.id or own.when_ms - last.when_ms > _REMEMBERED_MS:
        return None
    return (
        f"installation '{last.id}' ran flow {flow} {duration(own.when_ms - last.when_ms)} ago (run '{last.run_id}' on "
        f"{last.host}), this is '{own.id}': if both have the flow enabled, disable it in one of them, since they take "
        f"it from each other"
    )


_VERSION = 1


class RunState(StrEnum):
    """RUNNING until the run ends; FAILED when any partition, or the run as a whole, has an error."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class PartitionStanding:
    """Values derived from a partition's position and end."""

    __slots__ = ()
    upstream_topic: str
    partition: int
    position: int | None
    end: int | None
    error: str | None

    @property
    def lag(self) -> int | None:
        """Offsets that are not copied yet; None while position or end is unknown."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)

    @property
    def trouble(self) -> str:
        """``error`` with the partition in front, once: many name it themselves. Empty without one."""
        place = f"{self.upstream_topic}-{self.partition}: "
        return "" if self.error is None else place + self.error.removeprefix(place)


@dataclass(frozen=True, slots=True)
class PartitionRecord(PartitionStanding):
    """One partition in one run.

    ``position`` is the next upstream offset to copy, everything before it is committed; ``end`` the last stable offset
    at the source as last seen by the run; ``lag`` their distance in offsets. Counts are of this run; ``bytes`` as the
    batches lie in the source's log. Latencies are milliseconds from a batch's newest record to the commit of its chunk,
    None when nothing was copied; ``latencies`` counts the records by them, None also in records of earlier versions.
    ``error`` is None or one sentence, ``error_kind`` the name of its class in :mod:`srm_common.errors`.
    ``records_total`` and ``bytes_total`` are sums over all runs, this one and its earlier attempts included, since the
    flow's state has known the partition; None where that was not counted yet. ``oldest_ms`` is the timestamp of the
    first record that was not copied when the run was reported; None where none was, or it was not checked. ``copy_end``
    is where the copy's log ended when the run looked last. ``dropped_records`` are those that a transform has dropped,
    None where there were none. ``skipped_records`` are those that a transform could not handle and ``errors.tolerance =
    all`` left out, and ``dead_letters`` how many of these are in the dead letter topic; None where there were none.
    Their totals count as those of records do; None where no run could leave out any.
    """

    upstream_topic: str
    downstream_topic: str
    partition: int
    records: int = 0
    bytes: int = 0
    position: int | None = None
    end: int | None = None
    latency_ms_min: float | None = None
    latency_ms_max: float | None = None
    latency_ms_avg: float | None = None
    last_record_timestamp_ms: int | None = None
    transactions: int = 0
    retries: int = 0
    reencoded_records: int = 0
    lost_records: int = 0
    error: str | None = None
    error_kind: str | None = None
    records_total: int | None = None
    bytes_total: int | None = None
    oldest_ms: int | None = None
    copy_end: int | None = None
    latencies: LatencyHistogram | None = None
    skipped_records: int | None = None
    dead_letters: int | None = None
    skipped_records_total: int | None = None
    dead_letters_total: int | None = None
    dropped_records: int | None = None

    def cells(self, columns: Iterable[str]) -> list[Any]:
        """A value for ``json.dumps``, by column; the first columns are in every record."""
        cells = [getattr(self, column) for column in columns]
        if self.latencies is not None:
            cells[_LATENCIES] = self.latencies.text()
        return cells

    @classmethod
    def of_cells(cls, cells: Iterable[tuple[str, Any]]) -> PartitionRecord:
        """What :meth:`cells` made, with the columns' names; columns that are not known are left out. Raises
        :class:`CorruptRecord` or TypeError."""
        values = {name: cell for name, cell in cells if name in _COLUMNS}
        if (latencies := values.get("latencies")) is not None:
            values["latencies"] = LatencyHistogram.parse(latencies)
        return cls(**values)

    def carried(self) -> PartitionRecord:
        """The partition in a run that did not process it: its position and totals, without the counts of the earlier
        run."""
        return PartitionRecord(
            upstream_topic=self.upstream_topic,
            downstream_topic=self.downstream_topic,
            partition=self.partition,
            position=self.position,
            end=self.end,
            last_record_timestamp_ms=self.last_record_timestamp_ms,
            error=self.error,
            error_kind=self.error_kind,
            records_total=self.records_total,
            bytes_total=self.bytes_total,
            copy_end=self.copy_end,
            skipped_records_total=self.skipped_records_total,
            dead_letters_total=self.dead_letters_total,
        )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. Times are epoch milliseconds; ``finished_ms`` is None while it runs.

    ``error`` is what stopped the run as a whole; partitions have errors of their own. ``transactions`` and ``retries``
    count each once; a partition counts those of the slot that carried it, which it shares with others.
    ``copy_ids`` has the topic ids of the copies, by topic of the target. ``open_transactions`` at the source held
    partitions back when the run ended, the oldest first.
    ``transforms`` is the digest of what was done to records, empty where they went unopened, None in records of
    earlier versions; ``function`` that of the code of the flow's Python function, None where there is none, or it could
    not be found.
    """

    flow: str
    run_id: str
    started_ms: int
    finished_ms: int | None
    passes: int
    state: RunState
    error: str | None = None
    error_kind: str | None = None
    partitions: tuple[PartitionRecord, ...] = ()
    notes: tuple[str, ...] = ()
    transactions: int = 0
    retries: int = 0
    transforms: str | None = None
    function: str | None = None
    open_transactions: tuple[OpenTransaction, ...] = ()
    copy_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed_partitions(self) -> tuple[PartitionRecord, ...]:
        return tuple(partition for partition in self.partitions if partition.error is not None)

    @property
    def first_error_kind(self) -> str | None:
        """``error_kind`` of the run as a whole, else of the first partition that has one."""
        return self.error_kind or next(
            (partition.error_kind for partition in self.failed_partitions if partition.error_kind), None
        )

    @property
    def backlog(self) -> Amount:
        """Offsets that are not copied yet, over all partitions; exactly none without any."""
        return Amount.sum(Amount.of(partition.lag) for partition in self.partitions)

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    def to_json(self) -> dict[str, Any]:
        """What ``json.dumps`` takes; partitions as rows under one header, since there may be tens of thousands."""
        rare = [name for name in _RARE if any(getattr(partition, name) is not None for partition in self.partitions)]
        columns = [name for name in _COLUMNS if name not in _RARE or name in rare]
        out: dict[str, Any] = {"version": _VERSION, "columns": columns}
        for one in fields(self):
            out[one.name] = getattr(self, one.name)
        out["state"] = str(self.state)
        out["notes"] = list(self.notes)
        out["open_transactions"] = [list(astuple(one)) for one in self.open_transactions]
        out["partitions"] = [row.cells(columns) for row in self.partitions]
        return out

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunRecord:
        """What :meth:`to_json` made, also by a newer minor version: unknown fields and columns are left out.

        Raises:
            CorruptRecord: it is not a run record, or of a version that is not known.
        """
        with reading(document, "the run record", _VERSION):
            values = known_fields(cls, document)
            values["state"] = RunState(document["state"])
            values["notes"] = tuple(document.get("notes", ()))
            values["open_transactions"] = tuple(map(OpenTransaction.of_row, document.get("open_transactions", ())))
            columns = document["columns"]
            values["partitions"] = tuple(
                PartitionRecord.of_cells(zip(columns, row, strict=True)) for row in document["partitions"]
            )
            return cls(**values)


def changed_transforms(flow: FlowSettings, last: RunRecord | None, function: str | None = None) -> str:
    """What to say if ``flow`` does something else to records than its newest run did; empty if not.

    Args:
        function: the digest of the code of its Python function, as it is installed here.
    """
    if last is None or last.transforms is None:
        return ""
    before, now, what, new = last.transforms, flow.transforms_digest, "the transforms have", "the new ones"
    if before == now:
        if None in (last.function, function) or last.function == function:
            return ""
        before, now, new = str(last.function), str(function), "the new one"
        what = f"the code of {flow.transforms_python} has"
    since = f"{what} changed since run '{last.run_id}' ({before or 'none'} -> {now or 'none'})"
    return f"{since}: records copied from the next run on go through {new}, records already copied stay"


_COLUMNS = tuple(field.name for field in fields(PartitionRecord))
#: Columns that are left out of a record in which no partition has a value for them.
_RARE = ("skipped_records", "dead_letters", "skipped_records_total", "dead_letters_total", "dropped_records")
_LATENCIES = _COLUMNS.index("latencies")
