"""The other flows of a file, as far as one flow has to know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.flow_name import FlowName
from srm_common.domain.policy import ReplicationPolicy


@dataclass(frozen=True)
class GraphFlow:
    """One enabled flow of the file, with what has to be known of it by others.

    How its clusters are reached is found out when one of them is needed: their Airflow connections are no business of
    a task that has nothing to ask there.
    """

    name: FlowName
    policy: ReplicationPolicy
    #: May raise :class:`ConfigError`.
    reach_source: Callable[[], ClusterSettings] = field(repr=False, compare=False)
    reach_target: Callable[[], ClusterSettings] = field(repr=False, compare=False)
    schemas_context: str = ""

    @classmethod
    def of(
        cls,
        name: FlowName,
        policy: ReplicationPolicy,
        source: ClusterSettings,
        target: ClusterSettings,
        schemas_context: str = "",
    ) -> GraphFlow:
        """A flow whose clusters are known."""
        return cls(name, policy, lambda: source, lambda: target, schemas_context)

    @property
    def source(self) -> ClusterSettings:
        """Raises :class:`ConfigError`: it cannot be reached as written."""
        return self.reach_source().of_role(only_read=True)

    @property
    def target(self) -> ClusterSettings:
        """Raises :class:`ConfigError`: it cannot be reached as written."""
        return self.reach_target().of_role(only_read=False)
