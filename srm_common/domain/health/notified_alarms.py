"""Whom an alarm was told, so that it is told once when it begins and once when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from srm_common.domain.health.health import Alarm


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
