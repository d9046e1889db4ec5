"""Headers as users' statements and functions see them: names are text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.records.row_faults import RowFaults
from srm_common.wire.reencoding.columns import parsed_headers

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


def with_header(records: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    """Which records have a header of this name.

    Raises:
        CorruptBatch: headers that cannot be read.
    """
    counts = records.column("header_count").to_numpy()
    held = np.zeros(len(counts), np.bool_)
    if counts.any():
        equal = pc.equal(parsed_headers(records).flatten().field(0), name.encode())
        owners = np.repeat(np.arange(len(counts)), counts)
        held[owners[np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)]] = True
    return held


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
