"""Copies whose log ends before what the flow has written there: the target lost records that were committed.

By an unclean leader election, a lost disk or a cluster that was restored. A log never ends earlier otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CutCopy:
    """``position`` is the source offset up to which all was copied when the log ended at ``before``."""

    topic: str
    partition: int
    position: int
    before: int
    now: int

    @property
    def finding(self) -> str:
        """What happened, as half a sentence."""
        return (
            f"the copy {self.topic}-{self.partition} ends at offset {self.now}, {self.before - self.now} offsets "
            f"before the end that the flow left there: the target lost records that were copied (an unclean leader "
            f"election, a lost disk, a restored cluster)"
        )

    @property
    def error(self) -> str:
        """One sentence that says what to do."""
        return (
            f"{self.finding}; decide by on.target.loss: skip goes on behind the gap, reset copies the whole log again; "
            f"or set the source offset back with srm-control source-offsets"
        )
