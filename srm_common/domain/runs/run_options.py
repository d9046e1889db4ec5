"""What an operator may choose for one run, beyond the flow's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.patterns.name_filter import PatternList, check_patterns
from srm_common.errors import ConfigError


@dataclass(frozen=True)
class RunOptions:
    """``run_id`` names the run: a second attempt under the same id does not apply the start position again.

    ``topics`` and ``topics_exclude`` are expressions like the flow's own and only narrow what the flow
    copies; None is no narrowing. ``max_seconds`` None: the flow's ``run.max.seconds``. ``notes`` go into the run
    record as they are. ``installation`` tells apart who has the flow enabled; None is nobody in particular.

    Raises :class:`ConfigError` for an expression that cannot be used.
    """

    run_id: str
    topics: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    max_seconds: float | None = None
    start: StartPosition = field(default_factory=StartPosition)
    notes: tuple[str, ...] = ()
    installation: str | None = None

    def __post_init__(self) -> None:
        for name, patterns in (("topics", self.topics), ("topics.exclude", self.topics_exclude)):
            fault = check_patterns(patterns or ())
            if fault is not None:
                raise ConfigError(f"{name} of this run: {fault}")

    def wants(self, topic: str) -> bool:
        """Whether this run is about the topic at all."""
        if self.topics is not None and PatternList(self.topics).matching(topic) is None:
            return False
        return self.topics_exclude is None or PatternList(self.topics_exclude).matching(topic) is None
