"""What the last round could not translate, as it is kept for the time when the source cannot be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from srm_common.domain.offsets.checkpoints import Untranslated

#: The key in the flow's state.
KEY = "untranslated"
#: Enough for a person; a record has to fit into a message.
_ROWS = 10_000


def untranslated_record(found: Sequence[Untranslated], others: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Plain values, the same for the same positions in any order; ``left_out`` counts those beyond 10,000.

    ``others``: groups (name, kind) that are no consumer groups.
    """
    rows = sorted((one.group, one.topic, one.partition, one.upstream, one.reason) for one in found)
    return {"positions": [list(row) for row in rows[:_ROWS]], "left_out": max(0, len(rows) - _ROWS)} | (
        {"other_groups": [list(one) for one in sorted(others)[:_ROWS]]} if others else {}
    )


def untranslated_from(record: Any) -> tuple[list[Untranslated], int]:
    """The positions in a record, and how many it leaves out; none where there is no record, or one of another form."""
    try:
        found = [
            Untranslated(str(group), str(topic), int(partition), int(upstream), str(reason))
            for group, topic, partition, upstream, reason in record["positions"]
        ]
        return found, int(record["left_out"])
    except (KeyError, TypeError, ValueError):
        return [], 0


def other_groups_from(record: Any) -> list[tuple[str, str]]:
    """The groups (name, kind) in a record that are no consumer groups; none where it says nothing of them."""
    try:
        return [(str(name), str(kind)) for name, kind in record["other_groups"]]
    except (KeyError, TypeError, ValueError):
        return []


def why_not_moved(name: str, kind: str, alias: str) -> str:
    """What a person should know of a group whose place is not translated, before consumers start on ``alias``."""
    if kind == "share":
        return (
            f"{name} is a share group, which is not moved: set its start offsets on '{alias}' with "
            f"kafka-share-groups.sh --reset-offsets before its consumers start there (docs/offsets.md)"
        )
    return f"{name} is a {kind} group, which is not moved: its offsets are not translated"
