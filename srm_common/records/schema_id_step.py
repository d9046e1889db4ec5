"""Replaces the source registry's schema ids at the beginning of keys and values by the target registry's. Avro, JSON
Schema and Protobuf begin in the same way, with a zero byte and the id in four bytes; nothing after that is read.

Long integers begin like that as well: 20,000,000 looks like the id 1. So where only the default chooses a topic, values
of their size must belong to a subject of the topic. Other sizes need not: producers may name subjects after records
(RecordNameStrategy), and dead letters have the ids of other topics.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.transforms.formats import SCHEMA_ID_BYTES, Side
from srm_common.errors import TransformFailed
from srm_common.records.headers import with_header
from srm_common.records.row_faults import RowFaults
from srm_common.wire.reencoding.columns import SCHEMA

_CACHED_IDS = 10_000
#: What LongSerializer and DoubleSerializer write.
_NUMBER_BYTES = 8


class MappedIds(Protocol):
    """The source of the target's ids."""

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        """The target's id for one of the source's; None if the source's registry does not know it.

        Raises:
            TransformFailed: a registry does not return or accept it; names the topic and the id.
        """

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        """Whether a subject of the topic itself has the schema with this id at the source.

        Raises:
            TransformFailed: the source's registry does not return its subjects.
        """


class SchemaIdStep:
    """For the records of one topic. Keys and values that do not begin with a zero and an id stay as they are, and so do
    those whose id is in a header (Confluent's ``HeaderSchemaIdSerializer``).

    Args:
        topic: its name at the source.
        sides: whether keys, values or both begin with ids.
        ids: the source of the target's ids.
        unnamed: those of the sides for which nobody named the topic, so that numbers may look like ids.
    """

    #: The configuration key that faults are about.
    alias = "schemas.ids"
    path = f"{__name__}.SchemaIdStep"

    def __init__(self, topic: str, sides: Sequence[Side], ids: MappedIds, unnamed: Collection[Side] = ()) -> None:
        self._topic = topic
        self._sides = tuple(sides)
        self._ids = ids
        self._unnamed = frozenset(unnamed)
        self._known: dict[tuple[Side, int], int] = {}
        self._own: set[tuple[Side, int]] = set()

    def __call__(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records with the target's ids.

        Raises:
            RowFaults: rows with ids that the source's registry does not know.
            TransformFailed: a registry does not return or accept one, or numbers may have been taken for ids.
        """
        columns = list(records.columns)
        faults: dict[int, str] = {}
        for side in self._sides:
            place = SCHEMA.get_field_index(side.prefix)
            columns[place] = self._rewritten(records, place, side, faults)
        if faults:
            raise RowFaults(faults)
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _rewritten(self, records: pa.RecordBatch, place: int, side: Side, faults: dict[int, str]) -> pa.Array:
        column = records.column(place)
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        _, offsets_buffer, data_buffer = column.buffers()
        if data_buffer is None or not valid.any():
            return column
        offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
        first = int(offsets[0])
        data = np.frombuffer(data_buffer, np.uint8)[first : int(offsets[-1])]
        starts, sizes = offsets[:-1] - first, np.diff(offsets)
        rows = np.flatnonzero(valid & (sizes >= SCHEMA_ID_BYTES))
        rows = rows[data[starts[rows]] == 0]
        header = f"__{side.prefix}_schema_id"
        if len(rows) and pc.any(pc.match_substring(records.column("headers"), header)).as_py():
            rows = rows[~with_header(records, header)[rows]]
        if not len(rows):
            return column
        at = starts[rows][:, None] + np.arange(1, SCHEMA_ID_BYTES)
        numbers = np.ascontiguousarray(data[at]).view(">u4")[:, 0].astype(np.int64)
        old, which = np.unique(numbers, return_inverse=True)
        new = self._new(old, which, rows, side, faults)
        if new is None or (new == old).all():
            return column
        if side in self._unnamed:
            short = sizes[rows] == _NUMBER_BYTES
            for number in np.unique(numbers[short & (new != old)[which]]).tolist():
                self._check_own(number, side)
        changed = data.copy()
        changed[at] = new[which].astype(">u4").view(np.uint8).reshape(-1, SCHEMA_ID_BYTES - 1)
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bits, pa.py_buffer(np.ascontiguousarray(offsets - first)), pa.py_buffer(changed)]
        return pa.Array.from_buffers(pa.binary(), len(column), buffers)

    def _check_own(self, number: int, side: Side) -> None:
        if (side, number) in self._own:
            return
        if not self._ids.is_own(number, self._topic, side):
            key = f"schemas.ids.{side.prefix}s"
            raise TransformFailed(
                f"{side.prefix}s of {self._topic} are 8 bytes that begin with the schema id {number}, which is of no "
                f"subject of this topic, and long integers look the same: if they are numbers, set {key} to "
                f"expressions that leave the topic out; if they have ids, name the topic in {key}"
            )
        if len(self._own) >= _CACHED_IDS:
            self._own.clear()
        self._own.add((side, number))

    def _new(
        self,
        old: npt.NDArray[np.int64],
        which: npt.NDArray[np.intp],
        rows: npt.NDArray[np.intp],
        side: Side,
        faults: dict[int, str],
    ) -> npt.NDArray[np.int64] | None:
        """The target's ids; None where the source's registry does not know one of them."""
        found = []
        for place, number in enumerate(old.tolist()):
            mapped = self._known.get((side, number))
            if mapped is None:
                mapped = self._ids.mapped(number, self._topic, side)
                if mapped is None:
                    reason = (
                        f"the {side.prefix} has the schema id {number}, which the registry of the source does not "
                        f"know; if the {side.prefix}s of {self._topic} have no ids, leave it out of "
                        f"schemas.ids.{side.prefix}s"
                    )
                    faults.update(dict.fromkeys(rows[which == place].tolist(), reason))
                    continue
                if len(self._known) >= _CACHED_IDS:
                    self._known.clear()
                self._known[side, number] = mapped
            found.append(mapped)
        return np.array(found, np.int64) if len(found) == len(old) else None
