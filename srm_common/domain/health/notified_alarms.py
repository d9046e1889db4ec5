"""Whom an alarm was told, so that it is told once when it begins and once when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from srm_common.domain.health.health import Alarm
from srm_common.domain.monitoring.flow_history import NO_RUNS, FlowHistory, fold
from srm_common.domain.monitoring.run_report import RunReport


@dataclass(frozen=True, slots=True)
class ToldAlarms:
    """``told`` has, by notifier and kind of alarm, the text of alarms that the notifier was told and that are not over
    yet. One writer keeps it at a time: two could each tell what the other has told."""

    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def news(
        self, notifier: str, alarms: Iterable[Alarm], *, informed: bool = True
    ) -> tuple[list[Alarm], dict[str, str]]:
        """Alarms that the notifier was not told yet; and texts of those that are over, by kind.

        ``informed`` False: so little is known at the moment that nothing can be called over.
        """
        told = self.told.get(notifier, {})
        raised = {alarm.kind.value: alarm for alarm in alarms}
        begun = [alarm for kind, alarm in raised.items() if kind not in told]
        return begun, {kind: text for kind, text in told.items() if informed and kind not in raised}

    def limited_to(self, notifiers: Iterable[str]) -> Self:
        """Without what others were told, as those taken out of the file."""
        names = set(notifiers)
        return replace(self, told={name: kinds for name, kinds in self.told.items() if name in names})

    def mark_notified(self, notifier: str, kind: str, text: str | None) -> Self:
        """``text`` None: that it is over."""
        told = {name: dict(kinds) for name, kinds in self.told.items()}
        mine = told.setdefault(notifier, {})
        if text is None:
            mine.pop(kind, None)
        else:
            mine[kind] = text
        return replace(self, told={name: kinds for name, kinds in told.items() if kinds})


# What the report task of a flow remembers from run to run, so that alarms need no store, and who was told what.


@dataclass(frozen=True, slots=True)
class AlarmMemory(ToldAlarms):
    """The flow's history from its own reports, stored with what was sent."""

    history: FlowHistory = NO_RUNS

    def to_json(self) -> dict[str, Any]:
        return {"told": {name: dict(kinds) for name, kinds in self.told.items()}, **self.history.to_json()}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What :meth:`to_json` made. Anything else is ignored: then an alarm may be sent twice."""
        told = document.get("told") if isinstance(document, Mapping) else None
        if not isinstance(told, dict) or not all(isinstance(one, dict) for one in told.values()):
            return cls()
        try:
            return cls(told, FlowHistory.from_json(document))
        except (TypeError, ValueError, KeyError):
            return cls()

    def after(self, report: RunReport) -> Self:
        """With one more run."""
        return replace(self, history=fold(self.history, report))
