"""Keys and values of a batch while a chain's transforms work on them: each is decoded once and encoded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srm_common.domain.transforms.chain import Step
from srm_common.domain.transforms.field_steps import FieldStep, HeaderFrom, ValueToKey
from srm_common.domain.transforms.formats import (
    SCHEMA_ID_BYTES,
    WITH_REGISTRY,
    Format,
    FormatKind,
    HeaderConverter,
    Side,
)
from srm_common.records.connect.converters import Converter, SchemaAndValue
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.records.connect.registry_values import RecordSchemas
from srm_common.records.connect.transforms.field_transforms import FieldTransform
from srm_common.records.connect.transforms.header_from import headers_from
from srm_common.records.connect.transforms.header_values import header_bytes
from srm_common.records.connect.transforms.requirements import Origin
from srm_common.records.row_faults import RowFaults
from srm_common.wire.reencoding.columns import SCHEMA, encoded_header, more_headers

Mask = npt.NDArray[np.bool_]
#: Null stays null even if the schema has a default, and decimals are written as numbers.
_JSON = Converter(Format(FormatKind.JSON, replace_null_with_default=False, numeric_decimals=True))


class _Cell(NamedTuple):
    """A decoded key or value; ``changed`` if it no longer matches its bytes."""

    data: SchemaAndValue
    changed: bool


class ConnectRecords:
    """The keys and values that field steps have read or changed, by offset, until they are written into the columns.

    Args:
        topic: the copy's name.
        partition: of the records.
        schemas: of keys and values whose format needs a registry.
        upstream: the name of the topic at the source, for that registry; the copy's by default.
    """

    def __init__(
        self, topic: str, partition: int, schemas: RecordSchemas | None = None, upstream: str | None = None
    ) -> None:
        self._topic = topic
        self._upstream = topic if upstream is None else upstream
        self._partition = partition
        self._schemas = schemas
        self._converters: dict[tuple[Side, Format], Converter | RegistryConverter] = {}
        self._transforms: dict[Step, FieldTransform] = {}
        self._cells: dict[Side, dict[int, _Cell]] = {side: {} for side in Side}
        self._formats: dict[Side, Format] = {}

    def forget(self) -> None:
        """Drop everything, before other records."""
        for cells in self._cells.values():
            cells.clear()

    def apply(self, step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
        """The records after one step; its new keys and values are not in the columns yet.

        Raises:
            RowFaults: rows that the step cannot read or handle.
        """
        fields = step.fields
        assert fields is not None
        transform = self._transforms.get(step)
        if transform is None:
            transform = self._transforms[step] = FieldTransform(fields.options)
        rows = range(records.num_rows) if chosen is None else np.flatnonzero(chosen).tolist()
        offsets = records.column(0).to_pylist()
        timestamps = records.column(1).to_pylist()
        bytes_ = records.column(fields.side.prefix).to_pylist()
        cells = self._cells[fields.side]
        converter = self._converter(fields.side, fields.format)
        changed: dict[int, _Cell] = {}
        headers: dict[int, list[tuple[str, Any]]] = {}
        faults: dict[int, str] = {}
        for row in rows:
            offset = offsets[row]
            try:
                cell = cells.get(offset)
                if cell is None:
                    cell = cells[offset] = self._decoded(fields, converter, bytes_[row])
                data = transform(cell.data, Origin(self._topic, self._partition, timestamps[row]))
                copied = isinstance(fields.options, HeaderFrom) and not fields.options.move
                if isinstance(fields.options, HeaderFrom):
                    headers[row] = headers_from(fields.options, cell.data)
                if data is not cell.data:
                    changed[offset] = _Cell(data, cell.changed or not copied)
            except DataFault as error:
                faults[row] = str(error)
            except RecursionError:
                faults[row] = f"the {fields.side.prefix} is nested too deeply"
        if headers:
            records = _with_headers(records, headers, step.header_converter, faults)
        if faults:
            raise RowFaults(faults)
        target = Side.KEY if isinstance(fields.options, ValueToKey) else fields.side
        self._formats[target] = fields.key_format or fields.format
        self._cells[target] |= changed
        return records

    def write(self, step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
        """The records, with the changed keys and values in their columns. Later steps decode them again.

        Raises:
            RowFaults: rows whose new key or value cannot be written.
        """
        faults: dict[int, str] = {}
        columns = list(records.columns)
        offsets = records.column(0).to_pylist()
        for side, cells in self._cells.items():
            if not any(cell.changed for cell in cells.values()):
                continue
            converter = self._converter(side, self._formats[side])
            place = SCHEMA.get_field_index(side.prefix)
            values = columns[place].to_pylist()
            for row, offset in enumerate(offsets):
                cell = cells.get(offset)
                if cell is None or not cell.changed:
                    continue
                try:
                    values[row] = converter.encode(*cell.data, values[row])
                except DataFault as error:
                    faults[row] = f"the {side.prefix} {error}"
                except RecursionError:
                    faults[row] = f"the {side.prefix} is nested too deeply"
            columns[place] = pa.array(values, pa.binary())
        if faults:
            raise RowFaults(faults)
        self.forget()
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def tombstones(self, records: pa.RecordBatch) -> Mask:
        """Which records have a null value after the steps so far."""
        cells = self._cells[Side.VALUE]
        held = np.array(records.column(3).is_null().to_numpy(zero_copy_only=False), np.bool_)
        if cells:
            for row, offset in enumerate(records.column(0).to_pylist()):
                cell = cells.get(offset)
                if cell is not None:
                    held[row] = cell.data.value is None
        return held

    def json_text(self, side: Side, format_: Format, data: bytes) -> str:
        """A key or value as JSON: its own text if its format is JSON Schema, otherwise what ``JsonConverter`` writes
        without the schema, with decimals as numbers.

        Raises:
            DataFault: it is not in the format.
            TransformFailed: a registry does not return its schema.
        """
        try:
            value = self._converter(side, format_).decode(data)
            if format_.kind is FormatKind.JSON_SCHEMA:
                return data[SCHEMA_ID_BYTES:].decode("utf-8", "backslashreplace")
            text = _JSON.encode(*value)
        except RecursionError:
            raise DataFault("is nested too deeply") from None
        return "null" if text is None else text.decode()

    def _converter(self, side: Side, format_: Format) -> Converter | RegistryConverter:
        converter = self._converters.get((side, format_))
        if converter is None:
            converter = self._converters[side, format_] = self._made(side, format_)
        return converter

    def _made(self, side: Side, format_: Format) -> Converter | RegistryConverter:
        if format_.kind not in WITH_REGISTRY:
            return Converter(format_)
        assert self._schemas is not None
        return RegistryConverter(self._topic, side, format_, self._schemas, self._upstream)

    def _decoded(self, fields: FieldStep, converter: Converter | RegistryConverter, data: bytes | None) -> _Cell:
        try:
            return _Cell(converter.decode(data), False)
        except DataFault as error:
            raise DataFault(f"the {fields.side.prefix} {error}") from None


def _with_headers(
    records: pa.RecordBatch,
    headers: Mapping[int, list[tuple[str, Any]]],
    converter: HeaderConverter,
    faults: dict[int, str],
) -> pa.RecordBatch:
    more = [b""] * records.num_rows
    counts = np.zeros(records.num_rows, np.int32)
    for row, added in headers.items():
        try:
            more[row] = b"".join(encoded_header(name, header_bytes(value, converter)) for name, value in added)
        except DataFault as error:
            faults[row] = str(error)
        counts[row] = len(added)
    return more_headers(records, counts, pa.array(more, pa.binary()))
