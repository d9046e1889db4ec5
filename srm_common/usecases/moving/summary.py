"""What a move tells in the end, and lists in its sentences."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.amount import counted, duration
from srm_common.domain.moving.moves import MoveReport
from srm_common.usecases.offsets.group_standings import untold

#: Sentences about single groups or partitions in a step's result; the positions have all of them.
NAMED = 20


def summary(report: MoveReport, here: str, left_out: int = 0) -> list[str]:
    """Where groups are now, what they read again, and where to start their consumers.

    Args:
        here: the alias of the cluster that they moved to.
        left_out: so many positions without a place are not in the report.
    """
    placed = [position for position in report.positions if position.translated]
    nowhere = [position for position in report.positions if not position.translated]
    groups = sorted({position.group for position in placed})
    skipped = "none is skipped"
    if nowhere or left_out:
        without = counted(len(nowhere) + left_out, "position")
        skipped = f"where groups have an offset none is skipped; auto.offset.reset applies to {without} without one"
    said = [f"{counted(len(groups), 'group')} moved to '{here}': {listed(groups)}", f"{report.bound}; {skipped}"]
    oldest = max((position.age_ms for position in placed), default=0)
    if oldest:
        said.append(f"positions are as they were known up to {duration(oldest)} ago")
    topics = sorted({position.topic for position in placed})
    said.append(f"start the consumers on '{here}'; their topics there: {listed(topics)}")
    said += first(
        f"group {position.group} has no offset in {position.topic}-{position.partition}: {position.reason}"
        for position in nowhere
    )
    return [*said, untold(left_out)] if left_out else said


def first(sentences: Iterable[str]) -> list[str]:
    """As many as fit into a step's result."""
    found = list(sentences)
    more = len(found) - NAMED
    return found if more <= 0 else [*found[:NAMED], f"and {more} more; the positions of the report have all"]


def listed(words: Iterable[str]) -> str:
    """The words, separated by commas, as many as fit into a sentence."""
    found = list(words)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more
