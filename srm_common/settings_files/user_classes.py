"""Python classes that the configuration names: the policy of ``replication.policy.class``, shipped or the user's own,
and the filters of ``topic.filter.class`` and the like."""

from __future__ import annotations

import hashlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.policy import (
    POLICY_METHODS,
    SHIPPED_POLICIES,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.errors import ConfigError

#: Where the shipped policies, or those of the same behaviour, lie: here, in Kafka and in Cloudera's examples.
_SHIPPED_IN = frozenset({"", "srm_common.domain.policy", "org.apache.kafka.connect.mirror", "com.cloudera.dim.mirror"})
#: What a key may name besides a class that cannot be loaded.
_OTHERWISE = f"{', '.join(SHIPPED_POLICIES)}, or the dotted path of a Python class"


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
        if issubclass(kind, IdentityReplicationPolicy | MigratingReplicationPolicy):
            return kind(separator, separator_in_internal_names, flow.source)
        return kind(separator, separator_in_internal_names)
    return _own_policy(written, {**settings, **_aliases(flow)})


def _own_policy(written: str, settings: Mapping[str, str]) -> ReplicationPolicy:
    if "." not in written:
        raise ConfigError(f"there is no policy '{written}'; use {_OTHERWISE}")
    kind = _load(written, f"{_OTHERWISE} that is installed wherever the flow is planned and driven")
    if not isinstance(kind, type):
        raise ConfigError(f"'{written}' is not a class")
    missing = [method for method in POLICY_METHODS if not callable(getattr(kind, method, None))]
    if missing:
        raise ConfigError(f"'{written}' lacks {', '.join(missing)}; docs/policies.md lists what a policy must have")
    try:
        policy = kind()
        configure = getattr(policy, "configure", None)
        if callable(configure):
            configure(dict(settings))
    except Exception as error:  # whatever third-party code may raise
        raise ConfigError(f"'{written}' cannot be instantiated: {type(error).__name__}: {error}") from error
    if not isinstance(policy, ReplicationPolicy):
        raise ConfigError(f"'{written}' makes a {type(policy).__name__}, which is not a policy")
    return policy


def filter_class(written: str, default: str) -> FilterClass | None:
    """The class that the value of a key such as ``topic.filter.class`` names, None for the lists of expressions.

    Args:
        default: Java's own class of lists, which means them.

    Raises:
        ConfigError: it cannot be imported, or is not such a class; the message has no file, line or key.
    """
    module, _, name = written.rpartition(".")
    if name == default and module in ("", "org.apache.kafka.connect.mirror"):
        return None
    otherwise = f"{default}, or the dotted path of a Python class"
    if not module:
        raise ConfigError(f"there is no filter '{written}'; use {otherwise}")
    kind = _load(written, otherwise)
    if not isinstance(kind, type) or not callable(getattr(kind, "accepts", None)):
        raise ConfigError(f"'{written}' is not a class with a method accepts(name); docs/filters.md shows one")
    return FilterClass(written, kind)


def load_function(written: str) -> Callable[..., object]:
    """What ``package.module:function`` leads to.

    Raises:
        ConfigError: it cannot be imported, or called; the message has no file, line or key.
    """
    try:
        found = _load(written.replace(":", "."), "a function that is installed wherever slots run")
    except ConfigError as error:
        raise ConfigError(error.reason.replace(written.replace(":", "."), written)) from error
    if not callable(found):
        raise ConfigError(f"'{written}' is a {type(found).__name__}, which cannot be called")
    return found


def code_digest(written: str) -> str | None:
    """Of the file of the module that ``package.module:function`` names, which is not imported; None where it is not
    installed, or is no file. What it imports is not part of it."""
    module = written.partition(":")[0] if ":" in written else written.rpartition(".")[0]
    spec: ModuleSpec | None = None
    search: Sequence[str] | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), search)
        if spec is None:
            return None
        search = spec.submodule_search_locations or []
    read = getattr(spec and spec.loader, "get_data", None)
    if spec is None or not spec.has_location or read is None:
        return None
    try:
        return hashlib.sha256(read(spec.origin)).hexdigest()[:12]
    except OSError:  # it went away since it was found
        return None


def resolved(path: str) -> Any:
    """The object at a dotted path; errors of the imported code are passed on."""
    module, _, name = path.rpartition(".")
    return pkgutil.resolve_name(f"{module}:{name}")


def _load(written: str, otherwise: str) -> object:
    """What the dotted path leads to. ``otherwise``: what to write where it leads nowhere."""
    module, _, name = written.rpartition(".")
    try:
        return resolved(written)
    except Exception as error:  # an import runs the user's code
        if isinstance(error, AttributeError) and error.name == name and error.obj is sys.modules.get(module):
            raise ConfigError(f"module '{module}' has no '{name}'") from None
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            reason = f"there is no Python module '{error.name}' here (Java classes are not loaded)"
        raise ConfigError(f"'{written}' cannot be imported: {reason}; use {otherwise}") from error


def _aliases(flow: FlowName) -> dict[str, str]:
    return {"source.cluster.alias": flow.source, "target.cluster.alias": flow.target}
