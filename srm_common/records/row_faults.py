"""How a transform refuses single records; users' functions raise it, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Longer reasons are cut: they may quote a record, and go into the run's record, logs and headers of dead letters.
LONGEST_REASON = 500


class RowFaults(ValueError):
    """A step cannot handle some of the rows that it was given. It is called again with the others.

    ``reasons``: why, by row number (an integer of Python or numpy). In messages, a reason follows the step's name and a
    colon.
    """

    def __init__(self, reasons: Mapping[Any, str]) -> None:
        super().__init__(f"{len(reasons)} rows")
        self.reasons = {row: reason_text(reason) for row, reason in reasons.items()}


def reason_text(reason: object) -> str:
    """A reason, which may quote any record, as text that can be stored and sent: not too long, and encodable as UTF-8,
    which half of a surrogate pair from JSON is not."""
    text = str(reason)
    if len(text) > LONGEST_REASON:
        text = f"{text[:LONGEST_REASON]}..."
    return text.encode("utf-8", "backslashreplace").decode()
