"""A user's function that changes batches of records. Calls have limits of time and memory, and results are checked.

The loops that write batches trust their columns, and the offset map trusts the offsets: a result is used only if it
keeps to the contract (docs/transforms.md).
"""

from __future__ import annotations

import ctypes
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from srm_common.errors import TransformFailed
from srm_common.records.headers import HEADERS_TYPE, named_headers
from srm_common.records.memory_limit import limited_memory
from srm_common.records.row_faults import RowFaults, reason_text
from srm_common.wire.reencoding.columns import SCHEMA as RAW_SCHEMA
from srm_common.wire.reencoding.columns import with_headers

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""What a function is given and has to return. The metadata contain ``topic``, the name of the topic at the source."""


class _TimedOut(BaseException):
    """Ends the function in its thread, as soon as that runs Python code again."""


class PythonFunction:
    """One function for the records of one topic.

    Args:
        path: as configured, for messages.
        call: the function.
        timeout_seconds: how long a call may take.
        topic: the topic at the source.
    """

    #: Makes up the key ``transforms.python`` in messages.
    alias = "python"

    def __init__(self, path: str, call: Callable[[pa.RecordBatch], Any], timeout_seconds: float, topic: str) -> None:
        self.path = path
        self._call = call
        self._timeout = timeout_seconds
        self._schema = SCHEMA.with_metadata({"topic": topic})
        self._told_limit = ""

    def __call__(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """What the function makes of ``records``, both as :data:`srm_common.wire.reencoding.columns.SCHEMA`.

        Raises:
            RowFaults: raised by the function, or for records with a header whose name is not UTF-8.
            TransformFailed: the function raised something else, took too much time or memory, or broke the contract.
            CorruptBatch: headers cannot be read.
        """
        given = pa.RecordBatch.from_arrays([*records.columns[:4], named_headers(records)], schema=self._schema)
        try:
            result = self._within_time(given)
        except RowFaults as error:
            wrong = [row for row in error.reasons if not _is_row(row, records.num_rows)]
            if error.reasons and not wrong:
                raise
            what = f"row {wrong[0]!r} of {records.num_rows}" if wrong else "no row"
            raise self._failed(records, f"raised RowFaults for {what}") from error
        except _TimedOut:
            raise self._failed(
                records, f"took longer than transforms.python.timeout.seconds = {self._timeout:g}"
            ) from None
        except MemoryError as error:
            # These frames hold its memory, which must be free before anything else is allocated.
            traceback.clear_frames(error.__traceback__)
            raise self._failed(records, f"ran out of memory{self._told_limit}") from None
        except Exception as error:  # whatever the user's code may raise
            raise self._failed(records, f"raised {type(error).__name__}: {reason_text(error)}") from error
        problem = _problem(given, result)
        if problem:
            raise self._failed(records, problem)
        changed = pa.RecordBatch.from_arrays(
            [
                *result.columns[:4],
                pa.array(np.zeros(result.num_rows, np.int32)),
                pa.repeat(pa.scalar(b"", pa.binary()), result.num_rows),
            ],
            schema=RAW_SCHEMA,
        )
        return with_headers(changed, result.column(4)) if result.num_rows else changed

    def _failed(self, records: pa.RecordBatch, what: str) -> TransformFailed:
        offsets = records.column("offset")
        return TransformFailed(
            f"offsets {offsets[0]} to {offsets[records.num_rows - 1]}, transforms.python: {self.path} {what}"
        )

    def _within_time(self, given: pa.RecordBatch) -> Any:
        """Runs in a thread of its own, because a thread that does not return can be left behind."""
        outcome: list[Any] = []
        fault: list[BaseException] = []

        def work() -> None:
            try:
                outcome.append(self._call(given))
            except BaseException as error:  # raised again below, in the slot
                fault.append(error)

        thread = threading.Thread(target=work, name=f"transforms.python {self.path}", daemon=True)
        with limited_memory() as limit:
            self._told_limit = f": a call may use half of the free memory, here {limit >> 20:,} MiB" if limit else ""
            thread.start()
            thread.join(self._timeout)
        if thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_TimedOut))
            raise _TimedOut
        if fault:
            if isinstance(fault[0], Exception):
                raise fault[0]
            raise RuntimeError(f"{type(fault[0]).__name__}: {fault[0]}")
        return outcome[0]


def _is_row(row: Any, rows: int) -> bool:
    """Whether it is a valid row number; booleans are not."""
    return isinstance(row, int | np.integer) and not isinstance(row, bool) and int(row) in range(rows)


def _problem(given: pa.RecordBatch, result: Any) -> str:
    """What is wrong with a result; empty if nothing is."""
    if not isinstance(result, pa.RecordBatch):
        return f"returned {type(result).__name__}, not a pyarrow.RecordBatch"
    if result.schema.names != SCHEMA.names:
        return f"returned the columns {', '.join(result.schema.names)}, not {', '.join(SCHEMA.names)}"
    for field, column in zip(SCHEMA, result.columns, strict=True):
        if column.type != field.type:
            return f"returned column {field.name} as {column.type}, not {field.type}"
        if column.null_count and not field.nullable:
            return f"returned column {field.name} with nulls"
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as error:
        return f"returned a batch that is not valid: {error}"
    headers = result.column(4).flatten()
    # Under a null struct, Arrow may have any name.
    if headers.null_count or headers.field(0).null_count:
        return "returned a header without a name"
    if result.num_rows > given.num_rows:
        return f"returned {result.num_rows} rows for {given.num_rows}; rows can only be changed or left out"
    left, before = result.column(0).to_numpy(), given.column(0).to_numpy()
    at = np.minimum(np.searchsorted(before, left), given.num_rows - 1)
    strange = np.flatnonzero(before[at] != left)
    if len(strange):
        return f"returned offset {left[strange[0]]}, which it was not given"
    disorder = np.flatnonzero(np.diff(left) <= 0)
    if len(disorder):
        return f"returned offset {left[disorder[0] + 1]} after {left[disorder[0]]}; the order must not change"
    stamps = result.column(1).to_numpy()
    # Producers refuse it, too. A broker stores it, but its log cleaner fails on the partition (MemoryRecordsBuilder).
    negative = np.flatnonzero((stamps < -1) & (stamps != given.column(1).to_numpy()[at]))
    if len(negative):
        first = negative[0]
        wanted = "it is milliseconds since 1970, or -1 for none"
        return f"returned timestamp {stamps[first]} for offset {left[first]}; {wanted}"
    return ""
