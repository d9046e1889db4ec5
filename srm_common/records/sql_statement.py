"""A Spark SQL statement over records: makes the columns for Spark, and records of what comes back.

Only the columns that the statement reads go to Spark, and only those that it changes come back; all others keep their
bytes here. For a column of which it only asks whether it is null, no bytes are sent. A header that is the same for all
records is appended here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.formats import Format, FormatKind, Side
from srm_common.domain.transforms.statements import Statement, StatementColumns
from srm_common.records.connect.connect_records import ConnectRecords
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.registry_values import RecordSchemas
from srm_common.records.headers import HEADERS_TYPE, named_headers
from srm_common.records.row_faults import RowFaults
from srm_common.wire.reencoding.columns import encoded_header, more_headers, with_headers

TIMESTAMP = pa.timestamp("us", "UTC")
SQL_COLUMNS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS_TYPE,
    "timestamp": TIMESTAMP,
    "avro": pa.string(),
}
"""The columns that statements see, as Arrow types. A timestamp is null if the record has none (-1). An Avro value is
sent as JSON."""
_NO_TIMESTAMP = -1
_MICROS = 1000
#: Null stays null, whatever default a schema has.
_AVRO = Format(FormatKind.AVRO, replace_null_with_default=False)
#: Why a record may fail if the statement reads one of these columns.
_NOT_PARSED = {"json": ", or its value is not JSON", "avro": ", or its value is more than a VARIANT holds"}
_LAST_MS = np.iinfo(np.int64).max // _MICROS

Milliseconds = npt.NDArray[np.int64]


class Evaluate(Protocol):
    """The way to Spark."""

    def __call__(self, statement: int, columns: Mapping[str, pa.Array], rows: int, what: str) -> pa.StructArray:
        """Evaluate a statement; the result has as many rows, in the same order.

        Args:
            statement: its number in the flow.
            columns: those of :data:`SQL_COLUMNS` that it reads.
            what: what is evaluated, for messages.

        Returns:
            a struct of ``kept`` and the columns that it changes; null for a row on which it fails.

        Raises:
            LostProcess: Spark does not answer.
        """


class SqlStatement:
    """One statement for the records of one partition.

    Args:
        number: that of the statement in the flow.
        columns: those that it reads and changes.
        upstream: the partition at the source.
        schemas: the registry's, to read values; needed if the statement reads ``avro``.
    """

    def __init__(
        self,
        statement: Statement,
        number: int,
        columns: StatementColumns,
        upstream: TopicPartition,
        evaluate: Evaluate,
        schemas: RecordSchemas | None = None,
    ) -> None:
        self.alias = statement.key.removeprefix("transforms.")
        self.path = statement.key
        self._number = number
        self._columns = columns
        self._upstream = upstream
        self._evaluate = evaluate
        self._connect = ConnectRecords(upstream.topic, upstream.partition, schemas)

    def __call__(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """What the statement makes of ``records``, both as :data:`srm_common.wire.reencoding.columns.SCHEMA`.

        Raises:
            RowFaults: the records on which it fails.
            CorruptBatch: the statement reads headers, and they cannot be read.
            TransformFailed: a registry does not return a schema.
            LostProcess: Spark does not answer.
        """
        rows = records.num_rows
        offsets = records.column("offset")
        topic, partition = self._upstream
        what = f"{self.path} for offsets {offsets[0]} to {offsets[rows - 1]} of {topic}-{partition}"
        read = {name: self._column(name, records) for name in self._columns.reads}
        result = self._evaluate(self._number, read, rows, what)
        failed = np.flatnonzero(result.is_null().to_numpy(zero_copy_only=False))
        if len(failed):
            reason = "fails on this record" + "".join(_NOT_PARSED[name] for name in self._columns.parsed)
            raise RowFaults(dict.fromkeys(failed.tolist(), reason))
        kept = result.field("kept")
        rows_kept = np.flatnonzero(kept.to_numpy(zero_copy_only=False))
        if len(rows_kept) < rows:
            records, result = records.filter(kept), result.filter(kept)
        if not records.num_rows:
            return records
        for name in self._columns.changes:
            records = _CHANGES[name](records, result.field(name), rows_kept)
        if self._columns.header is None:
            return records
        return more_headers(records, 1, pa.scalar(encoded_header(*self._columns.header), pa.binary()))

    def _column(self, name: str, records: pa.RecordBatch) -> pa.Array:
        if name == "topic":
            return pa.repeat(pa.scalar(self._upstream[0], pa.string()), records.num_rows)
        if name == "partition":
            return pa.repeat(pa.scalar(self._upstream[1], pa.int32()), records.num_rows)
        if name == "avro":
            return _as_json(records.column("value"), self._connect)
        if name in self._columns.nulls:
            return _NOTHING[name](records)
        if name == "headers":
            return named_headers(records)
        if name == "timestamp":
            return _timestamps(records.column("timestamp").to_numpy())
        return records.column(name)


def _as_json(values: pa.Array, connect: ConnectRecords) -> pa.Array:
    """Avro values as JSON.

    Raises:
        RowFaults: the values that are not Avro with an id of a schema registry.
        TransformFailed: a registry does not return a schema.
    """
    texts: list[str | None] = []
    faults = {}
    for row, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else connect.json_text(Side.VALUE, _AVRO, value))
        except DataFault as error:
            faults[row] = f"the value {error}"
    if faults:
        raise RowFaults(faults)
    return pa.array(texts, pa.string())


def _without_bytes(name: str) -> Any:
    def nulls(records: pa.RecordBatch) -> pa.Array:
        return pc.if_else(records.column(name).is_valid(), pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary()))

    return nulls


#: Columns that are null where the record's are, and empty otherwise. Headers are never null.
_NOTHING = {
    "key": _without_bytes("key"),
    "value": _without_bytes("value"),
    "headers": lambda records: pa.array([[]] * records.num_rows, HEADERS_TYPE),
}


def _timestamps(milliseconds: Milliseconds) -> pa.Array:
    beyond = np.flatnonzero((milliseconds > _LAST_MS) | (milliseconds < -_LAST_MS))
    if len(beyond):
        raise RowFaults(dict.fromkeys(beyond.tolist(), "reads a timestamp that Spark SQL cannot hold"))
    micros = pa.array(milliseconds * _MICROS, pa.int64(), mask=milliseconds == _NO_TIMESTAMP)
    return micros.view(TIMESTAMP)


def _with_bytes(name: str) -> Any:
    def changed(records: pa.RecordBatch, column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        index = records.schema.get_field_index(name)
        return records.set_column(index, records.schema.field(index), column)

    return changed


def _with_timestamps(records: pa.RecordBatch, column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    micros = column.cast(TIMESTAMP).view(pa.int64())
    absent = micros.is_null().to_numpy(zero_copy_only=False)
    milliseconds = np.floor_divide(micros.fill_null(0).to_numpy(), _MICROS)
    before = np.flatnonzero((milliseconds < 0) & ~absent)
    if len(before):
        raise RowFaults(dict.fromkeys(rows[before].tolist(), "returns a timestamp before 1970"))
    milliseconds = np.where(absent, _NO_TIMESTAMP, milliseconds)
    index = records.schema.get_field_index("timestamp")
    return records.set_column(index, records.schema.field(index), pa.array(milliseconds))


def _with_headers(records: pa.RecordBatch, column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    lists = column.fill_null([]) if column.null_count else column
    ends = lists.offsets.to_numpy()
    structs = lists.flatten()
    keys = structs.field(0)
    nameless = np.asarray(pc.or_(structs.is_null(), keys.is_null()).to_numpy(zero_copy_only=False))
    if nameless.any():
        owners = np.repeat(rows, np.diff(ends))
        raise RowFaults(dict.fromkeys(np.unique(owners[nameless]).tolist(), "returns a header without a name"))
    headers = pa.StructArray.from_arrays(
        [keys.cast(pa.string()), structs.field(1).cast(pa.binary())], fields=list(HEADERS_TYPE.value_type)
    )
    return with_headers(records, pa.ListArray.from_arrays(pa.array(ends - ends[0]), headers, type=HEADERS_TYPE))


_CHANGES = {
    "key": _with_bytes("key"),
    "value": _with_bytes("value"),
    "headers": _with_headers,
    "timestamp": _with_timestamps,
}
