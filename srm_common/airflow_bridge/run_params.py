"""What an operator chose for one run, out of a DAG run's params."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.runs.run_options import RunOptions


@dataclass(frozen=True, slots=True)
class RunParams:
    """``topics`` and ``topics_exclude`` narrow what the flow copies. None means: as the flow has it."""

    topics: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    run_max_seconds: float | None = None
    start: str = "committed"

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> RunParams:
        """``params`` of the task's context, checked by Airflow against their schemas."""
        return cls(
            topics=_patterns(params.get("topics")),
            topics_exclude=_patterns(params.get("topics.exclude")),
            run_max_seconds=params.get("run.max.seconds"),
            start=params.get("start") or "committed",
        )

    def options(self, run_id: str) -> RunOptions:
        """The same in the domain's words. Raises :class:`ConfigError` for an expression that cannot be used."""
        return RunOptions(
            run_id,
            topics=self.topics,
            topics_exclude=self.topics_exclude,
            max_seconds=self.run_max_seconds,
            start=StartPosition.parse(self.start),
        )

    def arguments(self) -> list[str]:
        """For the command line of the Spark job, strings only. Topics go by file, since there may be many of them."""
        arguments: list[str] = []
        for option, value in (
            ("--max-seconds", None if self.run_max_seconds is None else f"{self.run_max_seconds:g}"),
            ("--start", None if self.start == "committed" else self.start),
        ):
            if value is not None:
                arguments += [option, value]
        return arguments


def _patterns(value: Any) -> tuple[str, ...] | None:
    """An empty field of the form is the same as none; blank lines are not patterns."""
    patterns = tuple(line.strip() for line in value or () if line.strip())
    return patterns or None
