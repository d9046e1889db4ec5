"""Look at both schema registries, and plan what the target's needs. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from srm_common.domain.schemas.planning import plan_schemas, subject_naming
from srm_common.domain.schemas.schema_actions import RestoreMode, UncopiedSchema
from srm_common.domain.schemas.schemas import RegistryView, SubjectNaming, qualified
from srm_common.domain.topics.actions import Action
from srm_common.errors import ConfigError, RegistryError
from srm_common.usecases.flows.flow_clusters import FlowCluster, FlowClusters

#: In the flow's state: subjects that are in mode IMPORT for the time of a registration, with the mode that each had.
IMPORTING = "schemas.importing"


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
        interrupted: Mapping[str, str | None] = clusters.state.read(IMPORTING) or {}
        try:
            source, target = (view.result() for view in views)
        except (RegistryError, ConfigError) as error:
            return [UncopiedSchema(flow.name.target, "", str(error))]
    restored = [
        RestoreMode(flow.name.target, subject, "its registration was interrupted", mode)
        for subject, mode in sorted(interrupted.items())
    ]
    return [*restored, *plan_schemas(flow.name.target, naming, source, target, own_level=own_level)]


def _view(cluster: FlowCluster, naming: SubjectNaming | None, levels: bool, whole: list[str]) -> RegistryView:
    """What a registry holds; on the target, levels of every subject are asked for that may be a copy."""
    with cluster.schema_registry as registry:
        return registry.view(
            levels_of=lambda subject: levels and (naming is None or naming.is_copied(subject)), whole=whole
        )
