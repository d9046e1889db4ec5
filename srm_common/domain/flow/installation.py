"""Which installation runs a flow: two that run the same one take it from each other, which fencing makes harmless and
nobody wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from srm_common.domain.duration import duration

#: After so long another installation counts as given up: the flow was moved.
_REMEMBERED_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation ``id`` began run ``run_id`` on ``host`` at ``when_ms`` (epoch milliseconds)."""

    id: str
    host: str
    run_id: str
    when_ms: int

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "host": self.host, "run_id": self.run_id, "when_ms": self.when_ms}

    @classmethod
    def from_json(cls, found: Mapping[str, Any] | None) -> Self | None:
        """Read plain values; None for what is no such record, which costs one warning at most."""
        try:
            if found is None:
                return None
            return cls(str(found["id"]), str(found["host"]), str(found["run_id"]), int(found["when_ms"]))
        except (KeyError, TypeError, ValueError):
            return None


def other_installation(flow: object, last: Installation | None, own: Installation) -> str | None:
    """One sentence when another installation ran the flow before this run, None otherwise.

    A flow that was moved to a new installation is told once; one that two have enabled, at every run.
    """
    if last is None or last.id == own.id or own.when_ms - last.when_ms > _REMEMBERED_MS:
        return None
    return (
        f"installation '{last.id}' ran flow {flow} {duration(own.when_ms - last.when_ms)} ago (run '{last.run_id}' on "
        f"{last.host}), this is '{own.id}': if both have the flow enabled, disable it in one of them, since they take "
        f"it from each other"
    )
