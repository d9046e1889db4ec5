"""Compares the schema registries of both sides and plans the changes to the target's. Changes nothing.

Records carry the id of their schema. So a copied schema is useful only under the same id: it is registered with the
version and the id of the source; if the target has something else there, nothing is changed and the reason is given.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from srm_common.domain.cluster import common_registries
from srm_common.domain.flow import FlowSettings
from srm_common.domain.patterns.name_filter import NameFilter
from srm_common.domain.schemas.schemas import (
    RegistryView,
    SchemaVersion,
    SubjectNaming,
    context_of,
    plain_name,
    qualified,
)
from srm_common.domain.topics.actions import Action, Difference, Job, action_json


@dataclass(frozen=True)
class SchemaAction:
    kind: ClassVar[str]
    word: ClassVar[str]
    job: ClassVar[Job] = Job.SCHEMAS

    cluster: str
    subject: str
    reason: str

    @property
    def topic(self) -> str:
        """No topic has a space in its name."""
        if plain_name(self.subject):
            return f"subject {self.subject}"
        context = context_of(self.subject)
        return f"context .{context}" if context else "all subjects"


@dataclass(frozen=True)
class RegisterSchema(SchemaAction):
    """Register a schema with the version and the id that it has at the source."""

    kind: ClassVar[str] = "register_schema"
    word: ClassVar[str] = "register"

    schema: SchemaVersion

    def __str__(self) -> str:
        return (
            f"register version {self.schema.version} of {self.topic} on {self.cluster} with id {self.schema.id} "
            f"({self.reason})"
        )

    def differences(self) -> tuple[Difference, ...]:
        return (Difference(f"{self.schema.schema_type} version {self.schema.version}", None, f"id {self.schema.id}"),)

    def to_json(self) -> dict[str, Any]:
        # Not the schema itself: plans are kept in a record of the flow's state.
        after = {
            "version": self.schema.version,
            "id": self.schema.id,
            "type": self.schema.schema_type,
            "fingerprint": self.schema.fingerprint,
            "references": [
                [reference.name, reference.subject, reference.version] for reference in self.schema.references
            ],
        }
        return action_json(self, None, after)


@dataclass(frozen=True)
class DeleteSchemaVersion(SchemaAction):
    """Soft-delete a version: it can still be looked up by its id."""

    kind: ClassVar[str] = "delete_schema_version"
    word: ClassVar[str] = "delete"

    version: int

    def __str__(self) -> str:
        return f"soft-delete version {self.version} of {self.topic} on {self.cluster} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference(f"version {self.version}", "there", "soft-deleted"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"version": self.version}, {"version": self.version, "deleted": True})


@dataclass(frozen=True)
class SetCompatibility(SchemaAction):
    """Set the compatibility level of a subject, or that of the registry."""

    kind: ClassVar[str] = "set_compatibility"
    word: ClassVar[str] = "alter"

    before: str | None
    after: str

    def __str__(self) -> str:
        before = "the registry's" if self.before is None else self.before
        return f"set the compatibility of {self.topic} on {self.cluster} from {before} to {self.after} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("compatibility", self.before, self.after),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"compatibility": self.before}, {"compatibility": self.after})


@dataclass(frozen=True)
class RestoreMode(SchemaAction):
    """End a registration that was interrupted: the subject is still in mode IMPORT, in which producers cannot
    register. ``mode`` None: it had none of its own."""

    kind: ClassVar[str] = "restore_mode"
    word: ClassVar[str] = "restore"

    mode: str | None

    def __str__(self) -> str:
        mode = "the registry's" if self.mode is None else self.mode
        return f"restore the mode of {self.topic} on {self.cluster} to {mode} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("mode", "IMPORT", "the registry's" if self.mode is None else self.mode),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"mode": "IMPORT"}, {"mode": self.mode})


@dataclass(frozen=True)
class UncopiedSchema(SchemaAction):
    """A schema that cannot be copied, or with an empty subject all of them: an action that always fails, so that
    records without a schema are not taken for complete copies."""

    kind: ClassVar[str] = "sync_schemas"
    word: ClassVar[str] = "sync schemas"

    def __str__(self) -> str:
        return f"sync schemas: {self.topic} on {self.cluster}"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("schemas", "not copied", "not copied"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, None, None)


Place = tuple[str, int]
#: What helps where a registry gives ids itself.
KEEPING_IDS = (
    "; ids can be kept only in mode IMPORT, and records are copied with the ids that they have: use a registry with "
    "this mode (Confluent's with mode.mutability=true), give it a copy of the source's topic _schemas, or set "
    "schemas.ids = map, by which records get the target's ids"
)
_ELSEWHERE = "set schemas.context, so that copies have separate ids, or exclude it with schemas.subjects.exclude"


def subject_naming(flow: FlowSettings) -> SubjectNaming:
    """Names by the settings of a flow. What other flows bring from the target has the context that they are given."""
    target = flow.name.target
    back = {
        graph_flow.schemas_context
        for graph_flow in flow.graph
        if graph_flow.name.source == target and graph_flow.schemas_context
    }
    source, there = flow.source.schema_registry, flow.target.schema_registry
    named = None if source is None else source.context
    if named is None:
        back.add(target)  # an address that names a context means it, whatever it is called
    context = copies_context(flow)
    if context and source is not None and there is not None and common_registries(source, there):
        back.add(context)
    subjects = NameFilter.of("schemas.subjects", flow.schemas_subjects, flow.schemas_subjects_exclude)
    return SubjectNaming(subjects, context, frozenset(back), named)


def copies_context(flow: FlowSettings) -> str:
    """The context of the target's registry in which the flow registers schemas: its own, or that of the address."""
    registry = flow.target.schema_registry
    own = flow.schemas_context if flow.sync_schemas else ""
    return own or (registry is not None and registry.context) or ""


@dataclass
class _Wanted:
    """Schemas of the source by (subject, version) there, and why others than the selected ones are among them."""

    schemas: dict[Place, SchemaVersion] = field(default_factory=dict)
    reasons: dict[Place, str] = field(default_factory=dict)
    #: References to what the source does not have, by what refers.
    missing: dict[Place, str] = field(default_factory=dict)


def plan_schemas(
    target: str, naming: SubjectNaming, source_view: RegistryView, target_view: RegistryView, *, own_level: bool = False
) -> list[Action]:
    """What makes the target's registry have all schemas that the flow copies.

    Args:
        target: alias of the target.
        own_level: copy the registry's own compatibility level, too.
    """
    wanted = wanted_schemas(naming, source_view)
    ids: dict[tuple[str, int], SchemaVersion] = {}
    for there in target_view.schemas.values():
        ids.setdefault((context_of(there.subject), there.id), there)
    registered: list[Action] = []
    deleted: list[Action] = []
    problems: dict[Place, str] = {}
    order, circle = in_order(wanted.schemas)
    for place in order:
        schema = wanted.schemas[place]
        copy = naming.on_target(schema)
        existing = target_view.schemas.get(copy.place)
        problem = (
            circle.get(place)
            or missing_references(schema, wanted, problems)
            or _conflict(copy, existing, ids.get((context_of(copy.subject), copy.id)))
        )
        if problem is not None:
            if not _is_there(copy, target_view):
                problems[place] = problem
            continue
        if existing is None or (existing.deleted and not copy.deleted):
            if not target_view.contexts:
                problems[place] = f"the schema registry of {target} has no mode IMPORT{KEEPING_IDS}"
                continue
            reason = wanted.reasons.get(place, f"copy of {schema.subject}")
            registered.append(RegisterSchema(target, copy.subject, reason, copy))
            ids[context_of(copy.subject), copy.id] = copy
        if copy.deleted and (existing is None or not existing.deleted):
            deleted.append(DeleteSchemaVersion(target, copy.subject, "soft-deleted at the source", copy.version))
    refused = [
        UncopiedSchema(target, naming.target_subject(subject), f"version {version}: {problem}")
        for (subject, version), problem in problems.items()
    ]
    # A schema that others refer to can only be deleted when these are registered.
    return [*refused, *registered, *deleted[::-1], *level_changes(target, naming, source_view, target_view, own_level)]


def with_known_texts(
    naming: SubjectNaming,
    source_view: RegistryView,
    target_view: RegistryView,
    is_same: Callable[[SchemaVersion, SchemaVersion], bool],
) -> RegistryView:
    """The target's view, with the text of the source where a schema of the same id is the same in other words: each
    version of a registry writes Protobuf, for one, in its own way when it stores it.

    Args:
        is_same: whether the target's registry takes a copy for the schema that it has.
    """
    ids: dict[tuple[str, int], list[Place]] = {}
    for there in target_view.schemas.values():
        ids.setdefault((context_of(there.subject), there.id), []).append(there.place)
    schemas = dict(target_view.schemas)
    for schema in wanted_schemas(naming, source_view).schemas.values():
        copy = naming.on_target(schema)
        for place in ids.get((context_of(copy.subject), copy.id), ()):
            there = schemas[place]
            if there.fingerprint != copy.fingerprint and is_same(copy, there):
                schemas[place] = replace(there, schema=copy.schema, references=copy.references, more=copy.more)
    return replace(target_view, schemas=schemas)


def wanted_schemas(naming: SubjectNaming, source: RegistryView) -> _Wanted:
    """What is selected, and what that refers to, however far."""
    wanted = _Wanted({place: one for place, one in source.schemas.items() if naming.is_copied(one.subject)})
    left = list(wanted.schemas.values())
    while left:
        schema = left.pop()
        for reference in schema.references:
            place = (reference.subject, reference.version)
            if place in wanted.schemas:
                continue
            referred = source.schemas.get(place)
            if referred is None:
                wanted.missing[schema.place] = (
                    f"id {schema.id} refers to version {reference.version} of {reference.subject}, which the source's "
                    f"registry does not have"
                )
                continue
            wanted.schemas[place] = referred
            wanted.reasons[place] = f"version {schema.version} of {schema.subject} refers to it"
            left.append(referred)
    return wanted


def in_order(schemas: Mapping[Place, SchemaVersion]) -> tuple[list[Place], dict[Place, str]]:
    """References before what refers to them, and versions of a subject in their order as far as that allows; and why
    a schema that refers to itself over others cannot be registered at all."""
    references = {
        place: {(reference.subject, reference.version) for reference in schema.references} & schemas.keys()
        for place, schema in schemas.items()
    }
    by_subject: dict[str, list[int]] = {}
    for subject, version in sorted(schemas):
        by_subject.setdefault(subject, []).append(version)
    earlier = {
        (subject, later): {(subject, version)}
        for subject, versions in by_subject.items()
        for version, later in itertools.pairwise(versions)
    }
    try:
        return list(_sorted({place: before | earlier.get(place, set()) for place, before in references.items()})), {}
    except graphlib.CycleError:
        pass
    broken: dict[Place, str] = {}
    while True:
        try:
            return [*_sorted(references), *broken], broken
        except graphlib.CycleError as error:
            circle: list[Place] = error.args[1]
            names = ", ".join(f"{subject} {version}" for subject, version in circle)
            broken |= dict.fromkeys(circle, f"schemas refer to each other in a circle ({names})")
            references = {place: before - set(circle) for place, before in references.items() if place not in broken}


def _sorted(before: Mapping[Place, set[Place]]) -> Iterator[Place]:
    """Always the same order for the same schemas. Raises graphlib.CycleError."""
    sorter = graphlib.TopologicalSorter(before)
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield from ready
        sorter.done(*ready)


def missing_references(schema: SchemaVersion, wanted: _Wanted, problems: Mapping[Place, str]) -> str | None:
    if schema.place in wanted.missing:
        return wanted.missing[schema.place]
    for reference in schema.references:
        if (reference.subject, reference.version) in problems:
            named = f"version {reference.version} of {reference.subject}"
            return f"id {schema.id} refers to {named}, which is not copied either"
    return None


def _conflict(copy: SchemaVersion, existing: SchemaVersion | None, same_id: SchemaVersion | None) -> str | None:
    """Why the target cannot have this schema under this version and id, None when it can or does."""
    if existing is not None and existing.fingerprint != copy.fingerprint:
        return (
            f"the target has another schema as this version (id {existing.id}; the source's has id {copy.id}); "
            f"{_ELSEWHERE}"
        )
    if existing is not None and existing.id != copy.id:
        return f"records refer to it by id {copy.id}, and the target has it with id {existing.id}; {_ELSEWHERE}"
    if same_id is not None and same_id.fingerprint != copy.fingerprint:
        return (
            f"its id {copy.id} belongs to another schema on the target (version {same_id.version} of "
            f"{same_id.subject}); {_ELSEWHERE}"
        )
    return None


def _is_there(copy: SchemaVersion, target: RegistryView) -> bool:
    """Whether the subject has the same schema with the same id as another version, which is all that records need."""
    return any(
        schema.subject == copy.subject
        and schema.id == copy.id
        and schema.fingerprint == copy.fingerprint
        and not schema.deleted
        for schema in target.schemas.values()
    )


def level_changes(
    target: str, naming: SubjectNaming, source: RegistryView, there: RegistryView, own_level: bool
) -> Iterable[Action]:
    for subject in source.subjects:
        level, copy = source.levels.get(subject), naming.target_subject(subject)
        if level is not None and naming.is_copied(subject) and there.levels.get(copy) != level:
            yield SetCompatibility(target, copy, f"as {subject}", there.levels.get(copy), level)
    own, place = source.levels.get(qualified(naming.named or "", "")), qualified(naming.context, "")
    if own_level and own is not None and there.levels.get(place) != own:
        yield SetCompatibility(target, place, "as the source's registry", there.levels.get(place), own)
