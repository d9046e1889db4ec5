"""Headers as users' statements and functions have them: a name is text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.records.row_faults import RowFaults
from srm_common.wire.reencoding.columns import SCHEMA, encoded_header, parsed_headers

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
"""Names may occur more than once."""


def named_headers(records: pa.RecordBatch) -> pa.ListArray:
    """The headers of records as :data:`HEADERS_TYPE`.

    Raises:
        RowFaults: records with a name that is not UTF-8. Brokers take any bytes.
        CorruptBatch: headers that cannot be read.
    """
    headers = parsed_headers(records)
    structs = headers.flatten()
    names = structs.field(0)
    try:
        named = names.cast(pa.string())
    except pa.ArrowInvalid:
        owners = np.repeat(np.arange(len(headers)), np.diff(headers.offsets.to_numpy()))
        refused = {owners[place]: name for place, name in enumerate(names.to_pylist()) if not _is_text(name)}
        raise RowFaults({row: f"the name of header {name!r} is not UTF-8" for row, name in refused.items()}) from None
    fields = list(HEADERS_TYPE.value_type)
    return pa.ListArray.from_arrays(
        headers.offsets, pa.StructArray.from_arrays([named, structs.field(1)], fields=fields), type=HEADERS_TYPE
    )


def appended(records: pa.RecordBatch, name: str, value: bytes | None) -> pa.RecordBatch:
    """The records with one header appended; existing headers stay byte for byte."""
    header = pa.scalar(encoded_header(name, value), pa.binary())
    raw = pc.binary_join_element_wise(records.column("headers"), header, pa.scalar(b"", pa.binary()))
    counts = pc.add(records.column("header_count"), pa.scalar(1, pa.int32()))
    return pa.RecordBatch.from_arrays([*records.columns[:-2], counts, raw], schema=SCHEMA)


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
