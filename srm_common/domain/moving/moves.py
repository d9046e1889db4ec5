"""A move of consumer groups from a flow's source to its target: the request, the result of each step, and where each
group resumes.

A failover moves groups along a flow. A failback is the same along the flow in the other direction; a change of
direction is a failover of everything, once. They share these types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.amount import NONE, Amount


class MoveKind(StrEnum):
    FAILOVER = "failover"
    FAILBACK = "failback"
    SWITCH_DIRECTION = "switch_direction"

    @property
    def dag_id(self) -> str:
        return f"srm.{self}"


class MoveMode(StrEnum):
    """Which clients are stopped, and whether the source is up."""

    DISASTER = "disaster"
    """The source may be gone. It is not required; if it still responds, positions are more recent."""
    CONTROLLED = "controlled"
    """Producers and consumers of the source are stopped: everything is copied first, and nothing is read twice."""
    CONTINUOUS = "continuous"
    """The groups' consumers are stopped at the source; producers and the flow keep running."""


#: The modes of a move; the first is the one that is meant when nothing is said.
MODES: Mapping[MoveKind, tuple[MoveMode, ...]] = {
    MoveKind.FAILOVER: (MoveMode.DISASTER, MoveMode.CONTROLLED, MoveMode.CONTINUOUS),
    # Without its source there is nothing to go back to.
    MoveKind.FAILBACK: (MoveMode.CONTROLLED, MoveMode.CONTINUOUS),
    MoveKind.SWITCH_DIRECTION: (MoveMode.CONTROLLED,),
}


class StepName(StrEnum):
    """The steps of a move, in their order; :data:`STEPS` says which of them a mode has."""

    CHECK = "check"
    STOP = "stop"
    DRAIN = "drain"
    TRANSLATE = "translate"
    APPLY = "apply"
    VERIFY = "verify"
    TURN = "turn"
    """Only for a change of direction: lets the flow in the other direction start after what was copied."""
    REPORT = "report"


#: What a dry run does: steps that change nothing.
DRY_STEPS = (StepName.CHECK, StepName.TRANSLATE, StepName.TURN)
STEPS: Mapping[MoveMode, tuple[StepName, ...]] = {
    MoveMode.DISASTER: tuple(StepName),
    MoveMode.CONTROLLED: tuple(StepName),
    # The flow continues, so there is nothing to stop.
    MoveMode.CONTINUOUS: tuple(step for step in StepName if step is not StepName.STOP),
}


class StepState(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"
    """Not possible or not needed here; the messages say why, and the move continues."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """What is asked for.

    ``groups`` None: every group that the flow translates. ``wait_seconds``: how long to wait for what others have to
    do (the copy to catch up, a run to end, consumers to leave).
    """

    kind: MoveKind
    mode: MoveMode
    groups: tuple[str, ...] | None = None
    dry_run: bool = False
    wait_seconds: float = 60.0

    @property
    def steps(self) -> tuple[StepName, ...]:
        steps = DRY_STEPS if self.dry_run else STEPS[self.mode]
        turns = self.kind is MoveKind.SWITCH_DIRECTION
        return tuple(step for step in steps if turns or step is not StepName.TURN)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "mode": str(self.mode),
            "groups": None if self.groups is None else list(self.groups),
            "dry_run": self.dry_run,
            "wait_seconds": self.wait_seconds,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read plain values. Raises ValueError, TypeError or KeyError if it is not a request."""
        groups = found["groups"]
        return cls(
            MoveKind(found["kind"]),
            MoveMode(found["mode"]),
            None if groups is None else tuple(map(str, groups)),
            bool(found["dry_run"]),
            float(found["wait_seconds"]),
        )


@dataclass(frozen=True, slots=True)
class PositionReport:
    """Where one group resumes in one partition.

    ``topic`` and ``partition`` are the ones to read from now on, ``from_topic`` is where ``upstream`` was committed:
    the next record that the group would have read there. ``before`` is what the group had committed at its new place
    before the move, ``applied`` where it continues; None: it has none. ``age_ms`` is how old the knowledge of
    ``upstream`` is, 0 when it was asked for just then. ``read_again`` is how many records the group may read a second
    time, as far as that can be said. ``reason`` tells why there is no position, or why it is not exact.
    ``metadata`` is what the group noted with its commit, and goes along.
    """

    group: str
    topic: str
    partition: int
    from_topic: str
    upstream: int
    before: int | None = None
    applied: int | None = None
    age_ms: int = 0
    read_again: Amount = NONE
    reason: str = ""
    metadata: str = ""

    @property
    def translated(self) -> bool:
        return self.applied is not None

    @property
    def changes(self) -> bool:
        """Whether anything has to be committed."""
        return self.applied is not None and self.applied != self.before

    @property
    def upstream_place(self) -> tuple[str, str, int]:
        """The group, and the partition at the source that its position was translated from."""
        return self.group, self.from_topic, self.partition

    def with_more_to_read(self, why: str) -> Self:
        """It, when the group may read more a second time than was known."""
        reason = "; ".join(filter(None, [self.reason, why]))
        return replace(self, read_again=self.read_again.and_more(), reason=reason)

    def to_json(self) -> list[Any]:
        """A row, since there may be a hundred thousand of them; the inverse of :meth:`from_json`."""
        row = {name: getattr(self, name) for name in POSITION_COLUMNS}
        return [*(row | {"read_again": self.read_again.to_json()}).values()]

    @classmethod
    def from_json(cls, row: list[Any]) -> Self:
        """Read a row. Raises ValueError, TypeError or KeyError if it is invalid."""
        found = dict(zip(POSITION_COLUMNS, row, strict=True))
        return cls(**found | {"read_again": _read_again(found["read_again"])})


def _read_again(found: Any) -> Amount:
    """Before there were amounts: the most that it may be, or None."""
    if found is None or isinstance(found, int):
        return Amount.not_known() if found is None else Amount.at_most(found)
    return Amount.from_json(found)


POSITION_COLUMNS = (
    "group",
    "topic",
    "partition",
    "from_topic",
    "upstream",
    "before",
    "applied",
    "age_ms",
    "read_again",
    "reason",
    "metadata",
)


#: Where a run of a move's DAG keeps :func:`shown_positions`, and :meth:`MoveReport.shown_read_again` of all of them.
POSITIONS = "positions"
READ_AGAIN = "read_again"
_SHOWN = 500


def shown_positions(positions: Iterable[PositionReport]) -> list[dict[str, Any]]:
    """The positions for display, with names; of many, the most important ones."""
    first = sorted(positions, key=lambda one: (one.translated, not one.reason))
    return [
        dict(zip(POSITION_COLUMNS, report.to_json(), strict=True)) | {"read_again": _shown(report.read_again)}
        for report in first[:_SHOWN]
    ]


def _shown(amount: Amount) -> dict[str, Any]:
    return amount.to_json() | {"text": amount.text("position")}


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did. ``exit_code`` is that of the commands for this outcome."""

    step: StepName
    state: StepState
    sentences: tuple[str, ...] = ()
    started_ms: int = 0
    ended_ms: int = 0
    exit_code: int = 0

    @property
    def failed(self) -> bool:
        return self.state is StepState.FAILED

    def to_json(self) -> dict[str, Any]:
        return {
            "step": str(self.step),
            "state": str(self.state),
            "sentences": list(self.sentences),
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "exit_code": self.exit_code,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read plain values. Raises ValueError, TypeError or KeyError if it is not a result."""
        return cls(
            StepName(found["step"]),
            StepState(found["state"]),
            tuple(map(str, found["sentences"])),
            int(found["started_ms"]),
            int(found["ended_ms"]),
            int(found["exit_code"]),
        )

    def render(self) -> str:
        """The step and its sentences, one a line."""
        first, *others = self.sentences or ("",)
        return "\n".join(
            [f"{self.step:<9} {self.state:<7} {first}".rstrip(), *(f"{'':17} {other}" for other in others)]
        )


@dataclass(frozen=True, slots=True)
class MoveReport:
    """A move as far as it is: the newest result of each step, and every position once it is known.

    ``flow`` is the one along which groups move: for a failback that in the other direction.
    """

    flow: str
    request: MoveRequest
    steps: tuple[StepResult, ...] = ()
    positions: tuple[PositionReport, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether every step was done or skipped."""
        done = {result.step for result in self.steps if not result.failed}
        return done.issuperset(self.request.steps)

    @property
    def moved_ms(self) -> int | None:
        """When the groups' offsets were applied, in epoch milliseconds; None while they are not, and in a dry run."""
        ended = [one.ended_ms for one in self.steps if one.step is StepName.APPLY and one.state is StepState.DONE]
        return ended[-1] if ended else None

    @property
    def exit_code(self) -> int:
        """0 when all went well; 1 also where a group stays without a position."""
        codes = [result.exit_code for result in self.steps]
        return max(codes, default=0)

    @property
    def read_again(self) -> Amount:
        """How many records the groups that have a place may read a second time, all together."""
        return Amount.sum(position.read_again for position in self.positions if position.translated)

    @property
    def shown_read_again(self) -> dict[str, Any]:
        """The same as plain values, with its text."""
        return _shown(self.read_again)

    @property
    def bound(self) -> str:
        """The same in words."""
        return f"records read again: {self.read_again.text('position')}"

    def with_step(self, result: StepResult) -> MoveReport:
        """With this result instead of an earlier one of the step; what comes after it has to be done again."""
        order = list(StepName)
        before = [step_result for step_result in self.steps if order.index(step_result.step) < order.index(result.step)]
        return replace(self, steps=(*before, result))

    def with_positions(self, positions: tuple[PositionReport, ...]) -> MoveReport:
        return replace(self, positions=positions)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "request": self.request.to_json(),
            "finished": self.finished,
            "read_again": self.shown_read_again,
            "steps": [result.to_json() for result in self.steps],
            "position_columns": list(POSITION_COLUMNS),
            "positions": [position.to_json() for position in self.positions],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read plain values. Raises ValueError, TypeError or KeyError if it is not a report."""
        return cls(
            str(found["flow"]),
            MoveRequest.from_json(found["request"]),
            tuple(StepResult.from_json(one) for one in found["steps"]),
            tuple(PositionReport.from_json(one) for one in found["positions"]),
        )

    def render(self) -> str:
        """For a log: each step, then a line for each position that is not exact or has none."""
        lines = [result.render() for result in self.steps]
        for position in self.positions:
            if position.reason or not position.translated:
                where = position.applied if position.translated else "no offset"
                lines.append(f"{position.group}: {position.topic}-{position.partition}: {where}: {position.reason}")
        return "\n".join(lines)
