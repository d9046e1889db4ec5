"""The params of a DAG run: an operator's choices for one run or one move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.verification.verification import Against, VerificationScope, parse_moment


@dataclass(frozen=True, slots=True)
class RunParams:
    """``topics`` and ``topics_exclude`` narrow what the flow copies. None: the flow's own value. ``refresh_at_once``:
    topics are refreshed although that is not due."""

    topics: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    run_max_seconds: float | None = None
    start: str = "committed"
    refresh_at_once: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> RunParams:
        """``params`` of the task's context, checked by Airflow against their schemas."""
        return cls(
            topics=_patterns(params.get("topics")),
            topics_exclude=_patterns(params.get("topics.exclude")),
            run_max_seconds=params.get("run.max.seconds"),
            start=params.get("start") or "committed",
            refresh_at_once=bool(params.get("refresh.at.once")),
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


@dataclass(frozen=True, slots=True)
class MoveParams:
    """``flow`` is the one whose groups were, or are to be, at its source. ``approved``: without asking for approval."""

    flow: FlowName
    request: MoveRequest
    approved: bool = False

    @property
    def opposite(self) -> FlowName:
        return FlowName(self.flow.target, self.flow.source)

    @property
    def copying(self) -> FlowName:
        """The flow along which groups move; a failback moves them against the requested flow."""
        return self.opposite if self.request.kind is MoveKind.FAILBACK else self.flow

    @classmethod
    def of(cls, kind: MoveKind, params: Mapping[str, Any]) -> MoveParams:
        """``params`` of the task's context, checked by Airflow against their schemas."""
        groups = tuple(name for line in params.get("groups") or () if (name := line.strip()))
        return cls(
            flow=FlowName.parse(params["flow"]),
            request=MoveRequest(
                kind=kind,
                mode=MoveMode(params["mode"]),
                # An empty field of the form is the same as none.
                groups=groups or None,
                dry_run=bool(params["dry_run"]),
                wait_seconds=float(params["wait_seconds"]),
            ),
            approved=bool(params["approved"]),
        )


@dataclass(frozen=True, slots=True)
class VerifyParams:
    """``sample`` is a percentage; ``since`` a time, None: all that there is. ``topics`` and ``topics_exclude`` narrow
    what is compared. ``resume``: continue the newest verification, if it was stopped."""

    flow: FlowName
    against: Against = Against.MAP
    topics: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    sample: float = 100.0
    since: str | None = None
    resume: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> VerifyParams:
        """``params`` of the task's context, checked by Airflow against their schemas."""
        return cls(
            flow=FlowName.parse(params["flow"]),
            against=Against(params["against"]),
            topics=_patterns(params.get("topics")),
            topics_exclude=_patterns(params.get("topics.exclude")),
            sample=float(params["sample"]),
            since=params.get("since") or None,
            resume=bool(params["resume"]),
        )

    @property
    def scope(self) -> VerificationScope:
        """Raises :class:`ConfigError` for a time that cannot be read."""
        return VerificationScope(self.sample / 100, None if self.since is None else parse_moment(self.since))

    def selection(self, run_id: str) -> RunOptions:
        """Which topics are meant. Raises :class:`ConfigError` for an expression that cannot be used."""
        return RunOptions(run_id, topics=self.topics, topics_exclude=self.topics_exclude)

    def arguments(self, resume_since: str | None) -> list[str]:
        """Options for the Spark job's command line, except the flow, the file and the run.

        Args:
            resume_since: a time; go on with a verification that was stopped, if it began then or later.
        """
        arguments = ["--against", self.against.value, "--sample", f"{self.sample:f}%"]
        for option, value in (
            ("--topics", ",".join(self.topics or ()) or None),
            ("--topics-exclude", ",".join(self.topics_exclude or ()) or None),
            ("--since", self.since),
            ("--resume", resume_since),
        ):
            if value is not None:
                # In one word: an expression may begin with a hyphen.
                arguments.append(f"{option}={value}")
        return arguments
