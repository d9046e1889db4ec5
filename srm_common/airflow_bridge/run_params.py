"""What an operator chose for one run, out of a DAG run's params."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunParams:
    """``topics`` and ``topics_exclude`` narrow what the flow copies. None means: as in the file."""

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

    def arguments(self) -> list[str]:
        """For the command line of the Spark job; strings only."""
        arguments: list[str] = []
        for option, value in (
            ("--topics", _joined(self.topics)),
            ("--topics-exclude", _joined(self.topics_exclude)),
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


def _joined(patterns: tuple[str, ...] | None) -> str | None:
    return None if patterns is None else ",".join(patterns)
