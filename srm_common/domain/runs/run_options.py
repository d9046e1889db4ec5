"""Options that an operator may set for one run, on top of the flow's settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.patterns.name_filter import PatternList, check_patterns
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError


@dataclass(frozen=True)
class RunOptions:
    """``run_id`` names the run: a second attempt under the same id does not apply the start position again.

    ``topics`` and ``topics_exclude`` are expressions like the flow's own and only narrow what the flow
    copies; None is no narrowing. ``max_seconds`` None: the flow's ``run.max.seconds``. ``notes`` go into the run
    record as they are. ``installation`` identifies the installation that has the flow enabled; None: unknown.

    Raises :class:`ConfigError` for an expression or a number that cannot be used.
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
        if self.max_seconds is not None and not 0 <= self.max_seconds < math.inf:
            said = f"must be a finite number of seconds, 0 or more, but is {self.max_seconds:g}"
            raise ConfigError(f"run.max.seconds of this run {said}")

    def wants(self, topic: str) -> bool:
        """Whether this run is about the topic at all."""
        if self.topics is not None and PatternList(self.topics).matching(topic) is None:
            return False
        return self.topics_exclude is None or PatternList(self.topics_exclude).matching(topic) is None

    def applied_start(self, left: Iterable[TopicPartition]) -> dict[str, Any]:
        """What to remember once the start position was applied to all partitions but those ``left``."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(left):
            by_topic.setdefault(topic, []).append(partition)
        applied: dict[str, Any] = {"run_id": self.run_id, "start": str(self.start)}
        return {**applied, "left": by_topic} if by_topic else applied

    def left_to_start(self, applied: Any) -> frozenset[TopicPartition] | None:
        """The partitions to which an earlier attempt could not apply the start position, by what it remembered; None
        where there was no such attempt."""
        if not isinstance(applied, dict) or not self.applied_start(()).items() <= applied.items():
            return None
        left = applied.get("left", {})
        return frozenset(TopicPartition(topic, number) for topic, numbers in left.items() for number in numbers)


# What one run copies, as the task that starts it tells the Spark job: in a file, since lists may be longer than a
# command line.


@dataclass(frozen=True, slots=True)
class RunSelection:
    """The filters that count, spelled out; what narrows them for this run (None: nothing); what the run record
    should say about them; and the installation that starts the run."""

    filters: FilterLists
    origin: str
    topics: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    installation: str | None = None

    def format(self) -> str:
        return json.dumps(
            {
                "filters": self.filters.to_json(),
                "origin": self.origin,
                "topics": self.topics,
                "topics_exclude": self.topics_exclude,
                "notes": self.notes,
                "installation": self.installation,
            },
            ensure_ascii=False,
        )

    @classmethod
    def parse(cls, text: str) -> RunSelection:
        """Raises :class:`ConfigError`."""
        try:
            document = json.loads(text)
            return cls(
                FilterLists.from_json(document["filters"]),
                document["origin"],
                _optional(document["topics"]),
                _optional(document["topics_exclude"]),
                tuple(document["notes"]),
                document.get("installation"),
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(f"this is not the selection of a run: {error!r}") from None

    def applied_to(self, flow: FlowSettings) -> FlowSettings:
        """The flow with these filters; what narrows them is the run's affair (``RunOptions.wants``)."""
        return self.filters.over(flow, self.origin).applied_to(flow)


def narrowed(plan: Plan, wants: Callable[[str], bool]) -> Plan:
    """The part of a plan that is about topics of the source that the run ``wants``.

    Decisions are those of the whole flow: a topic that this run leaves out is still one that the flow copies.
    """
    left_out: set[str] = set()
    kept: set[str] = set()
    for decision in plan.accepted:
        names = {decision.topic, decision.remote_topic or decision.topic}
        (kept if wants(decision.topic) else left_out).update(names)
    left_out -= kept
    return replace(plan, actions=tuple(action for action in plan.actions if action.topic not in left_out))


def narrowing(run: RunOptions) -> Callable[[Plan], Plan] | None:
    """What :func:`narrowed` does for one run; None when the run leaves nothing out."""
    if run.topics is None and run.topics_exclude is None:
        return None
    return lambda plan: narrowed(plan, run.wants)


def _optional(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)
