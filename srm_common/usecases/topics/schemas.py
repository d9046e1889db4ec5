"""Schemas of the target's registry: planning changes, and applying them.

To keep version and id, a subject is in mode IMPORT while its versions are registered, and then its previous mode is
restored. The previous mode is recorded first, so that the next plan restores it if the run is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from srm_common.domain.flow.names import StateKey
from srm_common.domain.schemas.id_mapping import MapSchema, plan_mapped
from srm_common.domain.schemas.planning import (
    KEEPING_IDS,
    DeleteSchemaVersion,
    RegisterSchema,
    RestoreMode,
    SetCompatibility,
    UncopiedSchema,
    plan_schemas,
    subject_naming,
)
from srm_common.domain.schemas.schemas import RegistryView, SubjectNaming, qualified
from srm_common.domain.topics.actions import Action, ActionResult
from srm_common.domain.topics.state_topics import flow_state_topic
from srm_common.errors import ConfigError, RegistryError
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.open_cluster import OpenCluster

if TYPE_CHECKING:
    from srm_common.schema_registry.registry import SchemaRegistry

A = TypeVar("A", bound=Action)
_IMPORT = "IMPORT"
#: Responses of registries that have no mode IMPORT (Karapace: 405), or do not permit setting it (Confluent: 42205).
_NO_IMPORT = frozenset({404, 405, 422, 501})


def schema_changes(clusters: FlowClusters) -> list[Action]:
    """What has to change in the target's registry. Where one of the registries cannot be read, that is one action,
    which fails with the reason: topics are made ready all the same."""
    flow = clusters.flow
    naming = subject_naming(flow)
    levels, own_level = flow.schemas_compatibility != "none", flow.schemas_compatibility == "all"
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="srm-schemas") as pool:
        views = [
            pool.submit(_view, clusters.source, naming, levels, [""] if own_level else []),
            pool.submit(_view, clusters.target, None, levels, [qualified(naming.context, "")] if own_level else []),
        ]
        interrupted: Mapping[str, str | None] = clusters.state.read(StateKey.IMPORTING) or {}
        try:
            source, target = (view.result() for view in views)
        except (RegistryError, ConfigError) as error:
            return [UncopiedSchema(flow.name.target, "", str(error))]
    restored = [
        RestoreMode(flow.name.target, subject, "its registration was interrupted", mode)
        for subject, mode in sorted(interrupted.items())
    ]
    if not flow.maps_schema_ids:
        return [*restored, *plan_schemas(flow.name.target, naming, source, target, own_level=own_level)]
    planned = plan_mapped(flow.name.target, naming, source, target, own_level=own_level)
    try:
        return [*restored, *_not_there(clusters, naming, planned)]
    except RegistryError as error:
        return [*restored, UncopiedSchema(flow.name.target, "", str(error))]


def _not_there(clusters: FlowClusters, naming: SubjectNaming, planned: Sequence[Action]) -> list[Action]:
    """Without schemas that the target's registry finds by look-up: its list may have different texts."""
    from srm_common.schema_registry.schema_ids import SchemaIds

    if not any(isinstance(action, MapSchema) for action in planned):
        return list(planned)
    with clusters.source.schema_registry as source, clusters.target.schema_registry as target:
        ids = SchemaIds(source, target, naming)
        return [one for one in planned if not (isinstance(one, MapSchema) and ids.is_registered(one.schema))]


def map_schemas(clusters: FlowClusters, actions: Sequence[MapSchema]) -> list[ActionResult]:
    """Register as producers do, in the plan's order. One that fails does not stop the others."""
    from srm_common.schema_registry.schema_ids import SchemaIds

    with clusters.source.schema_registry as source, clusters.target.schema_registry as target:
        ids = SchemaIds(source, target, subject_naming(clusters.flow))
        return [_done(action, lambda one: ids.register(one.schema)) for action in actions]


def _view(cluster: OpenCluster, naming: SubjectNaming | None, levels: bool, whole: list[str]) -> RegistryView:
    """The contents of a registry; on the target with the levels of every subject that may be a copy."""
    with cluster.schema_registry as registry:
        return registry.view(
            levels_of=lambda subject: levels and (naming is None or naming.is_copied(subject)), whole=whole
        )


def register_schemas(clusters: FlowClusters, actions: Sequence[RegisterSchema]) -> list[ActionResult]:
    """Register in the plan's order, in which references come first. One that fails does not stop the others."""
    subjects = sorted({action.subject for action in actions})
    with clusters.target.schema_registry as registry:
        known: dict[str, str | None] = clusters.state.read(StateKey.IMPORTING) or {}
        try:
            modes = {subject: known[subject] if subject in known else registry.mode(subject) for subject in subjects}
        except RegistryError as error:
            return [ActionResult(action, error=str(error)) for action in actions]
        clusters.target.ensure([flow_state_topic(clusters.flow)])
        clusters.state.write(StateKey.IMPORTING, known | modes)
        importing: set[str] = set()
        faults: dict[str, str] = {}
        unrestored: dict[str, str] = {}
        try:
            results = [_registered(registry, action, importing, faults) for action in actions]
        finally:
            for subject in sorted(importing):
                try:
                    registry.set_mode(subject, modes[subject], after_other=True)
                except RegistryError as error:
                    unrestored[subject] = f"it is registered, but its subject is still in mode {_IMPORT}: {error}"
            left = {one: mode for one, mode in (known | modes).items() if one in unrestored}
            left |= {one: mode for one, mode in known.items() if one not in importing}
            clusters.state.write(StateKey.IMPORTING, left or None)
    return [
        ActionResult(action, error=result.error or unrestored.get(action.subject))
        for action, result in zip(actions, results, strict=True)
    ]


def _registered(
    registry: SchemaRegistry, action: RegisterSchema, importing: set[str], faults: dict[str, str]
) -> ActionResult:
    subject = action.subject
    if subject not in importing and subject not in faults:
        try:
            importing.add(subject)  # the answer may be lost when it is set
            registry.set_mode(subject, _IMPORT)
        except RegistryError as error:
            if error.status in _NO_IMPORT:
                importing.discard(subject)
            faults[subject] = f"{error}{_remedy(error)}"
    if subject in faults:
        return ActionResult(action, error=faults[subject])
    return _done(action, lambda one: registry.register(one.schema))


def _remedy(error: RegistryError) -> str:
    return KEEPING_IDS if error.status in _NO_IMPORT else ""


def restore_modes(clusters: FlowClusters, actions: Sequence[RestoreMode]) -> list[ActionResult]:
    """Give subjects their modes back whose registration was interrupted, if registering has not done so just now."""
    left: dict[str, str | None] = clusters.state.read(StateKey.IMPORTING) or {}
    results = []
    with clusters.target.schema_registry as registry:
        for action in actions:
            if action.subject not in left:
                results.append(ActionResult(action))
                continue
            results.append(_done(action, lambda one: registry.set_mode(one.subject, one.mode)))
            if results[-1].error is None:
                del left[action.subject]
    clusters.state.write(StateKey.IMPORTING, left or None)
    return results


def delete_versions(clusters: FlowClusters, actions: Sequence[DeleteSchemaVersion]) -> list[ActionResult]:
    """Soft-delete versions."""
    with clusters.target.schema_registry as registry:
        return [_done(action, lambda one: registry.delete_version(one.subject, one.version)) for action in actions]


def set_levels(clusters: FlowClusters, actions: Sequence[SetCompatibility]) -> list[ActionResult]:
    """Set compatibility levels."""
    with clusters.target.schema_registry as registry:
        return [_done(action, lambda one: registry.set_level(one.subject, one.after)) for action in actions]


def _done(action: A, change: Callable[[A], object]) -> ActionResult:
    try:
        change(action)
    except RegistryError as error:
        return ActionResult(action, error=str(error))
    return ActionResult(action)
