"""Findings about a configuration: faults, warnings and notes, each one sentence with its file and line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from srm_common.domain.cluster import ClusterSettings, common_registries
from srm_common.domain.flow import FlowName
from srm_common.domain.policy import DefaultReplicationPolicy, ReplicationPolicy
from srm_common.domain.settings.layers import Entry, Layers
from srm_common.domain.settings.table import BY_NAME
from srm_common.domain.transforms.chain import schema_formats
from srm_common.domain.transforms.formats import WITH_REGISTRY
from srm_common.errors import ConfigError


class Severity(StrEnum):
    """A fault stops a flow or everything; a warning is probably not what was meant; a note explains."""

    FAULT = "fault"
    WARNING = "warning"
    NOTE = "note"


class FindingCode(StrEnum):
    """What a finding is about, for programs; its sentence is for people and may be reworded."""

    INVALID = "invalid"
    UNKNOWN_KEY = "unknown_key"
    NO_EFFECT = "no_effect"
    REDUNDANT = "redundant"
    RENAMED_KEY = "renamed_key"
    TWO_ADDRESSES = "two_addresses"
    NO_FLOW = "no_flow"
    UNUSED_CLUSTER = "unused_cluster"
    SAME_CLUSTER = "same_cluster"
    MIXED_POLICIES = "mixed_policies"
    PUSH_MODE = "push_mode"
    OTHER_INSTALLATION = "other_installation"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence. ``flow`` is None where it is not about one flow; ``key`` is empty where it is about no key."""

    severity: Severity
    code: FindingCode
    text: str
    place: str = ""
    key: str = ""
    flow: FlowName | None = None

    @classmethod
    def about(
        cls, severity: Severity, code: FindingCode, entry: Entry, text: str, flow: FlowName | None = None
    ) -> Finding:
        return cls(severity, code, text, entry.place, entry.written, flow)

    @classmethod
    def fault(cls, error: ConfigError, flow: FlowName | None = None) -> Finding:
        place = "" if error.file is None else error.file if error.line is None else f"{error.file}:{error.line}"
        return cls(Severity.FAULT, FindingCode.INVALID, error.reason, place, "", flow)

    def __str__(self) -> str:
        sentence = f"{self.key} {self.text}" if self.key else self.text
        return f"{self.place}: {sentence}" if self.place else sentence

    def to_json(self) -> dict[str, str | None]:
        return {
            "severity": self.severity.value,
            "place": self.place or None,
            "key": self.key or None,
            "flow": str(self.flow) if self.flow else None,
            "text": self.text,
        }


#: Close enough to be a typo.
_SIMILAR = 0.75


def nearest_name(name: str, known: Collection[str]) -> str | None:
    """The name that was probably meant, None when nothing looks like it."""
    plain = name.lower().replace("_", ".")
    if plain in known:
        return plain
    _, dot, rest = plain.partition(".")
    if dot and rest in known:
        return rest
    return next(iter(difflib.get_close_matches(plain, known, n=1, cutoff=_SIMILAR)), None)


# What is wrong with a pair of clusters although each key of the flow is right by itself.


def at_entry(entry: Entry | None, reason: str) -> ConfigError:
    """An error about one entry: its key, then the reason."""
    if entry is None:
        return ConfigError(reason)
    return ConfigError(f"{entry.written} {reason}", file=entry.file, line=entry.line or None)


def pair_faults(
    layers: Layers, name: FlowName, source: ClusterSettings, target: ClusterSettings, policy: ReplicationPolicy
) -> list[ConfigError]:
    """Faults of a flow beyond those of its single keys."""
    found = (_separator(layers, name, policy), _one_cluster(layers, name, source, target))
    return [fault for fault in found if fault is not None]


#: Without dots: they join the contexts that a schema has come through.
_CONTEXT = re.compile(r"[A-Za-z0-9_-]+")


def registry_faults(
    layers: Layers,
    name: FlowName,
    source: ClusterSettings,
    target: ClusterSettings,
    values: Mapping[str, Any],
    transforms: Mapping[str, Any],
) -> list[ConfigError]:
    """Faults of the schema registries of a flow that copies schemas, or whose transforms or statements need one."""
    found = []
    needing = [("sync.schemas.enabled", "")] if values.get("sync.schemas.enabled") else []
    needing += [
        ("transforms", f"asks for fields of {WITH_REGISTRY[schema_format]}, which ")
        for schema_format in schema_formats(transforms.get("transforms", ()))
    ]
    asking: list[tuple[Entry | None, str, tuple[ClusterSettings, ...]]] = [
        (layers.find(BY_NAME[key], name).entry, what, (source, target)) for key, what in needing
    ]
    levels = BY_NAME["transforms"].levels
    asking += [
        (layers.strongest(statement.key, name, levels), "reads avro, which ", (source,))
        for statement in transforms.get("statements", ())
        if statement.reads_avro
    ]
    for on, what, clusters in asking:
        assert on is not None
        for cluster in clusters:
            # Without an alias its settings are a fault of their own; without an address they are Airflow's.
            if cluster.alias and cluster.schema_registry is None and cluster.kafka_python:
                found.append(at_entry(on, f"{what}needs {cluster.alias}.schema.registry.url, which is not set"))
    if not values.get("sync.schemas.enabled"):
        mapping = layers.find(BY_NAME["schemas.ids"], name).entry
        if mapping is not None and values.get("schemas.ids") == "map":
            found.append(at_entry(mapping, "needs sync.schemas.enabled = true, which gives schemas ids at the target"))
        return found
    context = values.get("schemas.context", "")
    on = layers.find(BY_NAME["sync.schemas.enabled"], name).entry
    assert on is not None
    one, other = source.schema_registry, target.schema_registry
    if one is not None and other is not None and (context or other.context or "") == (one.context or ""):
        found += [
            at_entry(
                on,
                f"asks to copy the registry {common} to itself: {name.source} and {name.target} both have it as "
                f"schema.registry.url; set another one, or turn this off if both clusters share a registry",
            )
            for common in common_registries(one, other)[:1]
        ]
    entry = layers.find(BY_NAME["schemas.context"], name).entry
    if entry is not None and context and not _CONTEXT.fullmatch(context):
        found.append(at_entry(entry, f"must be a name such as 'east', without dots and colons, but is '{context}'"))
    return found


def common_addresses(one: ClusterSettings, other: ClusterSettings) -> tuple[str, ...]:
    """Addresses that both name; a broker belongs to one cluster, so any of them makes the two the same."""
    return tuple(sorted(addresses(one) & addresses(other)))


def addresses(cluster: ClusterSettings) -> set[str]:
    """Where a cluster's brokers are, as the file names them."""
    return {server.strip().lower() for server in cluster.confluent.get("bootstrap.servers", "").split(",")} - {""}


def _separator(layers: Layers, name: FlowName, policy: ReplicationPolicy) -> ConfigError | None:
    """A prefix that contains the separator can be read in two ways: as one cluster or as a chain of two."""
    if type(policy) is not DefaultReplicationPolicy:  # the others keep names as they are, or are the user's own
        return None
    separator = policy.separator
    for alias in (name.source, name.target):
        if separator in alias:
            return at_entry(
                layers.top["clusters"],
                f"contains '{alias}', and '{separator}' also separates aliases from topic names; rename the alias or "
                f"set replication.policy.separator to something that no alias contains",
            )
    return None


def _one_cluster(
    layers: Layers, name: FlowName, source: ClusterSettings, target: ClusterSettings
) -> ConfigError | None:
    common = common_addresses(source, target)
    if not common:
        return None
    reason = f"flow {name} leads from a cluster to itself: '{name.source}' and '{name.target}' both have {common[0]}"
    entry = layers.clusters[name.target].get("bootstrap.servers")
    return ConfigError(reason, file=entry.file, line=entry.line) if entry else ConfigError(reason)


def stranger_faults(layers: Layers) -> dict[FlowName, ConfigError]:
    """Enabled flows with an alias that ``clusters`` does not name."""
    found: dict[FlowName, ConfigError] = {}
    for name, scope in layers.strangers.items():
        entry = scope.get("enabled")
        if entry is not None and entry.value.strip().lower() == "true":
            alias = name.source if name.source not in layers.clusters else name.target
            known = ", ".join(layers.aliases)
            found[name] = at_entry(entry, f"'{alias}' is not one of the clusters ({known})")
    return found


def dag_id_faults(layers: Layers, names: Collection[FlowName]) -> dict[FlowName, ConfigError]:
    """Flows whose DAG would have the id of another one's, as aliases may contain dots.

    The id belongs to the flow of known clusters that is enabled, of several such to the first in the file. Whether
    other keys of it are wrong does not matter: the id, with the history under it, must not change hands by a typo.
    """

    def claim(name: FlowName) -> bool:
        entry = layers.find(BY_NAME["enabled"], name).entry
        return name in layers.flows and entry is not None and entry.value.strip().lower() != "false"

    owners: dict[str, FlowName] = {}
    found: dict[FlowName, ConfigError] = {}
    for name in sorted(names, key=claim, reverse=True):
        owner = owners.setdefault(name.dag_id, name)
        if owner != name:
            scope = layers.flows.get(name) or layers.strangers[name]
            entry = scope.get("enabled") or next(iter(scope.values()))
            found[name] = at_entry(
                entry,
                f"is about flow {name}, which would have the same DAG id as {owner}, {name.dag_id}; rename an alias",
            )
    return found


def one_fault(faults: list[ConfigError]) -> ConfigError:
    """The first fault, with the others in its message; each once."""
    first, *rest = {str(fault): fault for fault in faults}.values()
    if not rest:
        return first
    others = [
        f"line {fault.line}: {fault.reason}" if fault.line and fault.file == first.file else str(fault)
        for fault in rest
    ]
    together = ConfigError(f"{first.reason} (and {'; '.join(others)})", file=first.file, line=first.line)
    together.parts = (first, *rest)
    return together
