"""How a transform refuses single records; functions of users raise it, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RowFaults(ValueError):
    """A step cannot handle some of the rows that it was given. It is asked again for the others.

    ``reasons``: why, by the number of the row (an integer of Python or numpy); each follows the step's
    name and a colon in a sentence.
    """

    def __init__(self, reasons: Mapping[Any, str]) -> None:
        super().__init__(f"{len(reasons)} rows")
        self.reasons = dict(reasons)
