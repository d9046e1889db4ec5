"""What the report task of a flow remembers from run to run, so that alarms need no history, and who was told what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from srm_common.domain.monitoring.loss import loss_told
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.monitoring.told_alarms import ToldAlarms
from srm_common.domain.runs.run_record import RunState


@dataclass(frozen=True, slots=True)
class AlarmMemory(ToldAlarms):
    """Times are epoch milliseconds. The ``lost`` fields are of the newest loss, which began at ``lost_since_ms`` and
    goes on (``losing``) until a good run loses nothing; ``lost_records`` is the most that one of its runs lost."""

    good_run_ended_ms: int | None = None
    failing_since_ms: int | None = None
    lag: int | None = None
    lag_before: int | None = None
    lag_over_since_ms: int | None = None
    losing: bool = False
    lost_records: int = 0
    lost_since_ms: int | None = None
    lost_text: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What :meth:`to_json` made. Of anything else nothing is remembered: then an alarm may be told twice."""
        if not isinstance(document, dict):
            return cls()
        known = {name: document[name] for name in (one.name for one in fields(cls)) if name in document}
        told = known.pop("told", None)
        kinds = {"lost_text": str}
        whole = all(value is None or isinstance(value, kinds.get(name, int)) for name, value in known.items())
        if not (whole and isinstance(told, dict) and all(isinstance(one, dict) for one in told.values())):
            return cls()
        return cls(**known, told=told)

    def after(self, report: RunReport, lag_objective_records: int | None) -> Self:
        """With one more run."""
        run, now_ms = report.run, report.reported_ms
        ended_ms = (run.finished_ms if run is not None else None) or now_ms
        good = report.fault is None and run is not None and run.state is RunState.DONE
        # Without a run nothing is known of the lag, which is no reason to call it small.
        over_since_ms = self.lag_over_since_ms if run is None else None
        if run is not None and lag_objective_records is not None and run.lag > lag_objective_records:
            over_since_ms = self.lag_over_since_ms or now_ms
        known = replace(
            self,
            good_run_ended_ms=ended_ms if good else self.good_run_ended_ms,
            failing_since_ms=None if good else self.failing_since_ms or ended_ms,
            lag=None if run is None else run.lag,
            lag_before=self.lag,
            lag_over_since_ms=over_since_ms,
            losing=self.losing and not good,
        )
        lost = 0 if run is None else sum(one.lost_records for one in run.partitions)
        if run is None or not lost:
            return known
        errors = (one.trouble for one in run.failed_partitions)
        return replace(
            known,
            losing=True,
            # A run that stands still for a loss finds the same one again each time.
            lost_records=max(lost, self.lost_records if self.losing else 0),
            lost_since_ms=self.lost_since_ms if self.losing else now_ms,
            lost_text=loss_told(errors, run.notes),
        )
