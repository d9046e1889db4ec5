"""A flow as ``srm.watch`` sees it from outside its runs: what the last run left behind, and the current state of its
DAG in the scheduler.

The alarm ``stalled`` is the watch's alone, since runs that never start cannot send it; all others
are sent by the runs. So each alarm has one sender, which keeps its own record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple, Self

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.alarms import raised
from srm_common.domain.health.health import Alarm, AlarmKind, Observation
from srm_common.domain.health.judge import observe
from srm_common.domain.health.notified_alarms import NotifiedAlarms
from srm_common.domain.monitoring.flow_history import FlowHistory

#: What the watch sends, and runs do not.
WATCHED = frozenset({AlarmKind.STALLED})


@dataclass(frozen=True, slots=True)
class FlowActivity:
    """What a scheduler has of a flow at this moment. ``at_work``: a task of it runs, or is about to be tried again;
    ``waiting`` says why none does."""

    paused: bool = False
    at_work: bool = False
    waiting: str | None = None


@dataclass(frozen=True, slots=True)
class WatchMemory(NotifiedAlarms):
    """What the watch remembers of a flow from look to look. Times are epoch milliseconds, None where it does not hold:
    before ``due_since_ms`` nothing was due; nothing is active since ``quiet_since_ms``, or something is since
    ``at_work_since_ms``. ``paused`` at the last look."""

    paused: bool = False
    due_since_ms: int | None = None
    quiet_since_ms: int | None = None
    at_work_since_ms: int | None = None

    def with_activity(self, activity: FlowActivity, now_ms: int) -> Self:
        """After one more look."""
        if activity.paused:
            # Once it is resumed, it needs its time to run.
            return replace(self, paused=True, due_since_ms=now_ms, quiet_since_ms=None, at_work_since_ms=None)
        since = self.at_work_since_ms if activity.at_work else self.quiet_since_ms
        since = now_ms if since is None else since
        return replace(
            self,
            paused=False,
            at_work_since_ms=since if activity.at_work else None,
            quiet_since_ms=None if activity.at_work else since,
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), **self.notified_json()}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What :meth:`to_json` made. Anything else is ignored: then an alarm may be sent twice."""
        notified = cls.read_notified(document)
        if notified is None:
            return cls()
        own = {field.name for field in fields(cls)} - {field.name for field in fields(NotifiedAlarms)}
        known = {name: document[name] for name in own if name in document}
        if not all(value is None or isinstance(value, int) for value in known.values()):
            return cls()
        return cls(notified.told, notified.sent, **known)


@dataclass(frozen=True, slots=True)
class WatchedFlow:
    """One flow at one look. ``settings`` None: the file stops the flow, for the reason ``misconfigured``. ``history``
    is what its runs remember, ``memory`` what the watch does."""

    name: FlowName
    now_ms: int
    settings: FlowSettings | None
    history: FlowHistory
    memory: WatchMemory
    misconfigured: str | None = None


class Look(NamedTuple):
    """The result of a look. ``informed`` False: the flow may be about to come right, so that no alarm is over yet."""

    memory: WatchMemory
    alarms: list[Alarm]
    informed: bool


def look_at(flow: WatchedFlow, ask: Callable[[], FlowActivity]) -> Look:
    """Judge a flow. The scheduler is asked (``ask``) only about one that has stalled if its runs are to be believed,
    and may be active or paused; and about one that was paused, which may have been resumed.

    An alarm is over when a good run has ended in time again, or the flow is paused; a run that has begun may fail.
    """
    memory = flow.memory
    if memory.due_since_ms is None and flow.history.ok is None:
        # It is unknown how long it has been in the file.
        memory = replace(memory, due_since_ms=flow.now_ms)
    seen = _observation(flow, memory)
    if not memory.paused and not _watch_alarms(seen):
        return Look(replace(memory, quiet_since_ms=None, at_work_since_ms=None), [], informed=True)
    activity = ask()
    memory = memory.with_activity(activity, flow.now_ms)
    seen = replace(
        seen,
        paused=activity.paused,
        running_since_ms=memory.at_work_since_ms,
        quiet_since_ms=memory.quiet_since_ms,
        waiting=activity.waiting,
    )
    return Look(memory, _watch_alarms(seen), informed=activity.paused)


def _observation(flow: WatchedFlow, memory: WatchMemory) -> Observation:
    seen = observe(flow.name, flow.history, flow.settings, None, flow.now_ms, misconfigured=flow.misconfigured)
    return replace(seen, due_since_ms=memory.due_since_ms)


def _watch_alarms(seen: Observation) -> list[Alarm]:
    return [alarm for alarm in raised(seen) if alarm.kind in WATCHED]
