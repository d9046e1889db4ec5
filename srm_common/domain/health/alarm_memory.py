"""What the report task of a flow remembers from run to run, so that alarms need no store, and who was told what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from srm_common.domain.health.notified_alarms import ToldAlarms
from srm_common.domain.monitoring.flow_history import NO_RUNS, FlowHistory, fold
from srm_common.domain.monitoring.run_report import RunReport


@dataclass(frozen=True, slots=True)
class AlarmMemory(ToldAlarms):
    """The flow's history as its own reports make it, kept beside who was told."""

    history: FlowHistory = NO_RUNS

    def to_json(self) -> dict[str, Any]:
        return {"told": {name: dict(kinds) for name, kinds in self.told.items()}, **self.history.to_json()}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What :meth:`to_json` made. Of anything else nothing is remembered: then an alarm may be told twice."""
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
