"""Connect's single message transforms (KIP-66) and predicates (KIP-585) as a flow configures them, read and checked.

A record passes through the steps in order; a predicate may limit a step to some records. MirrorMaker 2 passes keys and
values to its transforms as bytes, so only transforms that do not use fields work there. Here, transforms of fields work
as well, if the flow declares the format of keys or values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from srm_common.domain.patterns.java_regex import RegexError, compile_java_regex
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.field_steps import (
    FIELD_TRANSFORMS,
    TRANSFORMS_PACKAGE,
    FieldStep,
    HeaderFrom,
    field_step,
)
from srm_common.domain.transforms.formats import (
    FORMAT_KEYS,
    HEADER_CONVERTER,
    WITH_REGISTRY,
    FormatKind,
    HeaderConverter,
    header_converter,
)

#: What Java's ``trim`` takes off settings.
_TRIMMED = "".join(map(chr, range(33)))
PREDICATES_PACKAGE = f"{TRANSFORMS_PACKAGE}predicates."


class StepKind(Enum):
    """Transforms that are carried out, by the names of Kafka's classes."""

    FILTER = "Filter"
    INSERT_HEADER = "InsertHeader"
    DROP_HEADERS = "DropHeaders"
    #: Any of those that look into keys or values.
    FIELDS = "fields"


class PredicateKind(Enum):
    """Predicates, by the names of Kafka's classes."""

    TOPIC_NAME = "TopicNameMatches"
    HEADER_KEY = "HasHeaderKey"
    TOMBSTONE = "RecordIsTombstone"


@dataclass(frozen=True, slots=True)
class Predicate:
    """``argument``: the expression that a topic's name matches as a whole, or the header's name."""

    alias: str
    kind: PredicateKind
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One transform. ``arguments``: name and literal value of the header, or the names of headers; ``fields``: what one
    of fields does; ``header_converter``: what writes the headers that it makes. It is for the records that
    ``predicate`` holds for, or with ``negate`` for the others; without one for all."""

    alias: str
    kind: StepKind
    arguments: tuple[str, ...] = ()
    predicate: Predicate | None = None
    negate: bool = False
    fields: FieldStep | None = None
    header_converter: HeaderConverter = HeaderConverter.SIMPLE

    @property
    def class_name(self) -> str:
        """Kafka's class by its full name."""
        return TRANSFORMS_PACKAGE + (self.kind.value if self.fields is None else self.fields.class_name)

    def concerns(self, copy: str) -> bool:
        """Whether it is for any record of a topic, by the copy's name; a predicate on names decides it for all."""
        predicate = self.predicate
        if predicate is None or predicate.kind is not PredicateKind.TOPIC_NAME:
            return True
        return compile_java_regex(predicate.argument).matches(copy) != self.negate


Chain = tuple[Step, ...]
#: What the keys begin with that a chain is made of.
CHAIN_KEYS = ("transforms", "predicates", *FORMAT_KEYS, HEADER_CONVERTER)


def parse_chain(values: Mapping[str, str]) -> Chain:
    """The steps that keys ``transforms``, ``transforms.*``, ``predicates`` and ``predicates.*`` ask for; those of
    fields with ``key.format``, ``value.format``, ``key.converter*`` and ``value.converter*``, those that make headers
    with ``header.converter*``.

    Raises:
        TransformFault: the first key that is missing, wrong, or asks for what is not carried out.
    """
    predicates = {alias: _predicate(alias, values) for alias in _aliases("predicates", values)}
    return tuple(_step(alias, values, predicates) for alias in _aliases("transforms", values))


def makes_headers(written: str) -> bool:
    """Whether a transform's class adds headers to records; with or without its package."""
    simple = written.strip().removeprefix(TRANSFORMS_PACKAGE).partition("$")[0]
    return simple in (StepKind.INSERT_HEADER.value, HeaderFrom.__name__)


def schema_formats(chain: Chain) -> list[FormatKind]:
    """The formats that steps need, of those whose schemas are in a registry."""
    formats = [one for step in chain if step.fields for one in (step.fields.format, step.fields.key_format)]
    kinds = {one.kind for one in formats if one is not None}
    return [kind for kind in WITH_REGISTRY if kind in kinds]


def _aliases(key: str, values: Mapping[str, str]) -> list[str]:
    aliases = [alias.strip() for alias in values.get(key, "").split(",")]
    aliases = [alias for alias in aliases if alias]
    for alias in aliases:
        if aliases.count(alias) > 1:
            raise TransformFault(key, f"names '{alias}' twice")
    return aliases


def _required(key: str, what: str, values: Mapping[str, str]) -> str:
    text = values.get(key, "").strip()
    if not text:
        raise TransformFault(key, f"is missing: {what}")
    return text


def _class_name(key: str, what: str, package: str, values: Mapping[str, str]) -> str:
    """The simple name, with ``$Key`` or ``$Value`` where it has one; Connect takes both that and Java's full one."""
    return _required(key, f"the class of the {what}", values).removeprefix(package)


def _predicate(alias: str, values: Mapping[str, str]) -> Predicate:
    key = f"predicates.{alias}.type"
    name = _class_name(key, "predicate", PREDICATES_PACKAGE, values)
    try:
        kind = PredicateKind(name)
    except ValueError:
        known = ", ".join(kind.value for kind in PredicateKind)
        raise TransformFault(key, f"is '{name}'; Kafka's own predicates are known: {known}") from None
    if kind is PredicateKind.TOMBSTONE:
        return Predicate(alias, kind)
    if kind is PredicateKind.HEADER_KEY:
        return Predicate(alias, kind, _required(f"predicates.{alias}.name", "the header's name", values))
    pattern_key = f"predicates.{alias}.pattern"
    pattern = _required(pattern_key, "an expression for names of topics", values)
    try:
        compile_java_regex(pattern)
    except RegexError as error:
        raise TransformFault(pattern_key, f"cannot be used: {error}") from None
    return Predicate(alias, kind, pattern)


def _step(alias: str, values: Mapping[str, str], predicates: Mapping[str, Predicate]) -> Step:
    kind, arguments, fields = _kind(alias, values)
    predicate_key, negate_key = f"transforms.{alias}.predicate", f"transforms.{alias}.negate"
    named = values.get(predicate_key, "").strip()
    if named and named not in predicates:
        raise TransformFault(predicate_key, f"is '{named}', which predicates does not name")
    negate = values.get(negate_key, "false").strip().lower()
    if negate not in ("true", "false"):
        raise TransformFault(negate_key, f"must be true or false, but is '{negate}'")
    if negate == "true" and not named:
        raise TransformFault(negate_key, f"is true, but {predicate_key} names no predicate")
    step = Step(alias, kind, arguments, predicates.get(named), negate == "true", fields)
    return replace(step, header_converter=header_converter(values)) if makes_headers(step.class_name) else step


def _kind(alias: str, values: Mapping[str, str]) -> tuple[StepKind, tuple[str, ...], FieldStep | None]:
    key = f"transforms.{alias}.type"
    name = _class_name(key, "transform", TRANSFORMS_PACKAGE, values)
    if name in _REFUSED:
        raise TransformFault(key, f"is {name}, {_REFUSED[name]}")
    fields = field_step(alias, name, values)
    if fields is not None:
        return StepKind.FIELDS, (), fields
    kind = next((kind for kind in _ARGUMENTS if kind.value == name), None)
    if kind is None:
        known = ", ".join([*(kind.value for kind in _ARGUMENTS), *FIELD_TRANSFORMS])
        raise TransformFault(key, f"is '{name}', a Java class that is not loaded; known are {known}")
    return kind, _ARGUMENTS[kind](alias, values), None


def _inserted(alias: str, values: Mapping[str, str]) -> tuple[str, ...]:
    name = _required(f"transforms.{alias}.header", "the name of the header to insert", values)
    key = f"transforms.{alias}.value.literal"
    if key not in values:
        raise TransformFault(key, "is missing: the value of the header to insert")
    return name, values[key].strip(_TRIMMED)


def _dropped(alias: str, values: Mapping[str, str]) -> tuple[str, ...]:
    text = _required(f"transforms.{alias}.headers", "the names of the headers to drop", values)
    return tuple(name.strip() for name in text.split(",") if name.strip())


_ARGUMENTS: Mapping[StepKind, Callable[[str, Mapping[str, str]], tuple[str, ...]]] = {
    StepKind.FILTER: lambda alias, values: (),
    StepKind.INSERT_HEADER: _inserted,
    StepKind.DROP_HEADERS: _dropped,
}
# Connect routes behind the replication policy, so that MirrorMaker 2 itself loses track: it creates the topics that the
# policy names, and its checkpoints name these although their offsets are of the topics routed to.
_REFUSED = {
    "RegexRouter": "which renames copies where neither the plan nor translated offsets know of it: name them with "
    "replication.policy.class (IdentityReplicationPolicy keeps names, a Python class may give any)",
    "TimestampRouter": "which spreads a partition over topics by the time of its records, so that offsets cannot be "
    "translated: remove it, and name copies with replication.policy.class",
}
