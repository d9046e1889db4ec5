"""The policy that ``replication.policy.class`` names: one of those shipped, or a class of the user's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from srm_common.domain.flow import FlowName
from srm_common.domain.policy import (
    POLICY_METHODS,
    SHIPPED_POLICIES,
    DefaultReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.errors import ConfigError

#: Where the shipped policies, or those of the same behaviour, lie: here, in Kafka and in Cloudera's examples.
_SHIPPED_IN = frozenset({"", "srm_common.domain.policy", "org.apache.kafka.connect.mirror", "com.cloudera.dim.mirror"})


def policy_of(
    written: str, separator: str, separator_in_internal_names: bool, flow: FlowName, settings: Mapping[str, str]
) -> ReplicationPolicy:
    """The policy of one flow.

    A class of the user's own is made without arguments. Where it has a method ``configure``, that is called once with
    a mapping of text: ``source.cluster.alias``, ``target.cluster.alias`` and every key of ``settings``.

    Args:
        written: the value of ``replication.policy.class``.
        settings: the keys that begin with ``replication.policy.``, as the flow sees them.

    Raises:
        ConfigError: the class cannot be imported, made or configured, or lacks methods; the message has no file, line
            or key.
    """
    module, _, name = written.rpartition(".")
    if name in SHIPPED_POLICIES and module in _SHIPPED_IN:
        kind = SHIPPED_POLICIES[name]
        if kind is DefaultReplicationPolicy:
            return kind(separator, separator_in_internal_names)
        return kind(separator, separator_in_internal_names, flow.source)  # type: ignore[call-arg]
    return _users(written, module, name, {**settings, **_aliases(flow)})


def _users(written: str, module: str, name: str, settings: Mapping[str, str]) -> ReplicationPolicy:
    kind = _imported(written, module, name)
    missing = [method for method in POLICY_METHODS if not callable(getattr(kind, method, None))]
    if missing:
        raise ConfigError(f"'{written}' lacks {', '.join(missing)}; docs/policies.md lists what a policy must have")
    try:
        policy = kind()
        configure = getattr(policy, "configure", None)
        if callable(configure):
            configure(dict(settings))
    except Exception as error:  # a third-party class may raise anything
        raise ConfigError(f"'{written}' cannot be instantiated: {type(error).__name__}: {error}") from error
    if not isinstance(policy, ReplicationPolicy):
        raise ConfigError(f"'{written}' makes a {type(policy).__name__}, which is not a policy")
    return policy


def _imported(written: str, module: str, name: str) -> type:
    if not module:
        raise ConfigError(
            f"there is no policy '{written}'; use {', '.join(SHIPPED_POLICIES)}, or the dotted path of a Python class"
        )
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # an import runs third-party code
        missing = isinstance(error, ModuleNotFoundError) and error.name and (module + ".").startswith(error.name + ".")
        reason = (
            f"there is no Python module '{error.name}' here (Java classes are not loaded)"  # type: ignore[attr-defined]
            if missing
            else f"{type(error).__name__}: {error}"
        )
        raise ConfigError(
            f"'{written}' cannot be imported: {reason}; use {', '.join(SHIPPED_POLICIES)}, or the dotted path of a "
            f"Python class that is installed wherever the flow is planned and driven"
        ) from error
    if found is None:
        raise ConfigError(f"module '{module}' has no '{name}'")
    if not isinstance(found, type):
        raise ConfigError(f"'{written}' is not a class")
    return found


def _aliases(flow: FlowName) -> dict[str, str]:
    return {"source.cluster.alias": flow.source, "target.cluster.alias": flow.target}
