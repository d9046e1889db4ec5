"""Schemas of the target's registry: planning changes, and applying them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from srm_common.domain.schemas.id_mapping import MapSchema, plan_mapped
from srm_common.domain.schemas.planning import (
    DeleteSchemaVersion,
    RegisterSchema,
    RestoreMode,
    SetCompatibility,
    UncopiedSchema,
    plan_schemas,
    subject_naming,
    with_known_texts,
)
from srm_common.domain.schemas.schemas import RegistryView, SchemaVersion, SubjectNaming, qualified
from srm_common.domain.topics.actions import Action, ActionResult
from srm_common.errors import ConfigError, RegistryError
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.open_cluster import OpenCluster
from srm_common.usecases.topics.import_mode import ImportMode, by_subject, interrupted_subjects, left_in_import

A = TypeVar("A", bound=Action)
#: How long reading both registries may take; a healthy one reads 20,000 subjects in that time.
_READING_SECONDS = 1800.0
#: How long a refresh may change registries. Records are copied afterwards, so they wait for it.
_CHANGING_SECONDS = 600.0
#: The modes of so many subjects are recorded at a time, before the first of them is set.
_SUBJECTS_AT_A_TIME = 10


@dataclass
class TimeLimit:
    """How long something may take, from the first time that it is asked about."""

    seconds: float = _CHANGING_SECONDS
    clock: Callable[[], float] = time.monotonic
    _ends: float | None = field(default=None, init=False)

    def over(self) -> bool:
        """Whether the time is up."""
        if self._ends is None:
            self._ends = self.clock() + self.seconds
        return self.clock() >= self._ends


def schema_changes(clusters: FlowClusters) -> list[Action]:
    """What has to change in the target's registry. Where one of the registries cannot be read, that is one action,
    which fails with the reason: topics are made ready all the same."""
    flow = clusters.flow
    naming = subject_naming(flow)
    levels, own_level = flow.schemas_compatibility != "none", flow.schemas_compatibility == "all"
    limit = TimeLimit(_READING_SECONDS)
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="srm-schemas") as pool:
        views = [
            pool.submit(
                _view, clusters.source, naming, levels, [qualified(naming.named or "", "")] if own_level else [], limit
            ),
            pool.submit(
                _view, clusters.target, None, levels, [qualified(naming.context, "")] if own_level else [], limit
            ),
        ]
        interrupted = interrupted_subjects(clusters)
        try:
            source, target = (view.result() for view in views)
        except (RegistryError, ConfigError) as error:
            return [UncopiedSchema(flow.name.target, "", str(error))]
    restored = [
        RestoreMode(flow.name.target, subject, "its registration was interrupted", mode)
        for subject, mode in sorted(interrupted.items())
    ]
    try:
        if flow.maps_schema_ids:
            planned = plan_mapped(flow.name.target, naming, source, target, own_level=own_level)
            return [*restored, *_not_there(clusters, naming, planned, limit)]
        restored += [one for one in left_in_import(clusters, naming, source, target) if one.subject not in interrupted]
        target = _as_the_source_writes(clusters, naming, source, target, limit)
        return [*restored, *plan_schemas(flow.name.target, naming, source, target, own_level=own_level)]
    except RegistryError as error:
        return [*restored, UncopiedSchema(flow.name.target, "", str(error))]


def _not_there(
    clusters: FlowClusters, naming: SubjectNaming, planned: Sequence[Action], limit: TimeLimit
) -> list[Action]:
    """Without schemas that the target's registry finds by look-up: its list may have different texts."""
    from srm_common.schema_registry.schema_ids import SchemaIds

    if not any(isinstance(action, MapSchema) for action in planned):
        return list(planned)
    left = []
    with clusters.source.schema_registry as source, clusters.target.schema_registry as target:
        ids = SchemaIds(source, target, naming)
        for action in planned:
            _check(limit, target.alias)
            if not (isinstance(action, MapSchema) and ids.is_registered(action.schema)):
                left.append(action)
    return left


def _as_the_source_writes(
    clusters: FlowClusters, naming: SubjectNaming, source: RegistryView, target: RegistryView, limit: TimeLimit
) -> RegistryView:
    """The target's contents, with the source's text of each schema that is the same to the target's registry."""
    with clusters.target.schema_registry as registry:

        def is_same(copy: SchemaVersion, there: SchemaVersion) -> bool:
            _check(limit, registry.alias)
            try:
                found = registry.lookup(replace(copy, subject=there.subject))
            except RegistryError as error:
                if error.silent:
                    raise
                return False  # a schema that the registry cannot read is none of those that it has
            return found is not None and found.id == there.id

        return with_known_texts(naming, source, target, is_same)


def _view(
    cluster: OpenCluster, naming: SubjectNaming | None, levels: bool, whole: list[str], limit: TimeLimit
) -> RegistryView:
    """The contents of a registry; on the target with the levels of every subject that may be a copy."""
    with cluster.schema_registry as registry:
        return registry.view(
            levels_of=lambda subject: levels and (naming is None or naming.is_copied(subject)),
            whole=whole,
            check_time=lambda: _check(limit, cluster.alias),
        )


def _check(limit: TimeLimit, alias: str) -> None:
    if limit.over():
        raise RegistryError(
            f"the schema registry of {alias} takes longer than {limit.seconds / 60:.0f} minutes to show its schemas; "
            f"check its log, select fewer subjects with schemas.subjects, or set schemas.compatibility = none, which "
            f"saves a request for each subject"
        )


def map_schemas(clusters: FlowClusters, actions: Sequence[MapSchema], limit: TimeLimit) -> list[ActionResult]:
    """Register as producers do, in the plan's order. One that fails does not stop the others."""
    from srm_common.schema_registry.schema_ids import SchemaIds

    with clusters.source.schema_registry as source, clusters.target.schema_registry as target:
        ids = SchemaIds(source, target, subject_naming(clusters.flow))
        return _done(actions, lambda one: ids.register(one.schema), limit)


def register_schemas(clusters: FlowClusters, actions: Sequence[RegisterSchema], limit: TimeLimit) -> list[ActionResult]:
    """Register subject by subject, and references first. One that fails does not stop the others."""
    groups = by_subject(actions)
    results: list[ActionResult] = []
    with clusters.target.schema_registry as registry, ImportMode(clusters, registry) as mode:
        for first in range(0, len(groups), _SUBJECTS_AT_A_TIME):
            some = groups[first : first + _SUBJECTS_AT_A_TIME]
            try:
                if not limit.over():
                    mode.record(group[0].subject for group in some)
            except RegistryError as error:
                results += [ActionResult(action, error=str(error)) for group in some for action in group]
                continue
            for group in some:
                results += _late(group, limit) if limit.over() else mode.register(group)
    return results


def restore_modes(clusters: FlowClusters, actions: Sequence[RestoreMode]) -> list[ActionResult]:
    """Give subjects their modes back whose registration was interrupted, if registering has not done so just now."""
    with clusters.target.schema_registry as registry, ImportMode(clusters, registry) as mode:
        return _done(actions, mode.restore, None)


def delete_versions(
    clusters: FlowClusters, actions: Sequence[DeleteSchemaVersion], limit: TimeLimit
) -> list[ActionResult]:
    """Soft-delete versions."""
    with clusters.target.schema_registry as registry:
        return _done(actions, lambda one: registry.delete_version(one.subject, one.version), limit)


def set_levels(clusters: FlowClusters, actions: Sequence[SetCompatibility], limit: TimeLimit) -> list[ActionResult]:
    """Set compatibility levels."""
    with clusters.target.schema_registry as registry:
        return _done(actions, lambda one: registry.set_level(one.subject, one.after), limit)


def _done(actions: Sequence[A], change: Callable[[A], object], limit: TimeLimit | None) -> list[ActionResult]:
    results: list[ActionResult] = []
    for action in actions:
        if limit is not None and limit.over():
            return results + _late(actions[len(results) :], limit)
        try:
            change(action)
        except RegistryError as error:
            results.append(ActionResult(action, error=str(error)))
        else:
            results.append(ActionResult(action))
    return results


def _late(actions: Sequence[Action], limit: TimeLimit) -> list[ActionResult]:
    late = (
        f"not done yet, because changing schemas has taken {limit.seconds / 60:.0f} minutes, and records wait for it; "
        f"the next refresh goes on"
    )
    return [ActionResult(action, error=late) for action in actions]
