"""Headers as users' statements and functions see them: names are text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
