"""What an operator may choose for one run, beyond the flow's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.domain.filters import PatternList
from srm_common.domain.start_position import StartPosition


@dataclass(frozen=True)
class RunOptions:
    """``run_id`` names the run: a second attempt under the same id does not apply the start position again.

    ``topics`` and ``topics_exclude`` are expressions like the flow's own and only narrow what the flow
    copies; None is no narrowing. ``max_seconds`` None: the flow's ``run.max.seconds``.
    """

    run_id: str
    topics: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    max_seconds: float | None = None
    start: StartPosition = field(default_factory=StartPosition)

    def wants(self, topic: str) -> bool:
        """Whether this run is about the topic at all. Raises :class:`RegexError` for a bad expression."""
        if self.topics is not None and PatternList(self.topics).matching(topic) is None:
            return False
        return self.topics_exclude is None or PatternList(self.topics_exclude).matching(topic) is None
