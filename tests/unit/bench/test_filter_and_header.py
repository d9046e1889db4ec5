"""The function of the rows with Python does what MirrorMaker 2's transforms do."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bench.filter_and_header import filter_and_header
from srm_common.records.headers import HEADERS_TYPE


def test_tombstones_are_dropped_and_headers_are_added_behind_those_that_are_there() -> None:
    headers: list[list[tuple[str, bytes | None]]] = [[("a", b"1"), ("b", None)], [("gone", b"")], [], [("a", b"2")]]
    listed = pa.array([[{"key": key, "value": value} for key, value in one] for one in headers], HEADERS_TYPE)
    records = pa.record_batch({"value": pa.array([b"v", None, b"", b"w"]), "headers": listed})
    for begin in (0, 1):
        found = filter_and_header(records.slice(begin))
        assert found["value"].to_pylist() == [b"v", b"", b"w"][begin:]
        assert found.schema == records.schema
        rows: list[Any] = found["headers"].to_pylist()
        assert [[(one["key"], one["value"]) for one in row] for row in rows] == [
            [*one, ("origin", b"east")] for one in (headers[0], headers[2], headers[3])[begin:]
        ]
    assert filter_and_header(records.slice(1, 1)).num_rows == 0
