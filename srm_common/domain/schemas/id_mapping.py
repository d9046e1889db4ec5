"""Ids assigned by the target's registry (``schemas.ids = map``): which keys and values get them, and which schemas have
to be registered for that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from srm_common.domain.flow import FlowSettings
from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.schemas.planning import (
    Place,
    SchemaAction,
    UncopiedSchema,
    in_order,
    level_changes,
    missing_references,
    subject_naming,
    wanted_schemas,
)
from srm_common.domain.schemas.schemas import RegistryView, SchemaVersion, SubjectNaming
from srm_common.domain.topics.actions import Action, Difference, action_json
from srm_common.domain.transforms.formats import Side

#: The default of ``schemas.ids.values``.
_EVERY_TOPIC = ".*"


@dataclass(frozen=True)
class IdMapping:
    """What a flow does to the ids that records begin with. Picklable.

    Args:
        naming: of the subjects that the flow copies.
        keys: topics at the source whose keys have ids; ``values`` likewise.
    """

    naming: SubjectNaming
    keys: PatternList
    values: PatternList

    @classmethod
    def of(cls, flow: FlowSettings) -> Self | None:
        """By the settings of a flow; None where ids stay."""
        if not flow.maps_schema_ids:
            return None
        return cls(subject_naming(flow), PatternList(flow.schemas_ids_keys), PatternList(flow.schemas_ids_values))

    def sides(self, topic: str) -> tuple[Side, ...]:
        """Which parts of the records of a topic begin with ids; none where its batches go unopened."""
        chosen = ((Side.KEY, self.keys), (Side.VALUE, self.values))
        return tuple(side for side, topics in chosen if topics.matching(topic) is not None)

    def unnamed(self, topic: str) -> tuple[Side, ...]:
        """Those of :meth:`sides` that only the expression for every topic chooses: numbers may look like ids there."""
        chosen = ((Side.KEY, self.keys), (Side.VALUE, self.values))
        return tuple(side for side, topics in chosen if topics.matching(topic) == _EVERY_TOPIC)


@dataclass(frozen=True)
class MapSchema(SchemaAction):
    """Register a schema as a producer does; records get the id that the registry gives it. ``schema`` is as the source
    has it, ``subject`` the name of its copy."""

    kind: ClassVar[str] = "map_schema"
    word: ClassVar[str] = "register"

    schema: SchemaVersion

    def __str__(self) -> str:
        return (
            f"register version {self.schema.version} of {self.topic} on {self.cluster} with a new id instead "
            f"of {self.schema.id} ({self.reason})"
        )

    def differences(self) -> tuple[Difference, ...]:
        return (Difference(f"{self.schema.schema_type} version {self.schema.version}", None, "a new id"),)

    def to_json(self) -> dict[str, Any]:
        after = {
            "version": self.schema.version,
            "source_id": self.schema.id,
            "type": self.schema.schema_type,
            "fingerprint": self.schema.fingerprint,
        }
        return action_json(self, None, after)


def plan_mapped(
    target: str, naming: SubjectNaming, source_view: RegistryView, target_view: RegistryView, *, own_level: bool = False
) -> list[Action]:
    """The actions by which a registry that assigns its own ids gets all schemas that the flow copies. Compatibility
    levels come first, since it checks by them. What is soft-deleted at the source is registered when a record needs it.

    A registry may have changed a schema's text, as Karapace does with Protobuf: a caller with access to the registry
    leaves out actions for what is there.
    """
    wanted = wanted_schemas(naming, source_view)
    there = {
        (schema_version.subject, _content(schema_version)): schema_version
        for schema_version in target_view.schemas.values()
    }
    places: dict[Place, Place] = {}
    mapped: list[Action] = []
    problems: dict[Place, str] = {}
    order, circle = in_order(wanted.schemas)
    for place in order:
        schema = wanted.schemas[place]
        problem = circle.get(place) or missing_references(schema, wanted, problems)
        if problem is not None:
            problems[place] = problem
            continue
        referred = [places.get((reference.subject, reference.version)) for reference in schema.references]
        copy = naming.on_target(schema)
        existing = None
        if None not in referred:
            references = tuple(
                replace(one, version=found[1])
                for one, found in zip(copy.references, referred, strict=True)
                if found is not None
            )
            existing = there.get((copy.subject, _content(replace(copy, references=references))))
        if existing is not None:
            places[place] = existing.place
        elif not schema.deleted:
            reason = wanted.reasons.get(place, f"copy of {schema.subject}")
            mapped.append(MapSchema(target, copy.subject, reason, schema))
    refused = [
        UncopiedSchema(target, naming.target_subject(subject), f"version {version}: {problem}")
        for (subject, version), problem in problems.items()
    ]
    return [*refused, *level_changes(target, naming, source_view, target_view, own_level), *mapped]


def _content(schema: SchemaVersion) -> str:
    """Not what some registries throw away."""
    return replace(schema, more=()).fingerprint
