"""Loads what transforms need into the process from which workers are forked, so that they need not do it one by one."""

from __future__ import annotations

from importlib.util import find_spec

#: Set in the environment of Spark's Python workers if the flow changes records.
CHANGES_RECORDS = "SRM_CHANGES_RECORDS"


def load() -> None:
    """Import Arrow, numba and the transforms, and take one record through the loops, which loads what numba has
    compiled. Does nothing if a package is missing: the slot reports which one."""
    if any(find_spec(package) is None for package in ("numpy", "pyarrow")):
        return
    from srm_common.records import plain_statement, provenance, python_function, sql_statement, transformed  # noqa: F401
    from srm_common.wire.batches.batch import split, stamp
    from srm_common.wire.batches.codec import LZ4, compress
    from srm_common.wire.reencoding.columns import decode, encode, parsed_headers, with_headers
    from srm_common.wire.state.plain_records import plain_records

    body = compress(LZ4, plain_records([(b"key", b"value", [(b"name", b"value")])]))
    batch = stamp(LZ4, 0, 0, 0, 1, body, -1, -1, -1) + body
    records = decode(list(split(memoryview(batch))))
    for _ in encode(with_headers(records, parsed_headers(records)), LZ4, 1 << 20, 1 << 20):
        pass
