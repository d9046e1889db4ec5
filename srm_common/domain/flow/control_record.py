"""One change to a flow, made by an operator or a program while it ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

FILTERS = "filters"
SOURCE_OFFSETS = "source-offsets"
HANDOVER = "handover"


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """Who changed what, when, with the values before and after. ``key`` is unique; ``kind`` is the subject of the
    change (:data:`FILTERS`, :data:`SOURCE_OFFSETS`, ...). ``who`` is None if unknown. ``before`` and ``after`` are JSON
    values, in the form of their kind. ``origin``: where the change was made or found. ``based_on``: the key of the
    record whose ``after`` the author looked at; used by kinds in which only the newest record counts.

    Raises TypeError, ValueError or OverflowError for a ``when_ms`` (epoch milliseconds) that no calendar has.
    """

    key: str
    kind: str
    flow: str
    when_ms: int
    who: str | None = None
    before: Any = None
    after: Any = None
    origin: str = ""
    note: str = ""
    based_on: str | None = None

    def __post_init__(self) -> None:
        # Anyone may have written it: better unreadable than an error for whoever shows the history.
        _time(self.when_ms)

    @property
    def when(self) -> str:
        """UTC, to the second."""
        return _time(self.when_ms)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"when": self.when}


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def standing(records: Iterable[ControlRecord]) -> list[ControlRecord]:
    """Of the records of one kind and flow, in the order of the log, those that took effect; the last one counts now.

    Two authors who changed the same state at the same time both wrote a record based on the same one. The log has an
    order, so the first of them took effect, and the second changed nothing. A record whose base is not in the log (it
    was deleted, or cannot be read) is believed.
    """
    out: list[ControlRecord] = []
    seen: set[str] = set()
    for record in records:
        if not out or record.based_on == out[-1].key or (record.based_on and record.based_on not in seen):
            out.append(record)
        seen.add(record.key)
    return out
