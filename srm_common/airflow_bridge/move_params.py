"""What an operator chose for one move, out of a DAG run's params."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srm_common.domain.flow import FlowName
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest


@dataclass(frozen=True, slots=True)
class MoveParams:
    """``flow`` is the one whose groups were, or are to be, at its source. ``approved``: without asking for approval."""

    flow: FlowName
    request: MoveRequest
    approved: bool = False

    @property
    def opposite(self) -> FlowName:
        return FlowName(self.flow.target, self.flow.source)

    @property
    def copying(self) -> FlowName:
        """The flow along which groups move; a failback goes against the one that it is asked for."""
        return self.opposite if self.request.kind is MoveKind.FAILBACK else self.flow

    @classmethod
    def of(cls, kind: MoveKind, params: Mapping[str, Any]) -> MoveParams:
        """``params`` of the task's context, checked by Airflow against their schemas."""
        groups = tuple(name for line in params.get("groups") or () if (name := line.strip()))
        return cls(
            flow=FlowName.parse(params["flow"]),
            request=MoveRequest(
                kind=kind,
                mode=MoveMode(params["mode"]),
                # An empty field of the form is the same as none.
                groups=groups or None,
                dry_run=bool(params["dry_run"]),
                wait_seconds=float(params["wait_seconds"]),
            ),
            approved=bool(params["approved"]),
        )
