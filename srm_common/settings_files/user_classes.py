"""Python classes that the configuration names: the policy of ``replication.policy.class``, shipped or the user's own,
and the filters of ``topic.filter.class`` and the like."""

from __future__ import annotations

import ast
import hashlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
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

#: Packages of the shipped policies, and of those with the same behaviour in Kafka and in Cloudera's examples.
_SHIPPED_IN = frozenset({"", "srm_common.domain.policy", "org.apache.kafka.connect.mirror", "com.cloudera.dim.mirror"})
#: What to write instead of a class that cannot be loaded.
_OTHERWISE = f"{', '.join(SHIPPED_POLICIES)}, or the dotted path of a Python class"

_A_FUNCTION = "a function that is installed wherever slots run"
#: Code that uses one of these may bind names that it does not spell out.
_BINDS_ANYTHING = frozenset({"*", "__getattr__", "globals", "vars", "__dict__", "exec", "eval", "setattr", "modules"})


def policy_of(
    written: str, separator: str, separator_in_internal_names: bool, flow: FlowName, settings: Mapping[str, str]
) -> ReplicationPolicy:
    """The policy of one flow.

    A class of the user is instantiated without arguments. If it has a method ``configure``, that is called once
    with a mapping of text: ``source.cluster.alias``, ``target.cluster.alias`` and every key of ``settings``.

    Args:
        written: the value of ``replication.policy.class``.
        settings: the keys that begin with ``replication.policy.``, as the flow sees them.

    Raises:
        ConfigError: the class cannot be imported, instantiated or configured, or lacks methods; the message has no
            file, line or key.
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
        raise ConfigError(f"'{written}' creates a {type(policy).__name__}, which is not a policy")
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


def load_function(written: str, otherwise: str = _A_FUNCTION) -> Callable[..., object]:
    """What ``package.module:function`` leads to. ``otherwise``: what to write where it leads nowhere.

    Raises:
        ConfigError: it cannot be imported, or called; the message has no file, line or key.
    """
    try:
        found = _load(written.replace(":", "."), otherwise)
    except ConfigError as error:
        raise ConfigError(error.reason.replace(written.replace(":", "."), written)) from error
    if not callable(found):
        raise ConfigError(f"'{written}' is a {type(found).__name__}, which cannot be called")
    return found


def check_function(written: str) -> str | None:
    """What is wrong with the function that ``package.module:function`` names, as far as its file shows: it is not
    imported, since it may need packages that only slots have.

    Returns:
        a sentence if no such module is installed here, as it may be where slots run; None if nothing is wrong.

    Raises:
        ConfigError: the file is not Python, or binds no such name; the message is that of :func:`load_function`.
    """
    module, name = _parts(written)
    spec = _found(module)
    if isinstance(spec, str):
        return f"'{written}' cannot be imported: there is no Python module '{spec}' here; use {_A_FUNCTION}"
    code = _code(spec)
    if code is None:
        return None
    try:
        tree = ast.parse(code, spec.origin or module)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(
            f"'{written}' cannot be imported: {type(error).__name__}: {error}; use {_A_FUNCTION}"
        ) from error
    if not _may_bind(tree, name):
        raise ConfigError(f"module '{module}' has no '{name}'")
    return None


def code_digest(written: str) -> str | None:
    """Of the file of the module that ``package.module:function`` names, which is not imported; None where it is not
    installed, or is no file. What it imports is not part of it."""
    spec = _found(_parts(written)[0])
    code = None if isinstance(spec, str) else _code(spec)
    return None if code is None else _digest(code)


def loaded_digest(written: str) -> str | None:
    """As :func:`code_digest`, of the module as this process has loaded it: a file that is replaced afterwards has no
    effect here. Call it after :func:`load_function`."""
    module = sys.modules.get(_parts(written)[0])
    return None if module is None else _digest_at_first(module)


@cache
def _digest_at_first(module: ModuleType) -> str | None:
    code = None if module.__spec__ is None else _code(module.__spec__)
    return None if code is None else _digest(code)


def _digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()[:12]


def _parts(written: str) -> tuple[str, str]:
    """The module and the name in it."""
    module, colon, name = written.partition(":")
    if colon:
        return module, name
    module, _, name = written.rpartition(".")
    return module, name


def _found(module: str) -> ModuleSpec | str:
    """The spec of a module, without importing its parents; or the name of the first of them that is not installed."""
    spec: ModuleSpec | None = None
    search: Sequence[str] | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec = PathFinder.find_spec(name, search)
        if spec is None:
            return name
        search = spec.submodule_search_locations or []
    return module if spec is None else spec


def _code(spec: ModuleSpec) -> bytes | None:
    """The file of a module; None where there is none."""
    read = getattr(spec.loader, "get_data", None)
    if not spec.has_location or read is None:
        return None
    try:
        return bytes(read(spec.origin))
    except OSError:  # it was removed after it was found
        return None


def _may_bind(tree: ast.Module, name: str) -> bool:
    """Whether a module may bind a name anywhere in its code."""
    if "." in name:
        return True
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                names = {found}
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names = {(alias.asname or alias.name).split(".")[0] for alias in aliases}
            case ast.Name(id=found) | ast.Attribute(attr=found):
                names = {found}
            case _:
                continue
        if names & {name, *_BINDS_ANYTHING}:
            return True
    return False


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
