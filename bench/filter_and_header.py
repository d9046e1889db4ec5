"""What a user's function for ``transforms.python`` looks like that drops tombstones and adds a header."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def filter_and_header(records: pa.RecordBatch) -> pa.RecordBatch:
    """Records that are no tombstones, each with one more header, ``origin: east``, behind those that it has."""
    records = records.filter(pc.is_valid(records["value"]))
    column = records.schema.get_field_index("headers")
    headers = records.column(column)
    there = headers.flatten()
    ends = headers.offsets.to_numpy() - headers.offsets[0].as_py() + np.arange(records.num_rows + 1)
    # Of both kinds in one array: the new one is its last.
    taken = np.empty(len(there) + records.num_rows, np.int64)
    new = np.zeros(len(taken), np.bool_)
    new[ends[1:] - 1] = True
    taken[new], taken[~new] = len(there), np.arange(len(there))
    origin = pa.array([{"key": "origin", "value": b"east"}], there.type)
    items = pa.concat_arrays([there, origin]).take(pa.array(taken))
    longer = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=headers.type)
    return records.set_column(column, records.schema.field(column), longer)
