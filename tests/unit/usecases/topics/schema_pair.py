"""A flow between clusters with a schema registry each."""

from __future__ import annotations

from dataclasses import replace

from srm_common.domain.cluster import RegistrySettings
from srm_common.domain.flow import FlowName
from srm_common.domain.plans.plan import Plan
from srm_common.testing import LocalRegistry
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.unit.usecases.fakes import Sides

AVRO = '{"type": "record", "name": "Order", "fields": []}'


class Pair:
    """A flow ``a->b`` whose clusters have a registry each."""

    def __init__(self, sides: Sides, source: LocalRegistry, target: LocalRegistry) -> None:
        self.sides, self.source, self.target = sides, source, target
        self.connect()
        sides.set(sync_schemas=True)

    def connect(self) -> None:
        flow = self.sides.flow
        self.sides.set(
            source=replace(flow.source, schema_registry=RegistrySettings((self.source.url,))),
            target=replace(flow.target, schema_registry=RegistrySettings((self.target.url,))),
        )
        self.sides.close()

    def plan(self) -> list[str]:
        return texts(plan_topics(self.sides.clusters()))

    def copy(self) -> list[str]:
        """The faults of a refresh."""
        return [str(result.error) for result in self.sides.refresh().results if result.error is not None]

    def turned(self) -> Pair:
        """The same in the other direction."""
        other = Sides(self.sides.target, self.sides.source)
        flow = self.sides.flow
        other.set(name=FlowName("b", "a"), source=flow.target, target=flow.source)
        return Pair(other, self.target, self.source)


def texts(plan: Plan) -> list[str]:
    return [str(action) for action in plan.actions if " subject" in str(action)]
