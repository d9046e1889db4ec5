"""What the handlers of a plan's actions share while it is carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.actions import Action, ActionResult
from srm_common.kafka.admin.cluster_admin import ClusterAdmin


@dataclass
class Applying:
    """One plan being carried out.

    ``results`` are those of the kinds that came earlier; ``blocked`` are topics that must not be touched any more, with
    the reason.
    """

    flow: FlowSettings
    results: dict[Action, ActionResult] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)

    @cached_property
    def target(self) -> ClusterAdmin:
        return ClusterAdmin(self.flow.target, timeout_seconds=self.flow.admin_timeout_ms / 1000)
