"""Samples of groups, as the flow's state keeps them between rounds of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, fields
from typing import Any

from srm_common.domain.monitoring.run_report import GroupSample

#: The key in the flow's state.
KEY = "groups"
#: Enough for a page; a record has to fit into a message.
_ROWS = 5_000
_COLUMNS = tuple(field.name for field in fields(GroupSample))


def groups_record(samples: Iterable[GroupSample]) -> dict[str, Any]:
    """Plain values; groups that are not translated completely come first when there are more than 5,000."""
    rows = sorted(samples, key=lambda one: (one.translated >= one.positions, one.group))
    return {
        "columns": list(_COLUMNS),
        "rows": [list(astuple(one)) for one in rows[:_ROWS]],
        "left_out": max(0, len(rows) - _ROWS),
    }


def groups_from(record: Any) -> tuple[GroupSample, ...]:
    """The samples in a record; none where there is no record, or one of another form."""
    try:
        return tuple(
            GroupSample(**{name: cell for name, cell in zip(record["columns"], row, strict=True) if name in _COLUMNS})
            for row in record["rows"]
        )
    except (KeyError, TypeError, ValueError):
        return ()
