"""The keys that say what a flow does to records: as they are written, and the flow with other ones instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.key import BadValue
from srm_common.domain.settings.layers import Entry
from srm_common.domain.settings.table import BY_NAME
from srm_common.domain.transforms.chain import CHAIN_KEYS, parse_chain, schema_formats
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.statements import parse_statements
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.explanations import has_login, is_secret
from srm_common.settings_files.sources.providers import Providers

_PARSED = (
    "transforms.python",
    "transforms.python.timeout.seconds",
    "provenance.headers",
    "copy.source.offset.in.header.enabled",
)
#: Prefixes of these keys.
TRANSFORM_KEYS = (*CHAIN_KEYS, "provenance.headers", "copy.source.offset.in.header.enabled")
#: The fields of :class:`FlowSettings` that they fill.
TRANSFORM_FIELDS = ("transforms", "statements", *(str(BY_NAME[name].field) for name in _PARSED))
_REFERENCE = "${"


def is_transform_key(key: str) -> bool:
    """Whether a key, without a level's prefix, is one of them."""
    return any(key == transform_key or key.startswith(f"{transform_key}.") for transform_key in TRANSFORM_KEYS)


def transform_keys(configuration: Configuration, name: FlowName) -> dict[str, str]:
    """The flow's, by name, as they are written: references to secrets stay references, and keys of logins and
    addresses with a login, which converters may have, are left out."""
    return {
        key: entry.value.strip()
        for key, entry in _entries(configuration, name).items()
        if not is_secret(key) and not has_login(entry.value)
    }


def with_transforms(configuration: Configuration, flow: FlowSettings, keys: Mapping[str, str]) -> FlowSettings:
    """The flow as it would be with these keys and no others of their kind.

    Raises:
        ConfigError: a key is not one of them, or its value cannot be used; the text begins with the key. A reference
            to a secret (``${...}``) is accepted only as the file has it: otherwise any secret could be read this way.
    """
    entries = _entries(configuration, flow.name)
    values: dict[str, str] = {}
    for key, text in keys.items():
        if not is_transform_key(key):
            raise ConfigError(f"{key} is not a key of transforms; known keys are {', '.join(TRANSFORM_KEYS)}")
        values[key] = text.strip()
        if _REFERENCE in text:
            entry = entries.get(key)
            if entry is None or entry.value.strip() != text.strip():
                raise ConfigError(f"{key} has a reference (${{...}}) that the file does not have there; write a value")
            values[key] = Providers.of(configuration.layers.top).resolve(entry).strip()
    fields: dict[str, Any] = {}
    for name in _PARSED:
        key_, field = BY_NAME[name], BY_NAME[name].field
        assert field is not None
        assert key_.default is not None
        try:
            fields[field] = key_.parse(values.get(name, key_.default))
        except BadValue as error:
            raise ConfigError(f"{name} {error}") from None
    try:
        fields["transforms"] = parse_chain(values) if "transforms" in values else ()
        fields["statements"] = parse_statements(values, schema_formats(fields["transforms"]))
    except TransformFault as fault:
        raise ConfigError(f"{fault.key} {fault}") from None
    both = (flow.source, flow.target)
    needing = [("transforms", cluster) for cluster in both if schema_formats(fields["transforms"])]
    needing += [(statement.key, flow.source) for statement in fields["statements"] if statement.reads_avro]
    for key, cluster in needing:
        if cluster.schema_registry is None:
            raise ConfigError(f"{key} needs {cluster.alias}.schema.registry.url, which is not set")
    return replace(flow, **fields)


def _entries(configuration: Configuration, name: FlowName) -> dict[str, Entry]:
    """The strongest entry of each key."""
    entries: dict[str, Entry] = {}
    for level in BY_NAME["transforms.*"].levels:
        scope, prefix = configuration.layers.scope(level, name)
        for written, entry in scope.items():
            key = written.removeprefix(prefix)
            if written.startswith(prefix) and is_transform_key(key):
                entries[key] = entry
    return dict(sorted(entries.items()))
