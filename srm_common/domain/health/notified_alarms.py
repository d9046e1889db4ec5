"""Which notifiers were called for an alarm: when it is raised, when it is worse than they said, and when it is
resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, Self, TypeVar

from srm_common.domain.health.health import Alarm, AlarmKind, Severity
from srm_common.domain.monitoring.flow_history import NO_RUNS, FlowHistory
from srm_common.domain.monitoring.folding import fold
from srm_common.domain.monitoring.run_report import RunReport

T = TypeVar("T")

#: An alarm that has news all the time, such as a loss that goes on, is not sent more often.
_AGAIN_MS = 3_600_000


class Sent(NamedTuple):
    """What an alarm was when a notifier sent it last, at ``at_ms`` (epoch milliseconds)."""

    severity: str
    news: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class NotifiedAlarms:
    """``told`` has, by notifier and kind of alarm, the text of alarms that the notifier has sent and that are not
    resolved yet; ``sent`` has what else is known of them, which is nothing if an earlier version sent them
    (:meth:`with_earlier`). It has one writer at a time: two could send the same alarm."""

    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sent: Mapping[str, Mapping[str, Sent]] = field(default_factory=dict)

    def unsent(
        self, notifier: str, alarms: Iterable[Alarm], now_ms: int, *, informed: bool = True
    ) -> tuple[list[Alarm], dict[str, str]]:
        """Alarms that the notifier has not sent yet, or not as bad as they are; and texts of those that are resolved,
        by kind.

        ``informed`` False: too little is known to call an alarm resolved.
        """
        told, sent = self.told.get(notifier, {}), self.sent.get(notifier, {})
        raised = {alarm.kind.value: alarm for alarm in alarms}
        new = [alarm for kind, alarm in raised.items() if kind not in told or _worse(alarm, sent.get(kind), now_ms)]
        return new, {kind: text for kind, text in told.items() if informed and kind not in raised}

    def limited_to(self, notifiers: Iterable[str]) -> Self:
        """Without other notifiers, such as those removed from the file."""
        names = set(notifiers)
        told = {name: kinds for name, kinds in self.told.items() if name in names}
        return replace(self, told=told, sent={name: kinds for name, kinds in self.sent.items() if name in names})

    def with_earlier(self, alarms: Iterable[Alarm]) -> Self:
        """With something to compare ``alarms`` with where an earlier version sent them, which kept only the text."""
        found = self
        for alarm, (notifier, told) in product(alarms, self.told.items()):
            kind = alarm.kind.value
            if kind in told and kind not in self.sent.get(notifier, {}):
                # Rather sent twice than never: it may have been a warning.
                severity = Severity.WARNING if alarm.kind is AlarmKind.CERTIFICATE_EXPIRY else alarm.severity
                news = told[kind] if alarm.news == alarm.text else alarm.news
                found = found._with_sent(notifier, kind, Sent(severity.value, news, 0))
        return found

    def mark_notified(self, notifier: str, alarm: Alarm, now_ms: int) -> Self:
        """The notifier has sent it."""
        kind, sent = alarm.kind.value, Sent(alarm.severity.value, alarm.news, now_ms)
        told = {**self.told, notifier: {**self.told.get(notifier, {}), kind: alarm.text}}
        return replace(self, told=told)._with_sent(notifier, kind, sent)

    def mark_resolved(self, notifier: str, kind: str) -> Self:
        """The notifier has sent that it is."""
        return replace(self, told=_without(self.told, notifier, kind), sent=_without(self.sent, notifier, kind))

    def _with_sent(self, notifier: str, kind: str, sent: Sent) -> Self:
        return replace(self, sent={**self.sent, notifier: {**self.sent.get(notifier, {}), kind: sent}})

    def notified_json(self) -> dict[str, Any]:
        """What ``json.dumps`` takes, for :meth:`read_notified`."""
        sent = {name: {kind: list(one) for kind, one in kinds.items()} for name, kinds in self.sent.items()}
        return {"told": {name: dict(kinds) for name, kinds in self.told.items()}, "sent": sent}

    @staticmethod
    def read_notified(document: Any) -> NotifiedAlarms | None:
        """None if it is of another form."""
        told = document.get("told") if isinstance(document, Mapping) else None
        if not isinstance(told, dict) or not all(isinstance(one, dict) for one in told.values()):
            return None
        try:
            sent = {
                name: {kind: Sent(str(severity), str(news), int(at)) for kind, (severity, news, at) in kinds.items()}
                for name, kinds in document.get("sent", {}).items()
            }
        except (AttributeError, TypeError, ValueError):
            sent = {}
        return NotifiedAlarms(told, sent)


def _worse(alarm: Alarm, sent: Sent | None, now_ms: int) -> bool:
    if sent is None:
        return False
    if alarm.severity is Severity.CRITICAL and sent.severity != alarm.severity.value:
        return True
    return alarm.news != sent.news and now_ms - sent.at_ms >= _AGAIN_MS


def _without(known: Mapping[str, Mapping[str, T]], notifier: str, kind: str) -> dict[str, Mapping[str, T]]:
    left = {**known, notifier: {other: one for other, one in known.get(notifier, {}).items() if other != kind}}
    return {name: kinds for name, kinds in left.items() if kinds}


# What the report task of a flow keeps from run to run, so that alarms need no store.


@dataclass(frozen=True, slots=True)
class AlarmMemory(NotifiedAlarms):
    """The flow's history from its own reports, stored with what was sent."""

    history: FlowHistory = NO_RUNS

    def to_json(self) -> dict[str, Any]:
        return {**self.notified_json(), **self.history.to_json()}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What :meth:`to_json` made. Anything else is ignored: then an alarm may be sent twice."""
        notified = cls.read_notified(document)
        if notified is None:
            return cls()
        try:
            return cls(notified.told, notified.sent, FlowHistory.from_json(document))
        except (TypeError, ValueError, KeyError):
            return cls()

    def after(self, report: RunReport, now_ms: int | None = None) -> Self:
        """With one more run; ``now_ms`` as in :func:`fold`."""
        return replace(self, history=fold(self.history, report, now_ms))
