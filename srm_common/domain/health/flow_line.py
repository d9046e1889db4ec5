"""The health of a flow in one line of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from srm_common.domain.amount import Amount
from srm_common.domain.health.health import Alarm, Health, HealthState

URGENCY = {state: rank for rank, state in enumerate(HealthState)}


@dataclass(frozen=True, slots=True)
class FlowLine:
    """Figures are None where they are not known. ``byte_rate`` and ``record_rate`` are per second of copying,
    ``latency_ms`` the average from a record's timestamp to its commit; ``latency_percentiles_ms`` what 50, 95 and 99
    of 100 records did not exceed. ``reported_ms``: when they were taken, in epoch milliseconds. ``lag`` and
    ``behind_ms``, how old the oldest record is that is not copied, were taken at ``lag_ms``; ``lag_fault`` says why
    nothing newer is known. ``asked``: who told the others, None where nobody could."""

    flow: str
    health: Health
    alarms: tuple[Alarm, ...] = ()
    lag: Amount | None = None
    byte_rate: float | None = None
    record_rate: float | None = None
    latency_ms: float | None = None
    partitions: int | None = None
    failed_partitions: int | None = None
    reported_ms: int | None = None
    asked: Literal["history", "clusters"] | None = None
    lag_ms: int | None = None
    behind_ms: float | None = None
    lag_fault: str | None = None
    latency_percentiles_ms: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def urgent(self) -> bool:
        """Whether somebody has to do something for the flow to copy everything again."""
        return self.health.state in (HealthState.LOST_DATA, HealthState.FAILING, HealthState.STALLED)

    def to_json(self) -> dict[str, Any]:
        """``lag`` is null where it is not known for certain; ``lag_bounds`` has what is known."""
        bounds = None if self.lag is None else self.lag.to_json()
        return {**asdict(self), "lag": None if self.lag is None else self.lag.most, "lag_bounds": bounds}


def by_urgency(line: FlowLine) -> tuple[int, str]:
    """To sort by: flows in the worst state first."""
    return URGENCY[line.health.state], line.flow
